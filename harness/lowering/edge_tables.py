"""Tables with an element for every edge, on any device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from harness.facts import GraphFacts
from harness.graph import Graph
from harness.lowering.edge_order import places
from harness.lowering.graph_store import Array, Table


@dataclass(frozen=True)
class Reverse(Table[Array]):
    """The position of each edge's reverse, [E]; the same in CSR and CSC (:attr:`Graph.reverse_edges`)."""

    of_edges: ClassVar[bool] = True

    def of(self, graph: Graph) -> Array:
        """Return the graph's own array."""
        return graph.in_edge_ids

    def nbytes(self, graph: GraphFacts) -> int:
        """Return 0: the array is part of the CSC."""
        return 0

    def named(self, made: Array) -> dict[str, Array]:
        """Return the positions as kernels take them."""
        return {"reverse": made}


@dataclass(frozen=True)
class Places(Table[Array]):
    """The position in the CSC of each edge of the CSR, [E]."""

    of_edges: ClassVar[bool] = True

    def of(self, graph: Graph) -> Array:
        """Return the positions; the graph's own array if all edges pair."""
        return places(graph)

    def nbytes(self, graph: GraphFacts) -> int:
        """Return the bytes of the positions."""
        return 0 if graph.paired else graph.num_edges * (4 if graph.num_edges <= 1 << 32 else 8)

    def named(self, made: Array) -> dict[str, Array]:
        """Return the positions as kernels take them."""
        return {"places": made}


@dataclass(frozen=True)
class Rows(Table[Array]):
    """The vertex in whose row each edge is, [E], in CSC (``incoming``) or CSR."""

    incoming: bool
    of_edges: ClassVar[bool] = True

    def of(self, graph: Graph) -> Array:
        """Return the vertices, in the dtype of neighbours."""
        return (graph.csc if self.incoming else graph.csr).row_of_edge

    def nbytes(self, graph: GraphFacts) -> int:
        """Return the bytes of the vertices."""
        return graph.num_edges * (4 if graph.num_vertices <= 1 << 32 else 8)

    def named(self, made: Array) -> dict[str, Array]:
        """Return the vertices as kernels take them."""
        return {"in_rows" if self.incoming else "out_rows": made}
