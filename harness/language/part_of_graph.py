"""Parts of a graph whose vertices have the degrees of the whole graph."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from harness.graph.adjacency import Adjacency
from harness.graph.graph import Graph

Array = NDArray[Any]


class PartOfGraph(Graph):
    """A subgraph whose vertices have the degrees of the whole graph; ``whole_degrees``: out-degrees and in-degrees."""

    whole_degrees: tuple[Array, Array]

    @classmethod
    def without_edges(cls, graph: Graph, vertices: slice) -> Self:
        """Return a range of the vertices of a graph without its edges."""
        offsets = graph.csr.offsets[vertices.start : vertices.stop + 1]
        in_offsets = graph.in_offsets[vertices.start : vertices.stop + 1]
        nothing = Adjacency(np.zeros(len(offsets), np.int64), np.empty(0, np.uint32))
        part = cls(nothing, name=f"vertices of {graph.name}", directed=graph.directed)
        part.whole_degrees = np.diff(offsets), np.diff(in_offsets)
        return part

    @property
    def out_degrees(self) -> Array:
        """Out-degrees in the whole graph, int64[V]."""
        return self.whole_degrees[0]

    @property
    def in_degrees(self) -> Array:
        """In-degrees in the whole graph, int64[V]."""
        return self.whole_degrees[1]
