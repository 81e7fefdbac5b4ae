"""Pseudo-random numbers for pairs of vertices by hashing: independent of a graph's other edges, without a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from harness.graph import Graph

_AT_ONCE = 1 << 16  # edges: temporary arrays stay in the cache (8 M edges take 0.2 s; all at once, 0.3 to 0.9 s)


def hashed_pairs(graph: Graph, seed: int, stream: int = 0) -> NDArray[np.uint64]:
    """Return a number for every edge, uint64[E] in CSR order, from its two ends (in either order), ``seed`` and
    ``stream``.

    The hash is the finaliser of MurmurHash3 over the pair of vertices, shifted by the odd constants of SplitMix64.
    Parallel edges and reverse edges get the same number. An edge keeps its number when other edges are added or
    removed.
    """
    rows, neighbours = graph.csr.row_of_edge, graph.csr.neighbours
    start = np.uint64((seed * 0x9E3779B97F4A7C15 + stream * 0xBF58476D1CE4E5B9) % 2**64)
    hashed = np.empty(graph.num_edges, np.uint64)
    for first in range(0, graph.num_edges, _AT_ONCE):
        part = slice(first, first + _AT_ONCE)
        hashed[part] = _hashed(rows[part].astype(np.uint64), neighbours[part].astype(np.uint64), start)
    return hashed


def _hashed(one: NDArray[np.uint64], other: NDArray[np.uint64], start: np.uint64) -> NDArray[np.uint64]:
    number = (np.minimum(one, other) << np.uint64(32)) + np.maximum(one, other)
    number += start
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        number = (number ^ (number >> np.uint64(33))) * np.uint64(factor)
    return number ^ (number >> np.uint64(33))
