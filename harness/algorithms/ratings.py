"""Ratings of collaborative filtering: the held-out set and the prediction errors."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.algorithms.edge_blocks import edge_blocks
from harness.algorithms.hashed_pairs import hashed_pairs
from harness.graph.adjacency import Adjacency, id_dtype
from harness.graph.graph import Graph
from harness.language import InvalidInput

HELD_OUT = "held_out_edges"  # in the meta of a training graph
PAIRS = 1 << 16  # pairs of rows in memory at a time


def ratings(graph: Graph) -> NDArray[np.float32]:
    """Return the weights ``[E]``. Raises InvalidInput if all are equal, since all factors would be zero.

    A graph without edges is valid.
    """
    if not graph.num_edges:
        return np.zeros(0, np.float32)
    if graph.weights is None or np.ptp(graph.weights) == 0:
        raise InvalidInput(f"graph {graph.name!r} has no ratings that differ; use a ratings graph or other weights")
    return graph.weights


def drawn_ratings(graph: Graph, seed: int) -> Graph:
    """Return the graph with an integer from 1 to 5 on every edge, equal in both directions.

    The numbers are hashes of the pair of vertices and ``seed`` (:func:`harness.algorithms.hashed_pairs.hashed_pairs`).
    An edge keeps its number when other edges are added or removed.
    """
    drawn = np.empty(graph.num_edges, np.float32)
    for part, sources, destinations in edge_blocks(graph):
        drawn[part] = hashed_pairs(sources, destinations, seed, [0])[0] % np.uint64(5) + np.uint64(1)
    return graph.with_weights(drawn)


def held_out(graph: Graph, share: float, seed: int) -> NDArray[np.bool_]:
    """Draw the edges held out of training, bool[E]: a ``share`` of the pairs of vertices, u -> v together with v -> u.

    Raises InvalidInput if ``share`` is outside [0, 1) or leaves nothing for training.
    """
    if HELD_OUT in graph.meta:
        raise InvalidInput(
            f"graph {graph.name!r} has its held-out ratings removed already; give the graph from before prepare_graph"
        )
    if not 0.0 <= share < 1.0:
        raise InvalidInput(f"holdout={share}: the share of held-out ratings lies in [0, 1)")
    if share == 0 or not graph.num_edges:
        return np.zeros(graph.num_edges, np.bool_)
    ends = np.sort([graph.csr.row_of_edge.astype(np.int64), graph.csr.neighbours.astype(np.int64)], axis=0)
    pairs, pair = np.unique(ends[0] * graph.num_vertices + ends[1], return_inverse=True)
    held = np.random.default_rng(seed + 1).random(len(pairs)) < share
    if held.all():
        raise InvalidInput(f"holdout={share} leaves no rating of graph {graph.name!r} for training; lower it")
    return np.asarray(held[pair])


def training(graph: Graph, held: NDArray[np.bool_]) -> Graph:
    """Return the graph without the held-out ratings; its ``meta`` records their number."""
    kept = graph.select_edges(~held)
    kept.meta[HELD_OUT] = int(np.count_nonzero(held))
    return kept


def left_to_right(graph: Graph) -> Graph:
    """Return a bipartite graph with only the edges that lead from the left to the right side: each rating once."""
    assert graph.bipartite is not None
    kept = graph.csr.row_of_edge < graph.bipartite[0]
    return graph if kept.all() else graph.select_edges(kept)


def double_cover(graph: Graph) -> Graph:
    """Return the bipartite graph with an edge u -> V + v for every edge u -> v, which has its weight."""
    size = graph.num_vertices
    columns = graph.csr.neighbours.astype(np.int64) + size
    offsets = np.concatenate([graph.csr.offsets, np.full(size, graph.num_edges, np.int64)])
    return Graph(
        Adjacency(offsets, columns.astype(id_dtype(2 * size))),
        name=f"{graph.name}, double cover", weights=graph.weights, bipartite=(size, size), meta=graph.meta,
    )  # fmt: skip


def prediction_errors(
    graph: Graph, factors: NDArray[Any], held: NDArray[np.bool_], bias: NDArray[Any] | None = None
) -> dict[str, float]:
    """Return root mean square errors of mean + x_u . x_v: ``train_rmse`` and, if edges are held out, ``rmse``.

    ``graph``: including the held-out edges. ``factors``: ``[V, k]``. ``bias``: ``[V]``, added for both ends.
    """
    given = ratings(graph)
    mean = float(given[~held].mean(dtype=np.float64))
    rows, columns = graph.csr.row_of_edge, graph.csr.neighbours
    fitted = row_products(factors, rows, columns)
    if bias is not None:
        fitted += np.asarray(bias, np.float64)[rows] + np.asarray(bias, np.float64)[columns]
    return root_mean_squares(given - (mean + fitted), held)


def row_products(factors: NDArray[Any], rows: NDArray[Any], columns: NDArray[Any]) -> NDArray[np.float64]:
    """Return the dot product of two rows of ``factors`` ``[V, k]`` for each pair of vertices, float64 [E]."""
    found = np.empty(len(rows))
    for first in range(0, len(rows), PAIRS):
        part = slice(first, first + PAIRS)
        found[part] = np.einsum("ek,ek->e", factors[rows[part]], factors[columns[part]], dtype=np.float64)
    return found


def root_mean_squares(errors: NDArray[Any], held: NDArray[np.bool_]) -> dict[str, float]:
    """Return the root mean square of the errors: ``train_rmse`` of the others and ``rmse`` of those held out, if any.

    ``errors``: [E]. ``held``: bool[E].
    """
    square = errors**2
    found = {"train_rmse": float(np.sqrt(square[~held].mean()))} if (~held).any() else {}
    return found | ({"rmse": float(np.sqrt(square[held].mean()))} if held.any() else {})
