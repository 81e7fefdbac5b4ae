"""Ratings of collaborative filtering: which are left out of training, and how well they are predicted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from harness.algorithms.hashed_pairs import hashed_pairs
from harness.language import InvalidInput

if TYPE_CHECKING:
    from harness.graph import Graph

HELD_OUT = "held_out_arcs"  # in the meta of a training graph


def ratings(graph: Graph) -> NDArray[np.float32]:
    """The weights ``[E]``; raises InvalidInput when they do not differ: all factors would be zero. No arcs is fine."""
    if not graph.num_edges:
        return np.zeros(0, np.float32)
    if graph.weights is None or np.ptp(graph.weights) == 0:
        raise InvalidInput(f"graph {graph.name!r} has no ratings that differ; use a ratings graph or other weights")
    return graph.weights


def drawn_ratings(graph: Graph, seed: int) -> Graph:
    """The graph with a whole number from 1 to 5 on every arc, the same both ways; drawn by hashing the pair of vertices
    and ``seed`` (:func:`harness.algorithms.hashed_pairs.hashed_pairs`)."""
    return graph.with_weights((1 + hashed_pairs(graph, seed) % np.uint64(5)).astype(np.float32))


def held_out(graph: Graph, share: float, seed: int) -> NDArray[np.bool_]:
    """Which arcs are left out of training, ``[E]``: a ``share`` of the pairs of vertices, u -> v with v -> u.

    Raises InvalidInput when ``share`` is outside [0, 1) or leaves nothing for training.
    """
    if HELD_OUT in graph.meta:
        raise InvalidInput(
            f"graph {graph.name!r} has lost its held-out ratings already; give the graph from before prepare_graph"
        )
    if not 0.0 <= share < 1.0:
        raise InvalidInput(f"holdout={share}: the share of ratings left out lies in [0, 1)")
    if share == 0 or not graph.num_edges:
        return np.zeros(graph.num_edges, np.bool_)
    ends = np.sort([graph.csr.row_of_arc.astype(np.int64), graph.csr.neighbours.astype(np.int64)], axis=0)
    pairs, pair = np.unique(ends[0] * graph.num_vertices + ends[1], return_inverse=True)
    held = np.random.default_rng(seed + 1).random(len(pairs)) < share
    if held.all():
        raise InvalidInput(f"holdout={share} leaves no rating of graph {graph.name!r} for training; lower it")
    return np.asarray(held[pair])


def training(graph: Graph, held: NDArray[np.bool_]) -> Graph:
    """The graph without the ratings held out; it remembers that it lacks them."""
    kept = graph.select_arcs(~held)
    kept.meta[HELD_OUT] = int(np.count_nonzero(held))
    return kept


def prediction_errors(graph: Graph, factors: NDArray[Any], held: NDArray[np.bool_]) -> dict[str, float]:
    """Root mean square errors of mean + x_u . x_v: ``train_rmse`` and, where arcs are held out, ``rmse``.

    ``graph``: with the arcs held out. ``factors``: ``[V, k]``.
    """
    given, x = ratings(graph), factors.astype(np.float64)
    mean = float(given[~held].mean(dtype=np.float64))
    fitted = mean + np.einsum("ek,ek->e", x[graph.csr.row_of_arc], x[graph.csr.neighbours])
    square = (given - fitted) ** 2
    found = {"train_rmse": float(np.sqrt(square[~held].mean()))}
    return found | ({"rmse": float(np.sqrt(square[held].mean()))} if held.any() else {})
