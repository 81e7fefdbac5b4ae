"""Ratings of collaborative filtering: the held-out set and the prediction errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from harness.algorithms.hashed_pairs import hashed_pairs
from harness.language import InvalidInput

if TYPE_CHECKING:
    from harness.graph import Graph

HELD_OUT = "held_out_edges"  # in the meta of a training graph


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
    """
    drawn = hashed_pairs(graph, seed)
    drawn %= np.uint64(5)
    drawn += np.uint64(1)
    return graph.with_weights(drawn.astype(np.float32))


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


def prediction_errors(graph: Graph, factors: NDArray[Any], held: NDArray[np.bool_]) -> dict[str, float]:
    """Return root mean square errors of mean + x_u . x_v: ``train_rmse`` and, if edges are held out, ``rmse``.

    ``graph``: including the held-out edges. ``factors``: ``[V, k]``.
    """
    given, x = ratings(graph), factors.astype(np.float64)
    mean = float(given[~held].mean(dtype=np.float64))
    fitted = mean + np.einsum("ek,ek->e", x[graph.csr.row_of_edge], x[graph.csr.neighbours])
    square = (given - fitted) ** 2
    found = {"train_rmse": float(np.sqrt(square[~held].mean()))}
    return found | ({"rmse": float(np.sqrt(square[held].mean()))} if held.any() else {})
