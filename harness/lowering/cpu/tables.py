"""Tables that a store computes from a graph once: orders, parts of threads, owned edges."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness.facts import GraphFacts
from harness.graph import Graph
from harness.lowering.cpu.partition import Partition, owned_edges, owner_bounds
from harness.lowering.graph_store import Array, Table

INT64 = 8  # bytes


@dataclass(frozen=True)
class SideParts(Table[tuple[NDArray[np.int64], ...]]):
    """Bounds of parts of about equal in-edges, for each side that a superstep updates: int64[parts + 1]."""

    partition: Partition
    alternate: bool

    def of(self, graph: Graph) -> tuple[NDArray[np.int64], ...]:
        """Return the bounds of the left and of the right side, or of all vertices."""
        offsets, count = graph.in_offsets, graph.num_vertices
        if not self.alternate or graph.bipartite is None:
            return (self.partition.bounds(offsets, 0, count),)
        left = graph.bipartite[0]
        ends = ((0, left), (left, count))
        return tuple(self.partition.bounds(offsets, first, last) for first, last in ends)

    def nbytes(self, graph: GraphFacts) -> int:
        """Return the bytes of the bounds, at most."""
        return (2 if self.alternate else 1) * INT64 * (self.partition.most + 1)


@dataclass(frozen=True)
class SourceParts(Table[NDArray[np.int64]]):
    """Bounds of parts of all vertices of about equal out-edges: int64[parts + 1]."""

    partition: Partition

    def of(self, graph: Graph) -> NDArray[np.int64]:
        """Return the bounds."""
        return self.partition.bounds(graph.csr.offsets, 0, graph.num_vertices)

    def nbytes(self, graph: GraphFacts) -> int:
        """Return the bytes of the bounds, at most."""
        return INT64 * (self.partition.most + 1)


@dataclass(frozen=True)
class Owned(Table[NDArray[np.int64]]):
    """The out-edges of every vertex by owner of their destination (:func:`owned_edges`)."""

    owners: int

    def of(self, graph: Graph) -> NDArray[np.int64]:
        """Return the cuts, int64[V * (owners + 1)]."""
        bounds = owner_bounds(graph.in_offsets, self.owners)
        return owned_edges(graph.csr.offsets, graph.csr.neighbours, bounds)

    def nbytes(self, graph: GraphFacts) -> int:
        """Return the bytes of the cuts."""
        return INT64 * graph.num_vertices * (self.owners + 1)

    def named(self, made: NDArray[np.int64]) -> dict[str, Array]:
        """Return the cuts as kernels take them."""
        return {"owned": made}
