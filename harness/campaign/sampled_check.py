"""Validation on graphs that are too large for a whole reference: supersteps checked on a sample of vertices.

The first superstep shows that the engine starts from the given state, the last one that its state follows from the
previous one. A run in parts stops before and after them, and both are compared with float64
(:mod:`harness.language.sampled`). A timed run that claims to be settled must also be at rest: one more superstep in
float64 from its final state may move the sample by at most the program's tolerance. Any other timed run must end in the
same state as the run in parts. If runs are so long that only one is timed, the run in parts is the timed one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from harness.campaign.measurement import answer_of, reset
from harness.language.sampled import Sample
from harness.language.sampled_stages import not_sampled as superstep_not_sampled
from harness.language.validation import Comparison, compare

if TYPE_CHECKING:
    from harness.campaign.cell import Cell
    from harness.campaign.child_report import ChildReport
    from harness.campaign.guarded_engine import GuardedEngine
    from harness.campaign.problem import Problem
    from harness.contract import Engine, Phases, RunStatistics

Values = dict[str, NDArray[Any]]
SAMPLED = "sampled"


@dataclass(frozen=True)
class Transition:
    """The values of a sample ``before`` a superstep (None: the start) and ``after`` it.

    ``whole``: the values of all vertices before it, if the program reduces over the whole graph.
    """

    superstep: int
    before: Values | None
    after: Values
    whole: Values | None = None


@dataclass(frozen=True)
class Checked:
    """Checked supersteps of a run, on a sample.

    ``transitions``: of the run in parts, which ended with ``ended`` (None: the engine is not stepwise). ``answer``: the
    outputs of the last timed run, on the whole graph; ``settled``: it claims to be. ``final``: the sample's part of a
    state that is said to be settled, of this run or, if it did not settle and that in parts did, of a third one.
    ``whole``: all of that state, if the check of the final state needs it.
    """

    sample: Sample
    transitions: tuple[Transition, ...]
    ended: Values | None
    settled: bool
    answer: Values
    final: Values | None = None
    whole: Values | None = None

    def worst(self, problem: Problem) -> tuple[Comparison, str]:
        """Return the worst comparison of the supersteps, and a description of the method."""
        compared = []
        for one in self.transitions:
            reduced = self.sample.reduced(problem.graph, problem.inputs, problem.features, one.whole)
            given = problem.inputs, problem.features, one.before, one.after
            found = self.sample.compared(*given, reduced=reduced)
            detail = found.detail if found.ok else f"superstep {one.superstep}, of the sample: {found.detail}"
            compared.append(Comparison(found.ok, found.error, found.bound, detail))
        numbers = " and ".join(str(one.superstep) for one in self.transitions)
        at = f"in float64 at {len(self.sample.vertices):,} vertices of all degrees"
        method = f"supersteps {numbers} {at}"
        if self.final is not None:
            compared.append(self._rest(problem, self.final))
            method = f"supersteps {numbers} and one more after the last {at}" if numbers else f"a superstep more {at}"
        if not self.settled and self.ended is not None:
            compared.append(self._repeated(problem, self.ended))
        return max(compared, key=lambda one: (not one.ok, one.excess)), method

    def _repeated(self, problem: Problem, ended: Values) -> Comparison:
        """Compare the timed answer with that of the run in parts, on the sample, by the program's own bound."""
        answer = {name: self.sample.results_of(name, values) for name, values in self.answer.items()}
        found = compare(problem.program, answer, ended)
        if found.ok:
            return found
        return replace(found, detail=f"the timed answer is not that of the run in parts: {found.detail}")

    def _rest(self, problem: Problem, final: Values) -> Comparison:
        """Compare the final state with the next superstep."""
        whole, sample = self.whole or {}, self.sample
        if self.whole is not None:
            sample = sample.with_heaviest(problem.graph, whole)
            final = {name: sample.part_of(name, values) for name, values in whole.items()}
        reduced = sample.reduced(problem.graph, problem.inputs, problem.features, whole)
        return sample.rests(problem.inputs, problem.features, final, whole=whole, reduced=reduced)


def not_sampled(problem: Problem) -> str:
    """Return why supersteps of a problem, or of its later phases, cannot be checked on a sample; empty if they can."""
    return next(filter(None, map(superstep_not_sampled, (problem.program, *problem.later))), "")


def sample_for(cell: Cell, problem: Problem, report: ChildReport, phases: Phases) -> Sample | None:
    """Return the sample that a cell is checked on, the same for every engine; None without sampled validation."""
    if cell.validate != SAMPLED:
        return None
    report.stage("sample")
    with phases("sample"):
        return Sample.draw(problem.program, problem.graph)


class RunInParts:
    """A run that is interrupted after its first and before its last superstep, to read a sample.

    ``transitions``: the supersteps that it has read; ``ended``: the outputs at its end, None before.
    ``settled``: whether it claims to have settled.
    """

    def __init__(self, engine: GuardedEngine, problem: Problem, sample: Sample) -> None:
        self.engine, self.problem, self.sample = engine, problem, sample
        self.transitions: list[Transition] = []
        self.ended: Values | None = None
        self.settled = False

    def run(self) -> tuple[float, RunStatistics]:
        """Run from the start; return the seconds in the engine, and the statistics of all parts."""
        most, sample = self.problem.max_supersteps, self.sample
        reset(self.engine, self.problem.inputs)
        seconds, statistics = self.engine.timed_run(1)
        self.transitions = [Transition(1, None, self._results())]
        if most > 2 and not statistics.settled:
            more, found = self.engine.timed_run(most - 2)
            seconds, statistics = seconds + more, statistics.followed_by(found)
        if most > 1 and not statistics.settled:
            before = {name: _part(self.engine, sample, name) for name in sample.state}
            whole = None
            if sample.reduces:
                whole = {name: np.array(self.engine.values(name)) for name in sample.state}
            more, found = self.engine.timed_run(1)
            seconds, statistics = seconds + more, statistics.followed_by(found)
            self.transitions.append(Transition(most, before, self._results(), whole))
            self.ended = self.transitions[-1].after
        else:
            self.ended = self._results()
        self.settled = statistics.settled
        return seconds, statistics

    def _results(self) -> Values:
        sample = self.sample
        return {name: np.array(self.engine.rows(name, sample.results(name))) for name in sample.compared_names}


def checked(
    engine: Engine,
    problem: Problem,
    sample: Sample,
    parts: RunInParts | None,
    statistics: RunStatistics,
    phases: Phases,
) -> Checked:
    """Return what is checked on a sample: ``parts``, and the end of the timed run, of which these are the statistics.

    The answer is read, and the final state if the run claims to be settled. If only the run in parts claims that, the
    state is that of a third run.
    """
    with phases("download"):
        answer = {name: np.array(one) for name, one in answer_of(engine, problem.validated).items()}
    with phases("check"):
        final, whole, settled, known = None, None, statistics.settled, answer
        if parts is not None and parts.settled and not settled:
            reset(engine, problem.inputs)
            statistics, known = engine.run(problem.max_supersteps), {}
        if statistics.settled:
            names = sample.state
            if sample.rests_by_whole:
                whole = {name: np.array(one) for name, one in answer_of(engine, names).items()}
                final = {name: sample.part_of(name, one) for name, one in whole.items()}
            else:
                final = {
                    name: sample.part_of(name, known[name]) if name in known else _part(engine, sample, name)
                    for name in names
                }
    transitions, ended = ((), None) if parts is None else (tuple(parts.transitions), parts.ended)
    return Checked(sample, transitions, ended, settled, answer, final, whole)


def _part(engine: Engine, sample: Sample, name: str) -> NDArray[Any]:
    """Return a copy of the sample's part of a property."""
    rows = sample.rows_of(name)
    return np.array(engine.values(name) if rows is None else engine.rows(name, rows))
