"""Onyx's default plans for graphs of few edges on an emulated device, against the float64 reference."""

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
NO_HUBS, HUBS = 1 << 30, 4  # the in-degree from which a graph has hubs
TODAY = [("bfs", HUBS, 3), ("pagerank", NO_HUBS, 1), ("components", HUBS, 1), ("multimodal", HUBS, 3)]
ROWS = [
    (name, hubs, features)
    for name in NAMES
    for hubs in (NO_HUBS, HUBS)
    for features in ((1,) if name in ("components", "kcore") else (1, 3, 40))
]


@pytest.mark.parametrize(
    ("name", "hubs", "features"),
    [pytest.param(*row, marks=() if row in TODAY else (pytest.mark.full,)) for row in ROWS],
)
def test_answers_of_whole_runs(name, hubs, features, emulated, monkeypatch):
    few = replace(POLICY, few_edges_cuda=1 << 22, skewed_degree=hubs, followed_floats=1 << 11)
    monkeypatch.setattr(OnyxCudaEngine, "policy", few)
    monkeypatch.setitem(SCHEDULES, "default", ("onyx", {"block_size": THREADS}))
    algorithm = algorithms()[name]
    graph, program = algorithm.prepare_graph(rmat(scale=7, edge_factor=5, seed=4, max_weight=4)), trace(algorithm)
    inputs = random_network(graph, features) if name == "belief_propagation" else algorithm.inputs(graph, features)
    engine, run = prepared("default", program, graph, features, emulated), ReferenceRun(program, graph, features)
    assert engine.planned.schedule.persistent or name == "label_propagation" or features > 3
    for one in (engine, run):
        one.reset(inputs)
        one.run(program.max_supersteps)
    wanted = {result: run.values(result) for result in program.outputs}
    found = compare(program, {result: engine.values(result) for result in program.outputs}, wanted)
    assert found.ok, found.detail
    engine.close()
