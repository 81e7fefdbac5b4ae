"""Expected answers: the float64 reference and the allowed error of each entry.

A run with a tolerance is compared with the fixed point: the reference runs until its movement is within a hundredth of
the tolerance, and on while its supersteps reach further entries. An entry that they have not reached is zero, and a
solver that goes on finds a small value there. The reference ends when the values that it reaches are negligible. The
allowed error of an entry is at least a negligible part of the mean magnitude of its feature, since a solver that stops
by a norm of its residual does not resolve values that are much smaller than the others. It is the sum of

- the largest distance of the reference itself from the fixed point, from the superstep in which it first moves by no
  more than 1.5 times the tolerance to that in which it moves by no more than the tolerance over 1.5. This is what the
  stopping rule leaves: rho / (1 - rho) times the tolerance for a contraction by rho. One superstep would not do: an
  entry whose error changes its sign is near the fixed point for a moment. If it leaves more than half of an entry of a
  run from the program's start, the entry may be off by itself: a solver with another rule may leave a little more;
- twice the largest response, over the features of its vertex, of the fixed point to rounding in float32 and to values
  that change-driven schedules do not send, both injected at their full size (:mod:`harness.language.rounding`).

The worst case of sums does not occur at all vertices at once. Therefore the error of a feature, summed over the graph,
has a smaller bound: the first of these plus the response to the same errors with a random sign for the sums of every
vertex.

Other runs are compared with the same number of supersteps of the reference. Their responses are those of the whole run,
from its start. ``docs/how-answers-are-checked.md`` gives the derivation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from harness.language.algorithm import Allowance, Answer, Inputs
from harness.language.program import Program
from harness.language.reference import ReferenceRun
from harness.language.residual import SLACK, distances, largest_distances
from harness.language.rounding import RoundedRun, patterns, stopping

if TYPE_CHECKING:
    from harness.graph import Graph

Array = NDArray[Any]
Values = Mapping[str, Array]
METHOD = "the float64 reference"
FIXED_POINT = f"{METHOD} at its fixed point"
EARLY = 1.5  # an engine measures its movement with rounding, and may stop slightly before float64 would
TIGHTER = 0.01
FARTHER = 2  # limit of the reference's supersteps for that, as a multiple of the supersteps until EARLY
REACHED = float(np.finfo(np.float32).tiny)
GROWTH, TESTED = 1.01, 4  # a value has converged if it grows by less than GROWTH in TESTED supersteps
NEGLIGIBLE = 1e-6  # of the mean magnitude of a feature
UNRESOLVED = 0.5  # of a value: if the stopping rule leaves more, the value is not resolved and may be off by itself
SUMMED = 1e-4  # values that are reached are at most this part of that, since a vertex may sum many of them


def fixed_point(
    program: Program, graph: Graph, features: int, inputs: Inputs, max_supersteps: int, *, cold: bool = True
) -> Answer | None:
    """Return the fixed point in float64 with its allowed errors.

    Return None without a tolerance, or if the reference does not settle within ``max_supersteps``. ``cold``: whether
    the run under test began at the program's start; other runs stop at other distances from the fixed point.
    """
    maker = _Maker(program, graph, features, inputs)
    return maker.fixed_point(max_supersteps, cold) if maker.tolerance > 0 and program.control.settles else None


def answer_at_limit(program: Program, graph: Graph, features: int, inputs: Inputs, max_supersteps: int) -> Answer:
    """Return the answer in float64 after ``max_supersteps``, or as soon as it settles, with its allowed errors."""
    maker = _Maker(program, graph, features, inputs)
    run = maker.exact()
    return maker.after(run, len(run.run(max_supersteps).supersteps))


class _Maker:
    """Runs the reference of a program on a graph."""

    def __init__(self, program: Program, graph: Graph, features: int, inputs: Inputs) -> None:
        self.program, self.graph, self.features, self.inputs = program, graph, features, inputs
        self.tolerance, _ = stopping(program, inputs)

    def exact(self) -> ReferenceRun:
        run = ReferenceRun(self.program, self.graph, self.features)
        run.reset(self.inputs)
        return run

    def values(self, run: ReferenceRun) -> dict[str, Array]:
        return {name: run.values(name) for name in self.program.outputs}

    def after(self, run: ReferenceRun, supersteps: int) -> Answer:
        """Return the answer after a number of supersteps."""
        exact = self.values(run)
        if all(result.bound == 0 for result in self.program.results):
            return Answer(exact, METHOD)

        def make(other: ReferenceRun) -> None:
            other.reset(self.inputs)
            for _ in range(supersteps):
                other.superstep()

        return Answer(exact, METHOD, self.allowances(exact, make))

    def allowances(
        self, exact: Values, make: Callable[[ReferenceRun], None], left: Values | None = None
    ) -> dict[str, Allowance]:
        """Return the differences of runs with injected errors from ``exact``.

        ``make`` executes such a run. ``left``: the error that the stopping rule leaves.
        """

        def values(run: ReferenceRun) -> dict[str, Array]:
            make(run)
            return self.values(run)

        whole = self.program, self.graph, self.features
        signed = patterns(self.program, self.features)
        worst = largest_distances(exact, (values(RoundedRun(*whole, pattern=one)) for one in signed))
        apart = distances(exact, values(RoundedRun(*whole, apart=True)))
        found = {}
        for name in exact:
            entries, totals = SLACK * _largest(np.maximum(worst[name], apart[name])), _sums(apart[name])
            if left is not None:
                entries = np.maximum(entries + left[name], _negligible(exact[name]))
                totals = totals + _sums(left[name])
            found[name] = Allowance(entries, totals)
        return found

    def fixed_point(self, max_supersteps: int, cold: bool) -> Answer | None:
        """Return the answer of a run with a tolerance; None if float64 does not settle within the limit."""
        name, run = self.program.control.tolerance, self.exact()
        assert name is not None
        run.change_parameters({name: EARLY * self.tolerance})
        statistics = run.run(max_supersteps)
        if not statistics.settled:
            return None
        early = run.fork()
        run.change_parameters({name: TIGHTER * self.tolerance})
        run.run(FARTHER * max(len(statistics.supersteps), TESTED))
        exact = self._until_all_are_reached(run)
        early.change_parameters({name: self.tolerance / EARLY})
        left = self._largest_distances(early, exact, max_supersteps)
        for output, one in left.items():
            if cold:
                np.maximum(one, abs(exact[output]), out=one, where=one > UNRESOLVED * abs(exact[output]))
            else:
                one[...] = one.max(initial=0.0)
        state = {prop.name: run.values(prop.name) for prop in self.program.properties.values() if prop.role == "state"}

        def make(other: ReferenceRun) -> None:
            other.reset(self.inputs, state)
            self._until_whole(other, exact)

        return Answer(exact, FIXED_POINT, self.allowances(exact, make, left))

    def _until_all_are_reached(self, run: ReferenceRun) -> dict[str, Array]:
        """Run supersteps until no entry grows, as one does that they have just reached, or only negligible ones, of
        which a vertex may sum many. Return the values. An entry that is reached late is allowed to be off by its value.
        """
        exact = self.values(run)
        for _ in range(0, self.program.max_supersteps, TESTED):
            before = exact
            for _ in range(TESTED):
                run.superstep()
            exact = self.values(run)
            grown = (
                abs(one) > np.maximum(SUMMED * _negligible(one), GROWTH * abs(before[name]))
                for name, one in exact.items()
            )
            if not any(map(np.any, grown)):
                break
        return exact

    def _largest_distances(self, run: ReferenceRun, exact: Values, max_supersteps: int) -> dict[str, Array]:
        """Return the largest distance of every entry from the exact values, from now until the run settles."""
        found = distances(exact, self.values(run))
        for _ in range(max_supersteps):
            settled = run.run(1).settled
            for output, one in distances(exact, self.values(run)).items():
                np.maximum(found[output], one, out=found[output])
            if settled:
                break
        return found

    def _until_whole(self, run: ReferenceRun, exact: Mapping[str, Array]) -> None:
        """Run supersteps until the distance from the exact values stops growing."""
        before: float | NDArray[np.float64] = 0.0
        for _ in range(0, max(self.program.max_supersteps, TESTED), TESTED):
            for _ in range(TESTED):
                run.superstep()
            off = distances(exact, self.values(run))
            now = np.concatenate([_sums(one) for one in off.values()])
            if (now <= GROWTH * before).all():
                return
            before = now


def _negligible(values: Array) -> Array:
    """Return the negligible error of an entry of each feature; at least REACHED."""
    return np.asarray(np.maximum(NEGLIGIBLE * abs(values).mean(axis=0) if len(values) else 0.0, REACHED))


def _largest(values: Array) -> Array:
    """Replace every entry by the largest of its row, since a response to one pattern of signs may cross zero."""
    rows = values.reshape(len(values), math.prod(values.shape[1:])).max(axis=1, initial=0.0)
    return np.asarray(np.broadcast_to(rows.reshape(-1, *(1 for _ in values.shape[1:])), values.shape))


def _sums(values: Array) -> Array:
    """Sum each feature over all vertices or edges."""
    return np.asarray(values.reshape(len(values), math.prod(values.shape[1:])).sum(axis=0))
