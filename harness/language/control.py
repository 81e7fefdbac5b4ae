"""The stopping rule of a program, as an algorithm declares it."""

from __future__ import annotations

from dataclasses import replace

from harness.language.errors import LanguageError
from harness.language.expressions import Expression
from harness.language.program import NORMS, Control, Norm, Stage


class ControlRecorder:
    """The part of a program builder that records the stopping rule."""

    def __init__(self) -> None:
        self._stages: list[Stage] = []
        self._control = Control()
        self._after_stages = False  # the control was declared after stages

    def until_settled(
        self, tolerance: Expression | float | None = None, *, relative: bool = False, norm: Norm = "max", at_most: int
    ) -> None:
        """Run until a superstep moves no vertex by more than ``tolerance``, a float field of the algorithm.

        ``norm="max"``: no entry of a vertex moves by more, ``relative`` to its new value or absolutely. ``norm="sum"``:
        in every feature column the movements of all vertices add up to at most ``tolerance`` times the sum of their
        magnitudes; it requires ``relative=True``. :mod:`harness.language.criterion` defines the measurement. Without a
        tolerance the run ends when nothing moves at all, which suits counts, levels and labels.
        """
        self._limit(at_most)
        if norm not in NORMS:
            raise LanguageError(f"norm={norm!r} is not known; the norms are {', '.join(NORMS)}")
        if norm == "sum" and (tolerance is None or not relative):
            raise LanguageError("norm='sum' is relative to the column's magnitude: give a tolerance and relative=True")
        if tolerance is not None and (not isinstance(tolerance, Expression) or tolerance.op != "param"):
            raise LanguageError("the tolerance must be a float field of the algorithm, such as self.tolerance")
        name = None if tolerance is None else tolerance.attribute
        self._control = Control(at_most, True, name, bool(relative), self._control.alternate, norm)

    def repeat(self, supersteps: int) -> None:
        """Run exactly this many supersteps."""
        self._limit(supersteps)
        self._control = Control(supersteps, False, None, False, self._control.alternate)

    def _limit(self, supersteps: int) -> None:
        self._after_stages = bool(self._stages)
        if not isinstance(supersteps, int) or isinstance(supersteps, bool) or supersteps < 1:
            raise LanguageError(f"the number of supersteps is a positive int, not {supersteps!r}")

    def alternate_sides(self) -> None:
        """Let even supersteps update the left side of a bipartite graph, odd ones the right."""
        self._control = replace(self._control, alternate=True)
