"""Answers by methods of their own, fast at any size: what settled traversals, components and cores are held against.

A superstep of the float64 reference visits every arc, and paths on a road network take thousands of supersteps; and a
residual of distances accepts wrong ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import scipy.sparse

    from harness.graph import Graph

DIJKSTRA = "scipy.sparse.csgraph.dijkstra"
WEAK_COMPONENTS = "scipy.sparse.csgraph.connected_components"
PEELING = "peeling of what has just lost a neighbour"


def path_lengths(graph: Graph, sources: NDArray[np.int64], *, weighted: bool) -> NDArray[np.float64]:
    """``[V, k]``: the length of the shortest path from each of k ``sources`` in float64, infinity where there is none;
    by the weights (>= 0, or 1 where there are none), or by the number of arcs."""
    from scipy.sparse import csgraph

    found = csgraph.dijkstra(_matrix(graph, weighted), indices=sources, unweighted=not weighted)
    return np.ascontiguousarray(found.T)


def least_members(graph: Graph) -> NDArray[np.int64]:
    """``[V]``: the least vertex that each is weakly connected with."""
    from scipy.sparse import csgraph

    _, component = csgraph.connected_components(_matrix(graph, weighted=False), directed=True, connection="weak")
    _, first, member = np.unique(component, return_index=True, return_inverse=True)
    return np.asarray(first[member.reshape(-1)], np.int64)


def core_members(graph: Graph, core: int) -> NDArray[np.bool_]:
    """``[V]``: whether a vertex is in the ``core``-core of a simple undirected graph (both arcs of every edge).

    Arcs of the vertices that have just been taken away are visited once, whatever the number of rounds (Matula & Beck
    1983).
    """
    alive, degree = np.ones(graph.num_vertices, np.bool_), graph.out_degrees.copy()
    neighbours = _matrix(graph, weighted=False)
    going: NDArray[Any] = np.flatnonzero(degree < core)
    while len(going):
        alive[going] = False
        lost = neighbours[going].indices
        np.subtract.at(degree, lost, 1)
        near = np.unique(lost)
        going = near[alive[near] & (degree[near] < core)]
    return alive


def _matrix(graph: Graph, weighted: bool) -> scipy.sparse.csr_array:
    """``[V, V]``, parallel arcs and those of length 0 kept: SciPy's graph routines take each as an arc."""
    from scipy.sparse import csr_array

    data: NDArray[Any] = graph.weights if weighted and graph.weights is not None else np.ones(graph.num_edges)
    size = (graph.num_vertices, graph.num_vertices)
    return csr_array((data.astype(np.float64), graph.csr.neighbours, graph.csr.offsets), shape=size)
