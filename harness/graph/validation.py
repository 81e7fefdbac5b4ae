"""The promises of a Graph, checked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from harness.graph.adjacency import id_dtype
from harness.graph.errors import GraphError

if TYPE_CHECKING:
    from harness.graph.graph import Graph


def validate(graph: Graph) -> None:
    """Raise GraphError on the first promise of `graph` that does not hold."""
    for problem in (_structure(graph), _order(graph), _values(graph), _kind(graph)):
        if problem is not None:
            raise GraphError(f"graph {graph.name!r}: {problem}; build it with Graph.from_edges")


def _structure(graph: Graph) -> str | None:
    offsets, neighbours = graph.csr.offsets, graph.csr.neighbours
    if offsets[0] != 0 or offsets[-1] != neighbours.size or (np.diff(offsets) < 0).any():
        return f"CSR offsets must rise from 0 to the number of arcs, {neighbours.size}"
    if neighbours.dtype != id_dtype(graph.num_vertices):
        return f"neighbours are {neighbours.dtype}, not {id_dtype(graph.num_vertices)}"
    if neighbours.size and int(neighbours.max()) >= graph.num_vertices:
        return f"an arc leads to vertex {int(neighbours.max())}, but there are {graph.num_vertices} vertices"
    return None


def _order(graph: Graph) -> str | None:
    neighbours = graph.csr.neighbours
    falls = neighbours[1:] < neighbours[:-1]
    starts = graph.csr.offsets[1:-1]
    starts = starts[(starts > 0) & (starts < neighbours.size)]
    falls[starts - 1] = False
    return f"arcs {int(np.argmax(falls))} and the next are not sorted by destination" if falls.any() else None


def _values(graph: Graph) -> str | None:
    if graph.weights is not None and not np.isfinite(graph.weights).all():
        return f"the weight of arc {int(np.argmin(np.isfinite(graph.weights)))} is not finite"
    if graph.labels is not None and graph.labels.size and int(graph.labels.min()) < -1:
        return "labels must be classes from 0 on, or -1 for unknown"
    return None


def _kind(graph: Graph) -> str | None:
    if not graph.directed and not graph.has_reverse_edges:
        return "it is undirected, but some arcs have no reverse arc"
    if graph.bipartite is not None:
        left = graph.bipartite[0]
        if ((graph.csr.row_of_arc < left) == (graph.csr.neighbours < left)).any():
            return f"it is bipartite with {left} vertices on the left, but an arc joins two vertices of one side"
    return None
