"""Time to equal accuracy: an engine's time to the first answer within the program's bound.

Each engine applies the stopping criterion to its own values, so runs end at different accuracies. Therefore runs to the
first superstep whose answer is within the bound of the converged float64 answer are compared. An engine that counts no
supersteps is compared by its run with the largest tolerance whose answer is within that bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from harness.campaign.environment import Bystanders
from harness.campaign.measurement import Timing, answer_of, marks_of, measure_engine, reset, spare_cores, watched_cores
from harness.campaign.reference import converged
from harness.contract import Phases
from harness.language.validation import compare

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from harness.campaign.cell import Cell, Measure
    from harness.campaign.child_report import ChildReport
    from harness.campaign.guarded_engine import GuardedEngine
    from harness.campaign.problem import Problem
    from harness.contract import Engine
    from harness.language import Inputs
    from harness.language.algorithm import Answer
    from harness.records import Mark

# The search takes about eight runs of most of the supersteps, and the timing the same number again.
_RUNS = 16
# Runs of a non-deterministic engine differ by rounding. A timed run whose error exceeds this many bounds did different
# work from the run of the search.
_SCATTER = 2.0
# Factors of the tolerance: the largest one tried, and one up to which the error may stay that of float32 rounding.
_MOST_FACTOR, _UNCHANGED = 4096.0, 64.0


@dataclass(frozen=True)
class Distance:
    """The distance of an answer from the converged one: whether it is ``within`` the bound, and its largest
    ``error``."""

    within: bool
    error: float
    bound: float


@dataclass(frozen=True)
class Crossing:
    """The first ``superstep`` found within the bound, its distance, and the distance one superstep earlier.

    ``before`` is None for the first superstep of a run.
    """

    superstep: int
    at: Distance
    before: Distance | None


def target_of(cell: Cell, problem: Problem) -> Answer | None:
    """Return the converged float64 answer; None if time to equal accuracy is undefined or not requested.

    It is defined for programs that converge to a tolerance and may run until they do. It is undefined if the cell
    limits the supersteps, for warm runs, and for programs of several phases.
    """
    control = problem.program.control
    if (
        problem.several_phases
        or not cell.measure.accuracy
        or cell.validate is not True
        or problem.start is not None
        or problem.by_residual
    ):
        return None
    if not control.settles or control.tolerance is None or problem.max_supersteps < problem.program.max_supersteps:
        return None
    return converged(problem)


def distance(problem: Problem, target: Answer, values: Mapping[str, NDArray[Any]]) -> Distance:
    """Return the distance of an answer from the converged one, by the comparison that validation uses.

    Every entry has its own bound, so the error is in units of the bound.
    """
    found = compare(problem.program, values, target.values, target.allowances or None)
    return Distance(found.ok, float(found.excess), 1.0)


def tell_accuracy(
    engine: GuardedEngine, cell: Cell, problem: Problem, target: Answer, values: Mapping[str, NDArray[Any]],
    timing: Timing, report: ChildReport, phases: Phases,
) -> list[Mark]:  # fmt: skip
    """Record the time to equal accuracy; return the caveats of its timing.

    ``values``, ``timing``: the answer at the engine's own stop, and the runs to it.
    """
    report.stage("accuracy")
    with engine.use.alone(), phases("accuracy"):
        bystanders = Bystanders(watched_cores(cell.device))
        at_stop = distance(problem, target, values)
        fields, timed = accuracy_of(engine, problem, target, timing, at_stop, cell.measure)
        others = bystanders.cores()
    report.tell(accuracy=fields)
    if timed is None:
        return []
    spare = spare_cores(cell.device)
    return marks_of(timed, cell.measure, others, spare_cores=spare, throttled=bystanders.throttled())


def accuracy_of(
    engine: Engine, problem: Problem, target: Answer, timing: Timing, at_stop: Distance, measure: Measure
) -> tuple[dict[str, Any], Timing | None]:
    """Return the ``accuracy`` field of a record, and the timed runs to that superstep (None if there are none).

    ``timing``, ``at_stop``: the runs to the engine's own stop, and the distance of their answer.
    """
    last = len(timing.statistics.supersteps)
    fields: dict[str, Any] = {
        "superstep": None, "tolerance": None, "error": at_stop.error, "error_before": math.nan, "bound": at_stop.bound,
        "against": target.method, "solve": None,
    }  # fmt: skip
    if not engine.stepwise:
        return _by_tolerance(engine, problem, target, timing, at_stop, measure, fields)
    if not at_stop.within or _RUNS * timing.interval.median > measure.cap_s:
        return fields, None

    def probe(supersteps: int) -> Distance:
        reset(engine, problem.inputs)
        engine.run(supersteps)
        return distance(problem, target, answer_of(engine, problem.program.outputs))

    found = first_within(probe, last, at_stop)
    if found.superstep < last:
        # The engine is warm, and the timed code is the same.
        measure = replace(measure, warmup_s=0.0)
        earlier = measure_engine(engine, problem.inputs, found.superstep, measure, Phases())
        timed = distance(problem, target, answer_of(engine, problem.program.outputs))
        if timed.error > _SCATTER * timed.bound:
            return fields | {"error": timed.error}, None
        if earlier.interval.low <= timing.interval.high:  # else other work disturbed these runs: a part of a run takes
            timing = earlier  # no longer than the run
    before = math.nan if found.before is None else found.before.error
    fields |= {"superstep": found.superstep, "error": found.at.error, "error_before": before, "solve": timing.plain()}
    return fields, timing


def _by_tolerance(
    engine: Engine, problem: Problem, target: Answer, timing: Timing, at_stop: Distance, measure: Measure,
    fields: dict[str, Any],
) -> tuple[dict[str, Any], Timing | None]:  # fmt: skip
    """Return what :func:`accuracy_of` returns, for an engine that solves the whole problem to a tolerance."""
    name = str(problem.program.control.tolerance)
    given = {**problem.program.parameters, **problem.inputs.parameters}
    if not at_stop.within or _RUNS * timing.interval.median > measure.cap_s:
        return fields, None

    def with_factor(factor: float) -> Inputs:
        return replace(problem.inputs, parameters={**given, name: factor * given[name]})

    def probe(factor: float) -> Distance:
        engine.reset(with_factor(factor))
        engine.run(problem.max_supersteps)
        return distance(problem, target, answer_of(engine, problem.program.outputs))

    factor, at, beyond = loosest_within(probe, at_stop)
    if factor > 1:
        measure = replace(measure, warmup_s=0.0)
        looser = measure_engine(engine, with_factor(factor), problem.max_supersteps, measure, Phases())
        if looser.interval.median < timing.interval.median:
            timing = looser
        else:  # such as a solver that iterates in large blocks; the own stop is within the bound too
            factor, at = 1.0, at_stop
    before = math.nan if beyond is None else beyond.error
    found = {"tolerance": factor * given[name], "error": at.error, "error_before": before, "solve": timing.plain()}
    return fields | found, timing


def loosest_within(probe: Callable[[float], Distance], at_one: Distance) -> tuple[float, Distance, Distance | None]:
    """Return the largest factor of the tolerance found within the bound, its distance, and that of a larger factor.

    ``probe`` returns the distance of the answer with a factor; ``at_one`` must be within the bound. The factor doubles
    while the answer is within the bound. The search ends if factors up to _UNCHANGED do not change the error. Else the
    interval is halved twice, to a fourth root of 2. The third result is None if no answer was beyond the bound.
    """
    factor, at, beyond = 1.0, at_one, None
    while factor < _MOST_FACTOR:
        found = probe(2 * factor)
        if not found.within:
            beyond = found
            break
        factor, at = 2 * factor, found
        if factor == _UNCHANGED and at.error == at_one.error:
            return 1.0, at_one, None
    for step in (2**0.5, 2**0.25) if beyond is not None else ():
        found = probe(step * factor)
        if found.within:
            factor, at = step * factor, found
        else:
            beyond = found
    return factor, at, beyond


def first_within(probe: Callable[[int], Distance], last: int, at_last: Distance) -> Crossing:
    """Return a superstep within the bound whose predecessor is not; ``at_last`` must be within it.

    ``probe`` returns the distance after a number of supersteps. Converging iterations reduce the error by a nearly
    constant factor, so the next superstep is interpolated in the logarithm of the error. If that does not halve the
    bracket, the next one is its middle, so that there are at most about 2 log2(last) probes. Both ends of the result
    have been probed. If the error rises above the bound again later, the result is one of several crossings.
    """
    low, high = 0, last
    at_low: Distance | None = None
    at_high = at_last
    halve = True
    while high - low > 1:
        middle = (low + high) // 2
        guess = middle if halve or at_low is None else _interpolated(low, at_low, high, at_high)
        width = high - low
        found = probe(guess)
        if found.within:
            high, at_high = guess, found
        else:
            low, at_low = guess, found
        halve = not halve and high - low > width // 2
    return Crossing(high, at_high, at_low)


def _interpolated(low: int, at_low: Distance, high: int, at_high: Distance) -> int:
    """Return the superstep at which an error that falls by a constant factor reaches the bound."""
    above, below = (math.log(max(one.error, 1e-300) / max(one.bound, 1e-300)) for one in (at_low, at_high))
    if not math.isfinite(above) or not math.isfinite(below) or above <= below:
        return (low + high) // 2
    place = low + (high - low) * above / (above - below)
    return min(max(math.ceil(place), low + 1), high - 1)
