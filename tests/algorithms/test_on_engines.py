"""The traversals and the linear systems on the engines, against the reference on one small graph."""

from __future__ import annotations

import functools

import pytest

from harness.algorithms.bfs import BFS
from harness.algorithms.components import Components
from harness.algorithms.kcore import KCore
from harness.algorithms.manifold_ranking import ManifoldRanking
from harness.algorithms.multimodal import Multimodal
from harness.algorithms.sssp import SSSP
from harness.contract import Device, No, Phases
from harness.graph.generators import rmat
from harness.language import trace
from harness.language.reference import ReferenceRun
from harness.language.validation import compare
from tests.engines.problems import new_engine, outputs_of

ALGORITHMS = {
    "bfs": BFS(),
    "sssp": SSSP(),
    "components": Components(),
    "kcore": KCore(core=6),
    "manifold_ranking": ManifoldRanking(alpha=0.9, supersteps=300),
    "multimodal": Multimodal(),
}
SCHEDULES = {
    "onyx": ("onyx", {}),
    "onyx-push": ("onyx", {"direction": "push"}),
    "onyx-all": ("onyx", {"change_driven": False}),
    "onyx-push-all": ("onyx", {"direction": "push", "change_driven": False}),
    "gunrock": ("gunrock", {}),
    "tigr": ("tigr", {}),
    "simdx": ("simdx", {"warp_degree": 3, "block_degree": 9}),
    "scipy": ("scipy", {}),
    "torch": ("torch", {}),
}
NO_PRODUCT = ("bfs", "sssp", "components", "manifold_ranking", "multimodal")  # a sparse product cannot do these


@functools.cache
def problem(name, features):
    """Program, graph, inputs and the reference's answer."""
    algorithm = ALGORITHMS[name]
    program = trace(algorithm)
    graph = algorithm.prepare_graph(
        rmat(scale=8, edge_factor=8, seed=4, max_weight=4, self_loops=True, parallel_arcs=True)
    )
    inputs = algorithm.inputs(graph, features)
    run = ReferenceRun(program, graph, features)
    run.reset(inputs)
    assert run.run(program.max_supersteps).settled
    return program, graph, inputs, outputs_of(run, program)


def check(schedule, name, features):
    program, graph, inputs, expected = problem(name, features)
    engine_name, options = SCHEDULES[schedule]
    engine, device = new_engine(engine_name, options), Device(threads=2)
    answer = engine.supports(program, graph, features, device)
    if isinstance(answer, No):
        assert (engine_name, name) in {("scipy", refused) for refused in NO_PRODUCT}, answer.reason
        assert "product" in answer.reason or "constant of the edge" in answer.reason
        pytest.skip(answer.reason)
    engine.prepare(program, graph, features, device, Phases())
    engine.reset(inputs)
    assert engine.run(program.max_supersteps).settled
    found = compare(program, outputs_of(engine, program), expected)
    engine.close()
    assert found.ok, found.detail


# Every schedule meets every algorithm; the two numbers of features take turns.
PAIRED = [
    (schedule, name, (1, 8)[(i + j) % 2]) for i, schedule in enumerate(SCHEDULES) for j, name in enumerate(ALGORITHMS)
]


@pytest.mark.parametrize(("schedule", "name", "features"), PAIRED)
def test_answers_are_the_reference_s(schedule, name, features):
    check(schedule, name, features)


@pytest.mark.full
@pytest.mark.parametrize("features", [1, 8])
@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_all_answers_are_the_reference_s(schedule, name, features):
    check(schedule, name, features)
