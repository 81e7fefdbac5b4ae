"""The minimum spanning forest by SciPy, and the vertices that its edges belong to in Boruvka's method."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from harness.graph import Graph

KRUSKAL = "scipy.sparse.csgraph.minimum_spanning_tree"
Array = NDArray[Any]


def forest_edges(graph: Graph) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Return the ends and the weight of every edge of the minimum spanning forest, int64[F] twice and float64[F].

    The graph is undirected. Edges are ordered by weight, then by the smaller end, then by the larger end, which is
    returned second. SciPy takes the position in this order as the weight: it would drop edges of weight 0.
    """
    from scipy.sparse import csgraph, csr_array

    source, destination = graph.csr.row_of_edge.astype(np.int64), graph.csr.neighbours.astype(np.int64)
    weight = np.ones(graph.num_edges) if graph.weights is None else graph.weights.astype(np.float64)
    upward = source < destination
    lower, upper, weight = source[upward], destination[upward], weight[upward]
    order = np.lexsort((weight, upper, lower))
    first = np.ones(len(order), np.bool_)  # of parallel edges
    first[1:] = (np.diff(lower[order]) != 0) | (np.diff(upper[order]) != 0)
    kept = order[first]
    lower, upper, weight = lower[kept], upper[kept], weight[kept]
    order = np.lexsort((upper, lower, weight))
    position = np.empty(len(order))
    position[order] = np.arange(1, len(order) + 1)
    size = (graph.num_vertices, graph.num_vertices)
    found = csgraph.minimum_spanning_tree(csr_array((position, (lower, upper)), shape=size))
    chosen = order[found.data.astype(np.int64) - 1]
    return lower[chosen], upper[chosen], weight[chosen]


def boruvka_rounds(
    count: int, lower: Array, upper: Array, cost: Array
) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """Return the edge by which each vertex joins another tree, the last root of each vertex, and the number of rounds.

    The edges are those of a forest of ``count`` vertices: a tree's least edge to another one is in the forest. The edge
    is int64[V], -1 for the last root of a tree; the root is int64[V].
    """
    chosen, root, rounds = np.full(count, -1, np.int64), np.arange(count), 0
    order = np.lexsort((upper, lower, cost))
    lower, upper = lower[order], upper[order]
    left = np.arange(len(order))  # positions in the order: the least one is the least edge
    while True:
        left = left[root[lower[left]] != root[upper[left]]]
        if not len(left):
            return np.where(chosen < 0, chosen, order[chosen]) if len(order) else chosen, root, rounds
        rounds += 1
        best = np.full(count, len(order))
        ends = root[lower[left]], root[upper[left]]
        for end in ends:
            np.minimum.at(best, end, left)
        joining = np.flatnonzero(best < len(order))
        edge = best[joining]
        aim = np.arange(count)
        aim[joining] = root[lower[edge]] + root[upper[edge]] - joining
        moves = (aim[aim[joining]] != joining) | (joining > aim[joining])
        chosen[joining[moves]] = edge[moves]
        above = np.arange(count)
        above[joining[moves]] = aim[joining[moves]]
        while not np.array_equal(above, above[above]):
            above = above[above]
        root = above[root]
