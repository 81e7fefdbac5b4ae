"""Numbers drawn for pairs of vertices by hashing them: the same whatever other arcs a graph has, with no table kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from harness.graph.slices import in_slices

if TYPE_CHECKING:
    from harness.graph import Graph


def hashed_pairs(graph: Graph, seed: int, stream: int = 0) -> NDArray[np.uint64]:
    """A number for every arc, uint64[E] in CSR order, from its two ends (either way round), ``seed`` and ``stream``.

    The finaliser of MurmurHash3 over the pair of vertices, shifted by the odd constants of SplitMix64. Arcs that are
    parallel, or each other's reverse, get the same number; so does an arc that stays while others come and go.
    """
    source, destination = graph.csr.row_of_arc, graph.csr.neighbours
    shift = np.uint64((seed * 0x9E3779B97F4A7C15 + stream * 0xBF58476D1CE4E5B9) % 2**64)
    found = np.empty(graph.num_edges, np.uint64)

    def hashed(part: slice) -> None:
        ends = source[part].astype(np.uint64), destination[part].astype(np.uint64)
        number = (np.minimum(*ends) << np.uint64(32)) + np.maximum(*ends)
        number += shift
        for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
            number = (number ^ (number >> np.uint64(33))) * np.uint64(factor)
        found[part] = number ^ (number >> np.uint64(33))

    in_slices(hashed, graph.num_edges)
    return found
