"""Evidence in addition to the last answer: every repetition, a run on other inputs, and the plausibility of times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from harness.campaign.measurement import reset
from harness.campaign.plausibility import Repetition, Witness, too_fast, worked_before
from harness.campaign.reference import varied_answer
from harness.campaign.variation import Varied, varied_run
from harness.campaign.verdict import verdict
from harness.language.initial_state import Start
from harness.language.monotone import OneWay, one_way
from harness.language.program import edge_steps
from harness.language.replay import lost_updates, replay
from harness.language.residual import residual
from harness.language.validation import Comparison, compare
from harness.records.outcome import Outcome

if TYPE_CHECKING:
    from harness.campaign.cell import Cell
    from harness.campaign.guarded_engine import GuardedEngine
    from harness.campaign.measurement import Timing
    from harness.campaign.ordered_check import Ordered
    from harness.campaign.plausibility import Values
    from harness.campaign.problem import Problem
    from harness.language.sampled import Sample

# Two answers that are each within the bound of the true one differ by at most this many bounds.
_APART = 2.0


@dataclass(frozen=True)
class Evidence:
    """Evidence for an answer and its times.

    ``differing``: answers of repetitions that differ from the first, only the part of ``read`` if it is a sample.
    ``varied``: a run on other inputs (None for warm runs). ``implausible``: why the times are implausible, or an empty
    text.
    """

    differing: tuple[Repetition, ...]
    read: Sample | None
    varied: Varied | None
    implausible: str


def gather(
    engine: GuardedEngine, cell: Cell, problem: Problem, timing: Timing, witness: Witness, late: str,
    sample: Sample | None,
) -> Evidence:  # fmt: skip
    """Run on other inputs and check the times. The engine is prepared; its answer has been read."""
    varied = None
    if problem.start is None:
        varied = varied_run(
            engine, problem.program, problem.graph, problem.features, problem.inputs, problem.max_supersteps, timing,
            sample,
            in_order=bool(cell.validate and edge_steps(problem.program)),
        )  # fmt: skip
    fast = too_fast(min(timing.samples), timing.statistics.edges, cell.device)
    before = worked_before(
        timing.reset_s, timing.interval.median, problem.state_bytes,
        lambda: reset(engine, problem.inputs, problem.start),
    )  # fmt: skip
    reasons = [late, before, fast, varied.slow if varied is not None else ""]
    return Evidence(tuple(witness.differing), witness.sample, varied, "; ".join(filter(None, reasons)))


def scrutinize(
    cell: Cell, problem: Problem, values: Values, evidence: Evidence, sample: Sample | None,
    ordered: Ordered | None = None,
) -> tuple[Outcome, str]:  # fmt: skip
    """Return the outcome and the reason by the evidence, for a cell whose last answer is ok.

    An implausible time is not a result: its outcome never counts as a win.
    """
    if cell.validate:
        last = None if sample is None else _part(values, evidence.read)
        for one in evidence.differing:
            outcome, reason = _repetition(cell, problem, one, last, ordered)
            if outcome is not Outcome.OK:
                return outcome, f"timed run {one.number}: {reason}"
        wrong = _varied(problem, evidence.varied, sample) if evidence.varied is not None else ""
        if wrong:
            return Outcome.WRONG, wrong
    return (Outcome.IMPLAUSIBLE, evidence.implausible) if evidence.implausible else (Outcome.OK, "")


def _part(values: Values, read: Sample | None) -> Values:
    """Return the part of an answer that belongs to a sample; all of it if there is none."""
    return values if read is None else {name: read.results_of(name, array) for name, array in values.items()}


def _repetition(
    cell: Cell, problem: Problem, one: Repetition, last: Values | None, ordered: Ordered | None
) -> tuple[Outcome, str]:
    """Validate the answer of one repetition: by that of the last one, or by the reference if ``last`` is None."""
    if last is None:
        outcome, reason, _ = verdict(
            cell, problem, one.values, settled=one.settled, supersteps=one.supersteps, ordered=ordered
        )
        return outcome, reason
    found = compare(problem.program, one.values, last)
    if found.ok or found.excess <= _APART:
        return Outcome.OK, ""
    return Outcome.WRONG, f"its answer differs from that of the last run: {found.detail}"


def _varied(problem: Problem, varied: Varied, sample: Sample | None) -> str:
    """Return why the answer to other inputs is wrong; an empty text if it is right."""
    if any(lost_updates(order) is not None for order in varied.orders):
        return ""  # without an order there is nothing to compare: metrics are those of the given ratings
    if varied.orders:
        exact = replay(problem.program, problem.graph, problem.features, varied.inputs, varied.orders)
        found = compare(problem.program, varied.values, exact)
    elif varied.supersteps is None:
        found = settled_on(problem, varied, sample)
    elif sample is None:
        answer = varied_answer(problem)
        found = compare(problem.program, varied.values, answer.values)
    else:
        reduced = sample.reduced(problem.graph, varied.inputs, problem.features, None)
        found = sample.compared(varied.inputs, problem.features, None, varied.values, reduced=reduced)
    if found.ok:
        return ""
    when = "at the end" if varied.supersteps is None else f"after {varied.supersteps} supersteps"
    sampled = sample is not None and varied.supersteps is not None and not varied.orders
    of = "of the sample, " if sampled else ""  # in which its vertices have other numbers
    return f"on other inputs (rotated among the vertices), {when}: {of}{found.detail}"


def settled_on(problem: Problem, varied: Varied, sample: Sample | None) -> Comparison:
    """Compare a settled answer on other inputs with its next superstep in float64, and with its start.

    Values of a program that moves in one direction never lie beyond the start. This shows what the next superstep does
    not: the answer to other sources is at rest too.
    """
    program, graph, features, state = problem.program, problem.graph, problem.features, varied.values
    way = one_way(program)
    if isinstance(way, OneWay):
        prop = program.properties[way.state]
        start = Start(program, graph, features, varied.inputs, {}).of(prop)
        beyond = np.count_nonzero(way.sign * np.asarray(state[way.state], np.float64) > way.sign * start)
        if beyond:
            return Comparison(False, np.inf, 0.0, f"{beyond} values of {way.state} lie beyond their start")
    if sample is None:
        return residual(program, graph, features, varied.inputs, state)
    sample = sample.with_heaviest(graph, state)
    reduced = sample.reduced(graph, varied.inputs, features, state)
    part = {name: sample.part_of(name, values) for name, values in state.items()}
    return sample.rests(varied.inputs, features, part, whole=state, reduced=reduced)
