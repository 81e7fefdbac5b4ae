"""Onyx on CUDA, ``balance=parts``: the out-edges of vertices of many are split into parts, which warps push."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from harness.api.cuda import Listed, WorkList

if TYPE_CHECKING:
    from harness.api import Graph, GraphFacts
    from harness.api.cuda import Bounds

ARRAYS = ("part_sources", "part_numbers")


@dataclass(frozen=True)
class PartsOfSources(WorkList):
    """The source of every part, and the number of the part among those of its source (both uint32).

    Vertices of at least ``least`` out-edges are split; the last part of each may have fewer than ``size`` edges.
    ``sides``: of vertices that supersteps update.
    """

    least: int
    size: int
    sides: tuple[Bounds, ...]

    def of(self, graph: Graph) -> Listed:
        """Return the parts in the order of their sources; those of a side push to its vertices."""
        degrees = graph.out_degrees
        parts = np.where(degrees >= self.least, -(-degrees // self.size), 0)
        ends = np.concatenate([[0], np.cumsum(parts)])
        sources = np.repeat(np.arange(len(parts), dtype=np.uint32), parts)
        numbers = (np.arange(len(sources)) - np.repeat(ends[:-1], parts)).astype(np.uint32)
        heard = [self.sides[(side + 1) % len(self.sides)] for side in range(len(self.sides))]
        bounds = [(int(ends[first]), int(ends[last])) for first, last in heard]
        return Listed(dict(zip(ARRAYS, (sources, numbers), strict=True)), bounds)

    def count(self, graph: GraphFacts) -> int:
        """Return the number of parts."""
        counts = graph.out_degrees.counts
        return sum(-(-degree // self.size) * vertices for degree, vertices in counts if degree >= self.least)

    def nbytes(self, graph: GraphFacts) -> int:
        """Return the bytes of both arrays."""
        return 2 * 4 * self.count(graph)
