"""Oracles of the programs on integers and paths: BFS, shortest paths, components and the k-core."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components, dijkstra

from tests.oracle.error_model import Array, Expected, U


class Settled:
    """An answer that is only defined for settled runs."""

    def __init__(self, expected: Expected) -> None:
        self.expected = expected

    def fixed(self, left_out: bool) -> Expected:
        return self.expected


def _sources(start: Array) -> np.ndarray:
    """Return the source of each column: the only vertex at 0."""
    assert ((start == 0).sum(axis=0) == 1).all()
    return start.argmin(axis=0)


def bfs(graph, inputs: Mapping[str, Array], algorithm) -> Settled:
    """Return levels by a frontier in each column: a vertex is in level i + 1 if it has an in-edge from level i."""
    level = np.asarray(inputs["source"], np.float64).copy()
    edges = sp.csr_array(
        (np.ones(graph.num_edges, np.int8), graph.csr.neighbours.astype(np.int64), graph.csr.offsets),
        shape=(graph.num_vertices,) * 2,
    )
    for column in range(level.shape[1]):
        frontier, depth = _sources(level[:, [column]]), 0.0
        while len(frontier):
            depth += 1
            met = np.unique(edges[frontier].indices)
            frontier = met[np.isinf(level[met, column])]
            level[frontier, column] = depth
    return Settled(Expected.exact(level, "a search by levels"))


def sssp(graph, inputs: Mapping[str, Array], algorithm) -> Settled:
    """Return Dijkstra's distances in float64. Each addition along a path has a rounding error of at most U times the
    distance.

    The path that is shortest in float32 may differ: its sum in float32 is at most that of the right path, and at
    least its own length minus its rounding errors, so twice the additions on the right path are allowed. Integers
    below 2^24 add up exactly. An edge of length 0 would not be an entry of a sparse matrix: it gets a length that is
    too small to change a sum in float64, and parallel edges are reduced to the shortest.
    """
    start = np.asarray(inputs["source"], np.float64)
    weight = np.ones(graph.num_edges) if graph.weights is None else graph.weights.astype(np.float64)
    row, column = graph.csr.row_of_edge.astype(np.int64), graph.csr.neighbours.astype(np.int64)
    order = np.lexsort((weight, column, row))
    row, column, weight = row[order], column[order], weight[order]
    first = np.ones(len(row), bool)
    first[1:] = (row[1:] != row[:-1]) | (column[1:] != column[:-1])
    lengths = np.maximum(weight[first], 1e-300)
    matrix = sp.csr_array((lengths, (row[first], column[first])), shape=(graph.num_vertices,) * 2)
    distance, before = dijkstra(matrix, indices=_sources(start), return_predecessors=True)
    distance = np.where(distance < 1e-200, 0.0, distance).T
    whole = bool((weight == np.rint(weight)).all()) and distance[np.isfinite(distance)].max() < 2**24
    if whole:
        return Settled(Expected.exact(distance, "Dijkstra, whole numbers"))
    additions = np.stack([_depth(tree, values) for tree, values in zip(before, distance.T, strict=True)], axis=1)
    allowed = 2 * U * additions * np.where(np.isfinite(distance), distance, 0.0)
    return Settled(Expected.within(distance, allowed, "Dijkstra in float64"))


def _depth(before: np.ndarray, distance: Array) -> Array:
    """Return the number of edges on the path to each vertex in a tree of predecessors (negative: none), by pointer
    jumping."""
    parent = np.where(before < 0, np.arange(len(before)), before)
    depth = (before >= 0).astype(np.float64)
    while (parent[parent] != parent).any():
        depth += depth[parent]
        parent = parent[parent]
    return depth


def components(graph, inputs: Mapping[str, Array], algorithm) -> Settled:
    """Return the smallest vertex number of each weakly connected component."""
    _, member = connected_components(_pattern(graph), directed=True, connection="weak")
    least = np.full(member.max(initial=-1) + 1, graph.num_vertices)
    np.minimum.at(least, member, np.arange(graph.num_vertices))
    assert graph.num_vertices <= 2**24
    return Settled(Expected.exact(least[member].astype(np.float64)[:, None], "SciPy's components"))


def kcore(graph, inputs: Mapping[str, Array], algorithm) -> Settled:
    """Repeatedly keep the vertices with enough neighbours in the remaining simple undirected graph."""
    pattern = _pattern(graph)
    simple = sp.csr_array(((pattern + pattern.T) > 0).astype(np.int64))
    simple.setdiag(0)
    simple.eliminate_zeros()
    alive = np.ones(graph.num_vertices, bool)
    while True:
        stays = alive & (simple @ alive.astype(np.int64) >= algorithm.core)
        if (stays == alive).all():
            return Settled(Expected.exact(alive.astype(np.float64)[:, None], "removal of vertices, all at once"))
        alive = stays


def _pattern(graph) -> sp.csr_array:
    ones = np.ones(graph.num_edges, np.int64)
    ends = (graph.csr.row_of_edge.astype(np.int64), graph.csr.neighbours.astype(np.int64))
    return sp.csr_array(sp.coo_array((ones, ends), shape=(graph.num_vertices,) * 2))
