"""The convergence criterion of runs with a tolerance, which every engine measures in the same way.

The *movement* of a superstep is the change of the watched properties (:func:`harness.language.analysis.watched`) from
their values before it. If sides alternate, it covers the last superstep of each side. The program selects one of two
norms:

- ``max``: no entry of any vertex moves by more than the tolerance (absolute, or relative to the entry's new value).
- ``sum``: in every feature column, the sum over all vertices of the distances moved is at most the tolerance times the
  sum of the magnitudes (the L1 norm). A float32 sum of n terms has an error of up to n roundings, so a few hubs may
  never come to rest in the maximum norm; in this norm they count by their share.

The movement is measured in every fourth superstep (:data:`TEST_EVERY`), the same ones in every engine. An engine may
count, in every superstep, the entries that moved by more than the tolerance. It may end a run as soon as that count is
zero, which implies the criterion in either norm.

A change-driven engine does not send a value that is within a quarter (:data:`PROPAGATED_SHARE`) of the tolerance of the
value last sent. The omitted changes arrive later in one message. With the whole tolerance as the threshold, such
messages would be as large as the movement to be measured.

Programs whose edge stages read changing edges have no measured criterion, since comparing all edges costs as much as
updating them. For these an engine counts, in the kernel that writes an edge, whether the edge moved by more than the
tolerance. A change-driven engine does not store a new value of an edge that is within a quarter of the tolerance of the
stored one; if the edge is one of n factors of a product, within an n-th of that, relative to the new value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from harness.language.analysis import watched
from harness.language.arrays import NUMPY, Array, Arrays
from harness.language.program import Norm, Program, VertexStep

TEST_EVERY: Final = 4  # a multiple of the number of sides of a bipartite graph, so that a test covers both
PROPAGATED_SHARE: Final = 0.25


@dataclass(frozen=True)
class Criterion:
    """The measured criterion of a program.

    ``properties``: the vertex properties (scalars or vectors, float32) whose movement counts. ``tolerance``: the name
    of a run-time parameter. ``sides``: how many supersteps update every vertex once.
    """

    properties: tuple[str, ...]
    tolerance: str
    norm: Norm
    relative: bool
    sides: int

    @classmethod
    def of(cls, program: Program) -> Criterion | None:
        """Return the measured criterion of a program as traced.

        Return None if the program has no tolerance, runs for a fixed number of supersteps, or reads changing edges,
        bools or matrices.
        """
        control = program.control
        if not control.settles or control.tolerance is None:
            return None
        properties = []
        for place, name in watched(program):
            prop = program.properties[name]
            if place != "vertex" or prop.dtype != "float" or len(prop.shape) > 1:
                return None
            properties.append(name)
        sides = 2 if control.alternate else 1
        return cls(tuple(properties), control.tolerance, control.norm, control.relative, sides)

    def countable(self, program: Program) -> bool:
        """Return whether it is enough to count the vertices that move by more than the tolerance, if all step.

        It is in the norm *max*, if no property is written by several vertex steps of ``program``, which could move it
        to and fro in one superstep.
        """
        steps = [stage for stage in program.stages if isinstance(stage, VertexStep)]
        once = all(sum(name in step.writes for step in steps) <= 1 for name in self.properties)
        return self.norm != "sum" and once

    def begins(self, superstep: int) -> bool:
        """Return whether the movement is measured from the values before this superstep (counted from 0)."""
        return (superstep + self.sides) % TEST_EVERY == 0

    def ends(self, superstep: int) -> bool:
        """Return whether the movement is measured after this superstep (counted from 0)."""
        return (superstep + 1) % TEST_EVERY == 0

    def met(
        self,
        before: Mapping[str, Array],
        now: Mapping[str, Array],
        parameters: Mapping[str, float],
        arrays: Arrays = NUMPY,
    ) -> bool:
        """Return whether the movement from ``before`` to ``now`` is within the tolerance.

        Both map :attr:`properties` to arrays ``[V]`` or ``[V, k]`` of the library ``arrays``.
        """
        tolerance = parameters[self.tolerance]
        for name in self.properties:
            old, new = before[name], now[name]
            if self.norm == "max":
                still = not bool(arrays.moved(old, new, tolerance, self.relative).any())
            else:
                still = bool(arrays.within_sum(old, new, tolerance))
            if not still:
                return False
        return True


class Settling:
    """Detects the end of a run for engines that compute every vertex in every superstep.

    Create one when a run is reset, and call :meth:`after` after every superstep. ``parameters``: the run-time
    parameters of the run. ``arrays``: the library of the values. ``settled``: the result of the latest call.
    """

    def __init__(self, program: Program, parameters: Mapping[str, float], arrays: Arrays = NUMPY) -> None:
        self._control, self._parameters, self._arrays = program.control, parameters, arrays
        self._criterion = Criterion.of(program)
        self._sides = 2 if program.control.alternate else 1
        self._before: dict[str, Array] = {}
        self._done = 0
        self.settled = False

    def after(self, before: Mapping[str, Array], now: Mapping[str, Array]) -> bool:
        """Return whether the run has settled in the superstep that changed the watched properties from ``before`` to
        ``now``.

        Neither may be overwritten before the next call.
        """
        self.settled = self._control.settles and self._moves_little(before, now)
        return self.settled

    def _moves_little(self, before: Mapping[str, Array], now: Mapping[str, Array]) -> bool:
        superstep, self._done, criterion = self._done, self._done + 1, self._criterion
        if criterion is not None and criterion.begins(superstep):
            self._before = dict(before)
        tolerance = self._parameters[self._control.tolerance] if self._control.tolerance else 0.0
        relative = self._control.relative
        if self._done >= self._sides and not any(
            bool(self._arrays.moved(old, now[name], tolerance, relative).any()) for name, old in before.items()
        ):
            return True
        if criterion is None or not criterion.ends(superstep):
            return False
        return criterion.met(self._before, now, self._parameters, self._arrays)


def criterion_text(program: Program) -> str:
    """Return the stopping rule of a program as text, for records and ``explain``."""
    control = program.control
    if not control.settles:
        return f"runs {control.max_supersteps} supersteps"
    if control.tolerance is None:
        return "settled when nothing moves"
    measure = "relative" if control.relative else "absolute"
    criterion = Criterion.of(program)
    if criterion is None:
        return f"settled when no watched entry moves by more than self.{control.tolerance}, {measure}, in one superstep"
    names = ", ".join(criterion.properties) or "nothing"
    if criterion.norm == "sum":
        what = f"the sum of movements of every column of {names} is within self.{control.tolerance} of its magnitude"
    else:
        what = f"no entry of {names} moves by more than self.{control.tolerance}, {measure}"
    return f"settled when {what}; measured in every {TEST_EVERY}th superstep"


def propagated_share(program: Program) -> float:
    """Return the largest allowed difference between a vertex's value and its last propagated value, as a share of the
    tolerance. That of edges is always :data:`PROPAGATED_SHARE`."""
    return PROPAGATED_SHARE if Criterion.of(program) else 1.0


__all__ = ["PROPAGATED_SHARE", "TEST_EVERY", "Criterion", "Settling", "criterion_text", "propagated_share"]
