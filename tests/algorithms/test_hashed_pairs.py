"""Numbers hashed from pairs of vertices, whatever number of edges is hashed at once."""

from __future__ import annotations

import numpy as np
import pytest

from harness.algorithms import edge_blocks
from harness.algorithms.hashed_pairs import hashed_pairs
from harness.graph.generators import rmat

WORD = 2**64


def hashed(u, v, seed, stream):
    """Return the finaliser of MurmurHash3, in integers of any size."""
    number = (min(u, v) << 32) + max(u, v) + seed * 0x9E3779B97F4A7C15 + stream * 0xBF58476D1CE4E5B9
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        number %= WORD
        number = (number ^ (number >> 33)) * factor
    number %= WORD
    return number ^ (number >> 33)


@pytest.mark.parametrize("at_once", [1, 7, 1 << 16])
def test_every_edge_has_the_hash_of_its_ends(at_once, monkeypatch):
    monkeypatch.setattr(edge_blocks, "_AT_ONCE", at_once)
    graph = rmat(scale=5, edge_factor=2)
    ends = list(zip(graph.csr.row_of_edge.tolist(), graph.csr.neighbours.tolist(), strict=True))
    expected = np.array([[hashed(u, v, 3, stream) for u, v in ends] for stream in (1, 4)], np.uint64)
    found = np.empty_like(expected)
    for part, sources, destinations in edge_blocks.edge_blocks(graph):
        found[:, part] = hashed_pairs(sources, destinations, 3, [1, 4])
    np.testing.assert_array_equal(found, expected)
