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

# A median of three repetitions whose range happens to be narrow says nothing about its interval.
_FEWEST_TO_STOP_EARLY = 6


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
        for _ in range(measure.warmup):
            engine.reset(inputs)
            engine.run(max_supersteps)
    samples: list[float] = []
    gc.collect()
    gc.disable()
    try:
        while not _enough(samples, measure):
            engine.reset(inputs)
            began = time.perf_counter()
            statistics = engine.run(max_supersteps)
            samples.append(time.perf_counter() - began)
    finally:
        gc.enable()
    return Timing(samples, median_interval(samples), statistics)


def _enough(samples: list[float], measure: Measure) -> bool:
    if len(samples) < measure.repetitions:
        return False
    if sum(samples) >= measure.budget_s:
        return True
    return len(samples) >= _FEWEST_TO_STOP_EARLY and median_interval(samples).width <= measure.width
