"""Onyx's default plans on an emulated device, against the float64 reference."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engines.onyx.cuda_engine import OnyxCudaEngine
from harness.graph.generators import rmat
from harness.language import trace
from harness.language.reference import ReferenceRun
from harness.language.validation import compare
from tests.emulation.device import POLICY, THREADS
from tests.engines.cuda_schedules import SCHEDULES
from tests.engines.test_cuda import algorithms, prepared, random_network

NAMES = (
    "bfs", "sssp", "components", "kcore", "pagerank", "label_propagation", "manifold_ranking", "multimodal",
    "belief_propagation", "hits",
)  # fmt: skip
LARGE = 100  # edges from which a graph is large, and paths are pushed
SMALL = 1 << 20
EVEN, SKEWED = 1 << 30, 4  # the in-degree from which degrees differ
TODAY = [
    ("bfs", SKEWED, LARGE, 3), ("bfs", EVEN, LARGE, 1), ("pagerank", EVEN, SMALL, 1), ("hits", SKEWED, SMALL, 1),
    ("pagerank", SKEWED, SMALL, 3), ("kcore", EVEN, LARGE, 1), ("sssp", EVEN, SMALL, 40), ("sssp", SKEWED, LARGE, 1),
    ("label_propagation", SKEWED, LARGE, 40), ("multimodal", SKEWED, LARGE, 3),
]  # fmt: skip
ROWS = [
    (name, skewed, large, features)
    for name in NAMES
    for skewed in (EVEN, SKEWED)
    for large in (SMALL, LARGE)
    for features in ((1,) if name in ("components", "kcore") else (1, 3, 40))
]


@pytest.mark.parametrize(
    ("name", "skewed", "large", "features"),
    [pytest.param(*row, marks=() if row in TODAY else (pytest.mark.full,)) for row in ROWS],
)
def test_answers_of_whole_runs(name, skewed, large, features, emulated, monkeypatch):
    lists = {"middle_edges": 2, "middle_share": 0.0, "fewest_owners": 1, "hub_edges": (6, 6)}
    sizes = {"short_row": 3, "owned_floats": 1 << 11, "skewed_degree": skewed, "large_graph": large}
    monkeypatch.setattr(
        OnyxCudaEngine, "policy", replace(POLICY, measured_edges=1 << 25, adaptive_edges=large, **lists, **sizes)
    )
    monkeypatch.setitem(SCHEDULES, "default", ("onyx", {"block_size": THREADS}))
    algorithm = algorithms()[name]
    graph, program = algorithm.prepare_graph(rmat(scale=7, edge_factor=5, seed=4, max_weight=4)), trace(algorithm)
    inputs = random_network(graph, features) if name == "belief_propagation" else algorithm.inputs(graph, features)
    engine, run = prepared("default", program, graph, features, emulated), ReferenceRun(program, graph, features)
    local = skewed == EVEN and large == LARGE and features > 3 and program.control.tolerance is not None
    paths = name in ("bfs", "sssp") and large == LARGE and skewed == EVEN
    pushed = paths or (local and name in ("pagerank", "hits") and features >= POLICY.pushed_features)
    # The others read changing edges, or a value of the whole graph that changes.
    adaptive = name not in ("belief_propagation", "pagerank", "hits") and large == LARGE and skewed == SKEWED
    assert engine.planned.schedule.change_driven is (local or pushed or adaptive)
    assert engine.planned.schedule.direction == ("push" if pushed else "adaptive" if adaptive else "pull")
    for one in (engine, run):
        one.reset(inputs)
        one.run(program.max_supersteps)
    wanted = {result: run.values(result) for result in program.outputs}
    found = compare(program, {result: engine.values(result) for result in program.outputs}, wanted)
    assert found.ok, found.detail
    engine.close()
