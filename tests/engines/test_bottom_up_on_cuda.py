"""Pulls that read only what may improve a vertex, on a device: the same answers from fewer edges."""

from __future__ import annotations

import numpy as np
import pytest

from harness.graph.generators import rmat
from tests.engines.bottom_up import problem
from tests.engines.cuda_schedules import SCHEDULES
from tests.engines.test_cuda import algorithms, prepared

pytestmark = pytest.mark.gpu
WAYS = {
    "recorded launches": {"balance": "edge"},
    "persistent": {"balance": "edge", "persistent": True},
    "all pulls": {"balance": "warp", "persistent": True, "dense_share": 0.0},
    "loops over features": {"balance": "warp", "feature_aware": False},
}


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("name", "features"),
    [*((name, k) for name in ("bfs", "sssp", "bottleneck") for k in (1, 4, 33)), ("components", 1)],
)
def test_answers_are_those_of_whole_rows(name, features, way, symmetric, device, monkeypatch):
    graph = rmat(scale=14, edge_factor=12, seed=3, max_weight=64, symmetric=symmetric)
    program, graph, inputs = problem(name, graph, features)
    found, edges = {}, {}
    for bottom_up in (True, False):
        given = {"direction": "adaptive", "dense_share": 0.1, "bottom_up": bottom_up, **WAYS[way]}
        monkeypatch.setitem(SCHEDULES, "adaptive", ("onyx", given))
        engine = prepared("adaptive", program, graph, features, device)
        for _ in range(3):
            engine.reset(inputs)
            statistics = engine.run(program.max_supersteps)
            found.setdefault(bottom_up, []).append({out: engine.values(out) for out in program.outputs})
            edges.setdefault(bottom_up, []).append([step.edges for step in statistics.supersteps])
        assert statistics.settled
        assert any(step.direction == "pull" for step in statistics.supersteps)
        engine.close()
    for answer in (*found[True], *found[False]):
        for output, values in answer.items():
            np.testing.assert_array_equal(values, found[False][0][output])
    assert all(one == edges[True][0] for one in edges[True])
    assert sum(edges[True][0]) < sum(edges[False][0])
    if name == "bottleneck":
        return
    for output, wanted in algorithms()[name].settled_answer(graph, features).values.items():
        np.testing.assert_allclose(found[True][0][output], wanted, rtol=1e-5)
