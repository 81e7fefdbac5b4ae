"""Timing of a prepared engine: warm-up, then repetitions until the median is precise enough."""

from __future__ import annotations

import gc
import math
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from harness import clock
from harness.campaign.cell import Measure
from harness.campaign.guarded_engine import guarded
from harness.contract import Device, Engine, Phases, RunStatistics
from harness.records import Mark
from harness.records.statistics import FEWEST_SAMPLES, Interval, median_interval, trend
from harness.supersteps import choices_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from harness.language import Inputs
    from harness.language.warm import WarmStart

# Each check of the interval may stop at one that is narrow by chance, so checks become rarer.
_FIRST_LOOK, _GROWTH = FEWEST_SAMPLES, 1.5
_MOST_SAMPLES = 1000
_UNTIMED = 10  # budgets that resets of the engine and readings of its answers may take
_WARM_UP_STEPS = 2  # both sides of a bipartite graph
# Below this, a disturbance cannot be distinguished from the system's own work and the granularity of its clock.
_DISTURBING_CORES = 0.2
_CORES_OF_A_GPU = 2  # one launches kernels, one serves the driver

Stop = Literal["precise", "budget", "count"]


@dataclass(frozen=True)
class Timing:
    """Every sample in seconds, their median with its interval, why sampling stopped, and the statistics of the last
    run; ``reset_s``: the seconds of the shortest reset before a run."""

    samples: list[float]
    interval: Interval
    stopped: Stop
    statistics: RunStatistics
    reset_s: float = 0.0

    def plain(self) -> dict[str, Any]:
        """Return the ``solve`` field of a record."""
        return {
            "samples": self.samples,
            "median": self.interval.median,
            "low": self.interval.low,
            "high": self.interval.high,
            "minimum": min(self.samples),
            "confidence": self.interval.confidence,
            "stopped": self.stopped,
            "rounds": None,
        }

    def supersteps(self) -> list[list[Any]]:
        """Return the ``supersteps`` field of a record."""
        return [[step.active, step.edges, step.direction] for step in self.statistics.supersteps]

    def choices(self) -> list[list[Any]]:
        """Return the ``choices`` field of a record."""
        return choices_of(self.statistics.supersteps)


def measure_engine(
    engine: Engine,
    inputs: Inputs,
    max_supersteps: int,
    measure: Measure,
    phases: Phases,
    start: WarmStart | None = None,
    look: Callable[[RunStatistics], None] = lambda statistics: None,
    warmed: Callable[[], object] = lambda: None,
    first: Callable[[], tuple[float, RunStatistics]] | None = None,
) -> Timing:
    """Warm up, then time ``run``; every run starts from the same inputs (and warm ``start``), set outside the clock.

    ``look`` is called after every timed run, outside the clock; ``warmed`` once after the warm-up. ``first`` is a run
    that is done before the others, for another purpose, and returns its seconds and statistics. It is the only sample
    if it is so long that there is only one, and no sample otherwise.

    There are at least ``measure.repetitions`` samples. Sampling stops once the interval is narrow enough or the budget
    is used up, or once resets and readings between runs have taken ten times the budget. Only the hard cap
    ``measure.cap_s`` ends it earlier, see :func:`_enough`. Stopping at a narrow interval favours intervals that are
    narrow by chance; the intervals are wide enough to allow for that. Of 600 simulated cells of 10 ms for each of four
    log-normal spreads (1, 3, 10 and 30 %), 97 to 99 % of the intervals contained the true median.
    """
    checked = guarded(engine)
    with phases("warm_up"):
        _warm_up(checked, inputs, max_supersteps, measure.warmup_s, start)
        warmed()
    samples: list[float] = []
    reset_s = math.inf
    stopped: Stop | None = None
    next_look = _FIRST_LOOK
    began = clock.perf_counter()
    gc.collect()
    gc.disable()
    try:
        if first is not None:
            with phases("check"):
                seconds, statistics = first()
            if _too_long(seconds, measure):
                samples, stopped = [seconds], "budget"
                with phases("read"):
                    look(statistics)
            began = clock.perf_counter()
        while stopped is None:
            with phases("reset"):
                resetting = clock.perf_counter()
                reset(engine, inputs, start)
                reset_s = min(reset_s, clock.perf_counter() - resetting)
            seconds, statistics = checked.timed_run(max_supersteps)
            samples.append(seconds)
            with phases("read"):
                look(statistics)
            stopped = _enough(samples, measure, look=len(samples) >= next_look)
            untimed = clock.perf_counter() - began - sum(samples)
            if stopped is None and len(samples) >= measure.repetitions and untimed > _UNTIMED * measure.budget_s:
                stopped = "budget"
            if len(samples) >= next_look:
                next_look = int(len(samples) * _GROWTH)
    finally:
        gc.enable()
    return Timing(samples, median_interval(samples), stopped, statistics, reset_s)


def marks_of(
    timing: Timing, measure: Measure, other_cores: float, *, spare_cores: int = 0, throttled: bool = False
) -> list[Mark]:
    """Return the caveats of the times.

    ``other_cores``: how many cores other processes kept busy meanwhile. ``spare_cores``: how many of them the run does
    not need (:func:`spare_cores`). ``throttled``: whether a CPU quota was exhausted.
    """
    marks = [Mark.BUSY] if other_cores > spare_cores + _DISTURBING_CORES else []
    if throttled:
        marks.append(Mark.THROTTLED)
    if timing.interval.width > measure.width:
        marks.append(Mark.NOISY)
    if abs(trend(timing.samples)) > measure.width:
        marks.append(Mark.DRIFTING)
    return marks


def watched_cores(device: Device) -> set[int] | None:
    """Return the cores on which other work disturbs a run on the device; None: all of the machine.

    On a GPU they are the ones that this process may use, so that ``taskset`` can keep cells of several GPUs apart.
    """
    return None if device.kind == "cpu" else os.sched_getaffinity(0)


def spare_cores(device: Device) -> int:
    """Return how many cores a run on the device leaves to other processes: on a GPU all usable ones but two."""
    return 0 if device.kind == "cpu" else max(0, len(os.sched_getaffinity(0)) - _CORES_OF_A_GPU)


def answer_of(engine: Engine, names: Iterable[str]) -> dict[str, NDArray[Any]]:
    """Return the values of some properties."""
    return {name: engine.values(name) for name in names}


def _enough(samples: Sequence[float], measure: Measure, *, look: bool) -> Stop | None:
    """Return why sampling should stop; None if it should continue. ``look``: whether to check the interval."""
    elapsed = sum(samples)
    if _too_long(elapsed / len(samples), measure, len(samples)):
        return "budget"
    if len(samples) < measure.repetitions:
        return None
    if elapsed >= measure.budget_s:
        return "budget"
    if look and median_interval(samples).width <= measure.width:
        return "precise"
    return "count" if len(samples) >= max(measure.repetitions, _MOST_SAMPLES) else None


def _too_long(seconds: float, measure: Measure, samples: int = 1) -> bool:
    """Return whether runs of this duration are too long for more ``samples``.

    If the fewest samples that allow a verdict do not fit into the cap, there is one, since a few more would not allow a
    verdict either.
    """
    return seconds * max(samples + 1, min(measure.repetitions, FEWEST_SAMPLES)) > measure.cap_s


def reset(engine: Engine, inputs: Inputs, start: WarmStart | None = None) -> None:
    """Reset the engine to its start, cold or warm."""
    if start is None:
        engine.reset(inputs)
        return
    engine.reset(inputs, start.state)
    if start.stale is not None and start.senders is not None:
        engine.narrow(start.stale, start.senders)


def _warm_up(
    engine: Engine, inputs: Inputs, max_supersteps: int, limit_s: float, start: WarmStart | None = None
) -> None:
    """Run once, stopped between supersteps after ``limit_s`` seconds: a long run is warm long before its end.

    A limit of 0 means no run.
    """
    if limit_s == 0:
        return
    reset(engine, inputs, start)
    began = clock.perf_counter()
    for done in range(0, max_supersteps, _WARM_UP_STEPS):
        statistics = engine.run(min(_WARM_UP_STEPS, max_supersteps - done))
        if statistics.settled or clock.perf_counter() - began > limit_s:
            return
