"""Timing one prepared engine: warm-up, then repetitions until the median is known well enough."""

from __future__ import annotations

import gc
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.campaign.cell import Measure
from harness.campaign.statistics import Interval, median_interval
from harness.contract import Engine, Phases, RunStatistics

if TYPE_CHECKING:
    from harness.language import Inputs

# Three times that happen to be close say nothing about the interval; and since looking at it takes longer than a short
# run, it is looked at when there are half as many samples again.
_FIRST_LOOK, _GROWTH = 6, 1.5
_MOST_SAMPLES = 1000
_WARM_UP_STEPS = 4


@dataclass(frozen=True)
class Timing:
    """Every sample in seconds, their median with its interval, and what the last run did."""

    samples: list[float]
    interval: Interval
    statistics: RunStatistics

    def plain(self) -> dict[str, Any]:
        """The ``solve`` field of a record."""
        return {
            "samples": self.samples,
            "median": self.interval.median,
            "low": self.interval.low,
            "high": self.interval.high,
            "minimum": min(self.samples),
            "confidence": self.interval.confidence,
        }


def measure_engine(engine: Engine, inputs: Inputs, max_supersteps: int, measure: Measure, phases: Phases) -> Timing:
    """Warm up, then time ``run``; every run starts from the same inputs, which are set outside the clock.

    Stops when there are ``measure.repetitions`` samples and the interval is narrow enough or the budget is spent.
    """
    with phases("warm_up"):
        _warm_up(engine, inputs, max_supersteps, measure.warmup_s)
    samples: list[float] = []
    next_look = _FIRST_LOOK
    gc.collect()
    gc.disable()
    try:
        while len(samples) < max(measure.repetitions, _MOST_SAMPLES):
            engine.reset(inputs)
            began = time.perf_counter()
            statistics = engine.run(max_supersteps)
            samples.append(time.perf_counter() - began)
            if len(samples) < measure.repetitions:
                continue
            if sum(samples) >= measure.budget_s:
                break
            if len(samples) >= next_look:
                if median_interval(samples).width <= measure.width:
                    break
                next_look = int(len(samples) * _GROWTH)
    finally:
        gc.enable()
    return Timing(samples, median_interval(samples), statistics)


def _warm_up(engine: Engine, inputs: Inputs, max_supersteps: int, limit_s: float) -> None:
    """One run, given up between supersteps once ``limit_s`` have passed: a long run warms up long before its end."""
    engine.reset(inputs)
    began = time.perf_counter()
    for done in range(0, max_supersteps, _WARM_UP_STEPS):
        statistics = engine.run(min(_WARM_UP_STEPS, max_supersteps - done))
        if statistics.settled or time.perf_counter() - began > limit_s:
            return
