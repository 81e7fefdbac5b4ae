"""Graphs in the forms that libraries take, made beforehand, and what the libraries give as arrays ``[V, k]``."""

from __future__ import annotations

from functools import cache
from typing import Any

import networkit as nk
import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.sparse import csgraph

from harness.graph import Graph

Array = NDArray[Any]


def matrix_of(graph: Graph, weighted: bool) -> scipy.sparse.csr_matrix:
    data = graph.weights.astype(np.float64) if weighted and graph.weights is not None else np.ones(graph.num_edges)
    size = (graph.num_vertices, graph.num_vertices)
    return scipy.sparse.csr_matrix((data, graph.csr.neighbours.astype(np.int32), graph.csr.offsets), shape=size)


def incoming(graph: Graph, values: Array | None = None) -> scipy.sparse.csr_matrix:
    """At (v, u) the value of the arc u -> v, of ``[E]`` in the graph's order, float64; or 1."""
    data = np.ones(graph.num_edges) if values is None else values.astype(np.float64)[graph.csc.edge_ids]
    size = (graph.num_vertices, graph.num_vertices)
    return scipy.sparse.csr_matrix((data, graph.csc.neighbours.astype(np.int32), graph.csc.offsets), shape=size)


def walk_of(graph: Graph) -> scipy.sparse.csr_matrix:
    """At (v, u) the probability that a walk at u goes to v."""
    share = scipy.sparse.diags_array(1.0 / np.maximum(graph.out_degrees, 1))
    return (share @ matrix_of(graph, weighted=False)).T.tocsr()


def pairs_of(graph: Graph) -> list[tuple[int, int]]:
    return list(zip(graph.csr.row_of_arc.tolist(), graph.csr.neighbours.tolist(), strict=True))


@cache
def networkit_of(graph: Graph, weighted: bool) -> Any:
    """Undirected with each edge once where every arc has its reverse, as NetworKit's own readers make it."""
    source, destination = graph.csr.row_of_arc.astype(np.int64), graph.csr.neighbours.astype(np.int64)
    once = source <= destination if not graph.directed else np.ones(len(source), bool)
    weights = graph.weights.astype(np.float64) if weighted and graph.weights is not None else np.ones(len(source))
    arcs = (weights[once], (source[once], destination[once]))
    return nk.GraphFromCoo(arcs, n=graph.num_vertices, weighted=weighted, directed=graph.directed)


def levels_from(matrix: scipy.sparse.csr_matrix, source: int) -> Array:
    """Parents stand in the order of their levels, so each level is one stretch of the order."""
    order, parent = csgraph.breadth_first_order(matrix, int(source))
    position = np.empty(matrix.shape[0], np.int64)
    position[order] = np.arange(len(order))
    above = position[parent[order[1:]]]
    level = np.full(matrix.shape[0], np.inf)
    first, last, depth = 0, 1, 0
    while first < last:
        level[order[first:last]] = depth
        first, last, depth = last, 1 + int(np.searchsorted(above, last)), depth + 1
    return level


def each_distance(found: list[Any]) -> Array:
    return _unreached(np.array([one.getDistances() for one in found]))


def all_distances(found: Any) -> Array:
    return _unreached(np.array(found.getDistances()))


def _unreached(distance: Array) -> Array:
    """``[V, k]`` with infinity where NetworKit has the largest float64."""
    return np.where(distance > 1e300, np.inf, distance).T


def from_dicts(found: list[dict[int, float]], count: int) -> Array:
    distance = np.full((count, len(found)), np.inf)
    for column, one in enumerate(found):
        distance[list(one), column] = list(one.values())
    return distance
