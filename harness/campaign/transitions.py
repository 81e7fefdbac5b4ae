"""Answers on graphs that are too large for a whole reference: two supersteps of a run checked on a sample of vertices.

The first superstep shows that the engine begins where it is told to, the last one that what it arrived at followed from
what it had before; both are held against float64 (:mod:`harness.language.sampled`), within the bound of the program.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from harness.campaign.measurement import answer_of, reset
from harness.language import sampled
from harness.language.sampled import Sample
from harness.language.validation import Comparison
from harness.language.warm import kept_properties

if TYPE_CHECKING:
    from harness.campaign.cell import Cell
    from harness.campaign.draft import Draft
    from harness.campaign.problem import Problem
    from harness.contract import Engine, Phases

Values = dict[str, NDArray[Any]]
SAMPLED = "sampled"


@dataclass(frozen=True)
class Transition:
    """What a sample had ``before`` a superstep (None: the start) and ``after`` it; ``whole``: what all vertices had
    before it, where the program reduces over these."""

    superstep: int
    before: Values | None
    after: Values
    whole: Values | None = None


@dataclass(frozen=True)
class Checked:
    """Some supersteps of a run, of a sample."""

    sample: Sample
    transitions: tuple[Transition, ...]

    def worst(self, problem: Problem) -> tuple[Comparison, str]:
        """The comparison of the worst of the supersteps, and how it was made."""
        compared = []
        for one in self.transitions:
            reduced = self.sample.reduced(problem.graph, problem.inputs, problem.features, one.whole)
            given = problem.inputs, problem.features, one.before, one.after
            found = self.sample.compared(*given, reduced=reduced)
            told = found.detail if found.ok else f"superstep {one.superstep}, of the sample: {found.detail}"
            compared.append(Comparison(found.ok, found.error, found.bound, told))
        numbers = " and ".join(str(one.superstep) for one in self.transitions)
        method = f"supersteps {numbers} in float64 at {len(self.sample.vertices):,} vertices of all degrees"
        return max(compared, key=lambda one: (not one.ok, one.error)), method


def not_sampled(problem: Problem) -> str:
    """Why supersteps of a problem cannot be checked on a sample; empty when they can."""
    return sampled.not_sampled(problem.program)


def sample_for(cell: Cell, problem: Problem, draft: Draft, phases: Phases) -> Sample | None:
    """The sample that a cell is checked on, the same for every engine; None where it is checked otherwise."""
    if cell.validate != SAMPLED:
        return None
    draft.stage("sample")
    with phases("sample"):
        return Sample.draw(problem.program, problem.graph)


def transitions(engine: Engine, problem: Problem, sample: Sample, supersteps: int, phases: Phases) -> Checked:
    """Run once more, ``supersteps`` of them, and keep the first and the last."""
    with phases("check"):
        return Checked(sample, _transitions(engine, problem, sample, supersteps))


def _transitions(engine: Engine, problem: Problem, sample: Sample, supersteps: int) -> tuple[Transition, ...]:

    def results() -> Values:
        found = answer_of(engine, problem.program.outputs)
        return {name: sample.results_of(name, values) for name, values in found.items()}

    reset(engine, problem.inputs)
    engine.run(1)
    found = [Transition(1, None, results())]
    if supersteps > 1:
        if supersteps > 2:
            engine.run(supersteps - 2)
        state = answer_of(engine, kept_properties(problem.program))
        before = {name: sample.part_of(name, values) for name, values in state.items()}
        whole = {name: np.array(values) for name, values in state.items()} if sample.reduces else None
        engine.run(1)
        found.append(Transition(supersteps, before, results(), whole))
    return tuple(found)
