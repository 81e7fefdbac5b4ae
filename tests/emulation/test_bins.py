"""Bins of SIMD-X's online filter, emulated: a thread lists as many vertices as its bin holds, and reports one more."""

from __future__ import annotations

import numpy as np
import pytest

from harness.algorithms.bfs import BFS
from harness.contract import EngineFailure
from harness.graph import Graph
from harness.language import trace
from tests.engines.cuda_schedules import SCHEDULES
from tests.engines.test_cuda import prepared

CAPACITY = 4
FULL = 32 * CAPACITY  # a warp shares the edges of the only active vertex
THREADS = 3 * 64  # of the emulated device


def broom(leaves):
    """Return a graph of the edges 0 -> 1, 1 -> each leaf and each leaf -> a tip of its own, and its levels.

    One vertex reaches all vertices of level 2, each of which reaches one of level 3.
    """
    first = 2 + np.arange(leaves)
    sources = np.concatenate([[0], np.ones(leaves, int), first])
    destinations = np.concatenate([[1], first, first + leaves])
    levels = np.repeat([0, 1, 2, 3], [1, 1, leaves, leaves])
    return Graph.from_edges(sources, destinations, num_vertices=2 + 2 * leaves, name=f"broom of {leaves}"), levels


def started(filter_, fusion, graph, sources, monkeypatch, device):
    """Return an engine that searches from sources, only pushes, and has all vertices in the list of small ones."""
    options = {"bin_size": CAPACITY, "pull_share": 1.0, "warp_degree": 1000, "block_degree": 1000}
    monkeypatch.setitem(SCHEDULES, "bins", ("simdx", {"filter": filter_, "fusion": fusion, **options}))
    algorithm, features = BFS(sources=" ".join(map(str, sources))), len(sources)
    engine = prepared("bins", trace(algorithm), graph, features, device)
    engine.reset(algorithm.inputs(graph, features))
    return engine


@pytest.mark.parametrize(
    ("filter_", "fusion", "leaves", "made"),
    [
        ("jit", "push_pull", FULL, "online"),
        ("jit", "push_pull", FULL + 1, "ballot"),
        ("online", "none", FULL, "online"),
        ("jit", "all", FULL + 1, "ballot"),
    ],
)
def test_all_vertices_of_a_bin_are_listed(filter_, fusion, leaves, made, emulated, monkeypatch):
    graph, levels = broom(leaves)
    engine = started(filter_, fusion, graph, [0], monkeypatch, emulated)
    taken = engine.run(100)
    np.testing.assert_array_equal(engine.values("level").ravel(), levels)
    assert [step.active for step in taken.supersteps] == np.bincount(levels).tolist()
    assert [(step.edges, step.direction) for step in taken.supersteps] == [(n, "push") for n in (1, leaves, leaves, 0)]
    assert engine.executor.filters == ["ballot", made, "online", "online"]
    engine.close()


def test_a_bin_that_overflows_fails_if_there_is_no_other_filter(emulated, monkeypatch):
    engine = started("online", "none", broom(FULL + 1)[0], [0], monkeypatch, emulated)
    with pytest.raises(EngineFailure, match=f"a bin of {CAPACITY} vertices overflowed in superstep 1"):
        engine.run(100)
    engine.close()


def test_a_bin_lists_a_vertex_once_for_all_features(emulated, monkeypatch):
    """Each thread reaches as many vertices as its bin holds, first for one feature and then for the other."""
    arms = 2 + np.arange(2 * THREADS)
    sources = np.concatenate([np.repeat([0, 1], THREADS), np.repeat(arms, CAPACITY)])
    reached = 2 + 2 * THREADS + np.tile(np.arange(CAPACITY * THREADS), 2)
    reached = np.concatenate([arms, reached])
    graph = Graph.from_edges(sources, reached, num_vertices=2 + (2 + CAPACITY) * THREADS, name="two fans")
    engine = started("jit", "none", graph, [0, 1], monkeypatch, emulated)
    taken = engine.run(100)
    assert (engine.values("level")[2 + 2 * THREADS :] == 2).all()
    assert [step.active for step in taken.supersteps] == [2, 2 * THREADS, CAPACITY * THREADS]
    assert engine.executor.filters == ["ballot", "online", "online"]
    engine.close()
