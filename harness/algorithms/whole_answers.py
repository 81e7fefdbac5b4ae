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
UNIT_ROUNDOFF = 2.0**-24


def path_lengths(graph: Graph, sources: NDArray[np.int64], *, weighted: bool) -> NDArray[np.float64]:
    """``[V, k]``: the length of the shortest path from each of k ``sources`` in float64, infinity where there is none;
    by the weights (>= 0, or 1 where there are none), or by the number of arcs."""
    from scipy.sparse import csgraph

    found = csgraph.dijkstra(_matrix(graph, weighted), indices=sources, unweighted=not weighted)
    return np.ascontiguousarray(found.T)


def length_allowances(graph: Graph, sources: NDArray[np.int64], lengths: NDArray[np.float64]) -> NDArray[np.float64]:
    """``[V, k]``: by how much a shortest path's length, added up in float32 from the source on, may be off.

    An addition that gives d is off by 2^-24 d at most, and never gives less than it began with. So the computed lengths
    lie between the shortest paths of a graph whose arcs into v are by 2^-24 d(v) shorter, and one whose are longer: the
    error follows from the additions along the shortest path, and along those that rounding can put in its place.
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
    """The largest number of arcs from the nearest of some ``sources`` to a vertex that they reach."""
    from scipy.sparse import csgraph

    if not len(sources):
        return 0
    found = csgraph.dijkstra(_matrix(graph, weighted=False), indices=sources, unweighted=True, min_only=True)
    return int(found[np.isfinite(found)].max(initial=0))


def least_members(graph: Graph) -> NDArray[np.int64]:
    """``[V]``: the least vertex that each is weakly connected with."""
    from scipy.sparse import csgraph

    _, component = csgraph.connected_components(_matrix(graph, weighted=False), directed=True, connection="weak")
    _, first, member = np.unique(component, return_index=True, return_inverse=True)
    return np.asarray(first[member.reshape(-1)], np.int64)


def core_members(graph: Graph, core: int) -> tuple[NDArray[np.bool_], int]:
    """``[V]``: whether a vertex is in the ``core``-core of a simple undirected graph (both arcs of every edge); and the
    number of rounds in which the others are taken away.

    Arcs of the vertices that have just been taken away are visited once, whatever the number of rounds (Matula & Beck
    1983).
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
    """``[V, V]``, parallel arcs and those of length 0 kept: SciPy's graph routines take each as an arc."""
    from scipy.sparse import csr_array

    data: NDArray[Any] = graph.weights if weighted and graph.weights is not None else np.ones(graph.num_edges)
    size = (graph.num_vertices, graph.num_vertices)
    return csr_array((data.astype(np.float64), graph.csr.neighbours, graph.csr.offsets), shape=size)
