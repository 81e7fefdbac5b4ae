"""Exact answers by independent methods that are fast at any size: expected results of traversals, components and cores.

A superstep of the float64 reference visits every edge, and paths on a road network take thousands of supersteps. A
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
PEELING = "peeling of vertices that have just lost a neighbour"
UNIT_ROUNDOFF = 2.0**-24


def path_lengths(graph: Graph, sources: NDArray[np.int64], *, weighted: bool) -> NDArray[np.float64]:
    """Return the length of the shortest path from each of k ``sources``, float64[V, k], infinity if there is none.

    The length is the sum of weights (>= 0, or 1 without weights), or the number of edges.
    """
    from scipy.sparse import csgraph

    found = csgraph.dijkstra(_matrix(graph, weighted), indices=sources, unweighted=not weighted)
    return np.ascontiguousarray(found.T)


def length_allowances(graph: Graph, sources: NDArray[np.int64], lengths: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the allowed error, ``[V, k]``, of a shortest path's length summed sequentially from the source in float32.

    An addition with result d has an error of at most 2^-24 d, and its result is at least its first operand. Therefore
    the computed lengths lie between the shortest paths of two graphs, whose edges into v are shorter and longer by
    2^-24 d(v). The error follows from the additions along the shortest path, and along those that rounding can
    substitute for it.
    """
    from scipy.sparse import csgraph

    matrix, bound = _matrix(graph, weighted=True), np.zeros_like(lengths)
    weights = matrix.data.copy()
    for feature, source in enumerate(sources):
        reached = np.where(np.isfinite(lengths[:, feature]), lengths[:, feature], 0.0)
        rounding = np.where(weights > 0, UNIT_ROUNDOFF * reached[graph.csr.neighbours], 0.0)
        for sign in (-1.0, 1.0):
            matrix.data = np.maximum(weights + sign * rounding, 0.0)
            found = csgraph.dijkstra(matrix, indices=source)
            with np.errstate(invalid="ignore"):
                off = np.nan_to_num(np.abs(found - lengths[:, feature]), nan=0.0)
            bound[:, feature] = np.maximum(bound[:, feature], 2.0 * off)
    return bound


def hops(graph: Graph, sources: NDArray[np.int64]) -> int:
    """Return the largest number of edges from the nearest of some ``sources`` to a vertex that they reach."""
    from scipy.sparse import csgraph

    if not len(sources):
        return 0
    found = csgraph.dijkstra(_matrix(graph, weighted=False), indices=sources, unweighted=True, min_only=True)
    return int(found[np.isfinite(found)].max(initial=0))


def least_members(graph: Graph) -> NDArray[np.int64]:
    """Return the least vertex of each vertex's weak component, int64[V]."""
    from scipy.sparse import csgraph

    _, component = csgraph.connected_components(_matrix(graph, weighted=False), directed=True, connection="weak")
    _, first, member = np.unique(component, return_index=True, return_inverse=True)
    return np.asarray(first[member.reshape(-1)], np.int64)


def core_members(graph: Graph, core: int) -> tuple[NDArray[np.bool_], int]:
    """Return whether each vertex is in the ``core``-core of a simple undirected graph, bool[V], and the number of
    rounds.

    Every edge is stored in both directions. A round removes the vertices that have too few neighbours left. The edges
    of each removed vertex are visited once, for any number of rounds (Matula & Beck 1983).
    """
    alive, degree, rounds = np.ones(graph.num_vertices, np.bool_), graph.out_degrees.copy(), 0
    neighbours = _matrix(graph, weighted=False)
    going: NDArray[Any] = np.flatnonzero(degree < core)
    while len(going):
        rounds += 1
        alive[going] = False
        lost = neighbours[going].indices
        np.subtract.at(degree, lost, 1)
        near = np.unique(lost)
        going = near[alive[near] & (degree[near] < core)]
    return alive, rounds


def _matrix(graph: Graph, weighted: bool) -> scipy.sparse.csr_array:
    """Return the matrix ``[V, V]``, with parallel edges and those of length 0 stored: SciPy's graph routines use
    each."""
    from scipy.sparse import csr_array

    data: NDArray[Any] = graph.weights if weighted and graph.weights is not None else np.ones(graph.num_edges)
    size = (graph.num_vertices, graph.num_vertices)
    return csr_array((data.astype(np.float64), graph.csr.neighbours, graph.csr.offsets), shape=size)
