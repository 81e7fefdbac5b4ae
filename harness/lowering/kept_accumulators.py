"""Accumulators that a run keeps from superstep to superstep if it pushes changes, and when they are rebuilt.

The error of a kept sum was measured against float64 PageRank on ten published graphs. If each change is added to the
sum itself, the error grows with the in-degree (bias: changes below half a unit in the last place of the sum are lost)
and with the supersteps since the last rebuild, up to 4e-4. If the changes of a superstep are summed separately and
added once, without loss (:mod:`harness.lowering.cpu.change_sums`), the error depends on neither: it is the rounding of
the changes' own sums, which matters only if changes are as large as the sum. In those supersteps the sum is rebuilt,
because nearly all sources are active. The remaining error is that of a fresh float32 sum and tolerance / (1 - alpha),
due to vertices that moved by less than the tolerance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness.facts import GraphFacts
from harness.language.analysis import Delta
from harness.language.integer_ranges import Range, adds_exactly, integer_ranges
from harness.language.program import Program


@dataclass(frozen=True)
class KeptAccumulators:
    """Accumulators that are kept, into which changes of messages are pushed; by default there are none.

    Float32 sums that round are rebuilt from all messages periodically, and before a run ends. Extrema and sums of small
    integers are exact.

    ``extrema``: all of them are extrema. ``rebuild``: the supersteps of a side between rebuilds of sums that round; 0:
    never. ``whole``: the properties by whose ranges all of them are exact; None if some round.
    """

    extrema: bool = False
    rebuild: int = 0
    whole: Mapping[str, Range] | None = None

    @classmethod
    def of(cls, program: Program, graph: GraphFacts, forms: Sequence[Delta], rebuild: int) -> KeptAccumulators:
        """Return those of a lowered program, given the change-driven forms of its reductions.

        With a tolerance, smaller movement is not propagated, and accumulators are rebuilt for that reason too.
        """
        sums = [form for form in forms if form.kind != "monotone"]
        if not sums:
            return cls(extrema=True)
        ranges, edges = integer_ranges(program), graph.max_in_degree
        exact = program.control.tolerance is None and all(adds_exactly(form, ranges, edges) for form in sums)
        return cls(rebuild=rebuild, whole=ranges if exact else None)

    @property
    def round(self) -> bool:
        """Return whether some of them are sums that round."""
        return not self.extrema and self.whole is None

    def rebuild_every(self, state: Mapping[str, NDArray[np.generic]]) -> int:
        """Return the supersteps between rebuilds in a run from a start or a given ``state``.

        0: never, and not before it has settled either. Exact sums of a state outside of the required ranges drift like
        others.
        """
        exact = self.whole is not None and all(
            _holds(given, self.whole[name]) for name, given in state.items() if name in self.whole
        )
        return 0 if exact else self.rebuild


def _holds(values: NDArray[np.generic], numbers: Range) -> bool:
    given = np.asarray(values, np.float64)
    return bool(((given >= numbers[0]) & (given <= numbers[1]) & (given == np.floor(given))).all())
