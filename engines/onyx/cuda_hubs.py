"""Onyx on CUDA: the vertices of many in-edges, each of which a block owns in a pull."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from harness.api.cuda import Listed, Pieces, by_side

if TYPE_CHECKING:
    from harness.api import Graph, GraphFacts
    from harness.api.cuda import Bounds


@dataclass(frozen=True)
class Hubs(Pieces):
    """The vertices of at least ``degree`` in-edges, sorted, uint32. ``sides``: of vertices that supersteps update."""

    degree: int
    sides: tuple[Bounds, ...]

    def of(self, graph: Graph) -> Listed:
        """Return the hubs."""
        hubs = np.flatnonzero(graph.in_degrees >= self.degree).astype(np.uint32)
        return Listed({"hubs": hubs}, by_side(hubs, self.sides))

    def nbytes(self, graph: GraphFacts) -> int:
        """Return the bytes of the hubs."""
        return 4 * graph.in_degrees.between(self.degree)
