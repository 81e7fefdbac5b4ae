"""Check the invariants of a Graph: each function returns the first violation as text, or an empty text."""

from __future__ import annotations

import numpy as np

from harness.graph.adjacency import Adjacency, Array, id_dtype


def structure(csr: Adjacency) -> str:
    """Check that offsets are non-decreasing and neighbours are vertices."""
    offsets, neighbours, num_vertices = csr.offsets, csr.neighbours, csr.offsets.size - 1
    if offsets[0] != 0 or offsets[-1] != neighbours.size or (np.diff(offsets) < 0).any():
        return f"CSR offsets must rise from 0 to the number of edges, {neighbours.size}"
    if neighbours.dtype != id_dtype(num_vertices):
        return f"neighbours are {neighbours.dtype}, not {id_dtype(num_vertices)}"
    if neighbours.size and int(neighbours.max()) >= num_vertices:
        return f"an edge leads to vertex {int(neighbours.max())}, but there are {num_vertices} vertices"
    return ""


def order(csr: Adjacency) -> str:
    """Check that each row is sorted by destination."""
    neighbours = csr.neighbours
    falls = neighbours[1:] < neighbours[:-1]
    starts = csr.offsets[1:-1]
    starts = starts[(starts > 0) & (starts < neighbours.size)]
    falls[starts - 1] = False
    return f"edge {int(np.argmax(falls))} and the next are not sorted by destination" if falls.any() else ""


def values(weights: Array | None, labels: Array | None) -> str:
    """Check that weights are finite and labels are at least -1."""
    if weights is not None and not np.isfinite(weights).all():
        return f"the weight of edge {int(np.argmin(np.isfinite(weights)))} is not finite"
    if labels is not None and labels.size and int(labels.min()) < -1:
        return "labels must be classes 0, 1, ..., or -1 for unknown"
    return ""


def sides(csr: Adjacency, bipartite: tuple[int, int] | None) -> str:
    """Check that every edge of a bipartite graph joins its two sides."""
    if bipartite is None:
        return ""
    left = bipartite[0]
    if ((csr.row_of_edge < left) == (csr.neighbours < left)).any():
        return f"it is bipartite with {left} vertices on the left, but an edge joins two vertices of one side"
    return ""
