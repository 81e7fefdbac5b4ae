"""Onyx's ``direction=adaptive`` on an emulated device: pushes while little moves, pulls while much does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from engines.onyx.cuda_engine import OnyxCudaEngine
from harness.contract import No
from harness.graph import Graph
from harness.graph.generators import rmat
from harness.language import Inputs, trace
from harness.language.reference import ReferenceRun
from harness.language.validation import compare
from tests.emulation.device import POLICY, THREADS
from tests.engines.cuda_schedules import SCHEDULES, cuda_engine
from tests.engines.programs import program_named, two_sides
from tests.engines.test_cuda import algorithms, prepared

NAMES = ("bfs", "sssp", "components", "kcore", "pagerank", "label_propagation", "hits")
TODAY = [
    ("bfs", "warp", False, 1), ("sssp", "edge", False, 3), ("kcore", "warp", True, 1), ("pagerank", "edge", True, 1),
    ("pagerank", "warp", False, 3), ("components", "edge", True, 1), ("bfs", "parts", True, 3),
    ("sssp", "parts", False, 1), ("pagerank", "parts", True, 40), ("bfs", "edge", True, 40),
    ("pagerank", "warp", True, 40), ("sssp", "warp", False, 40), ("kcore", "edge", False, 1), ("sssp", "edge", True, 1),
]  # fmt: skip
ROWS = [
    (name, balance, persistent, features)
    for name in NAMES
    for balance in ("warp", "edge", "parts")
    for persistent in (False, True)
    for features in ((1,) if name in ("components", "kcore") else (1, 3, 40))
]


@pytest.fixture
def adaptive(monkeypatch, emulated):
    """Return a function that prepares an adaptive engine, in which warps and blocks own vertices of many edges."""

    def made(program, graph, features, share=None, **options):
        lists = {"middle_edges": 2, "middle_share": 0.0, "fewest_owners": 1, "hub_edges": (6, 6)}
        monkeypatch.setattr(OnyxCudaEngine, "policy", replace(POLICY, **lists))
        given = {"direction": "adaptive", "dense_share": share, "block_size": THREADS, **options}
        monkeypatch.setitem(SCHEDULES, "adaptive", ("onyx", given))
        return prepared("adaptive", program, graph, features, emulated)

    return made


def network(name):
    """Return the program of an algorithm and a small skewed graph."""
    algorithm = algorithms()[name]
    graph = algorithm.prepare_graph(rmat(scale=7, edge_factor=5, seed=4, max_weight=4))
    return algorithm, trace(algorithm), graph


@pytest.mark.parametrize(
    ("name", "balance", "persistent", "features"),
    [pytest.param(*row, marks=() if row in TODAY else (pytest.mark.full,)) for row in ROWS],
)
def test_answers_of_whole_runs(name, balance, persistent, features, adaptive):
    algorithm, program, graph = network(name)
    inputs = algorithm.inputs(graph, features)
    engine = adaptive(program, graph, features, balance=balance, persistent=persistent)
    run = ReferenceRun(program, graph, features)
    for _ in range(2):
        for one in (engine, run):
            one.reset(inputs)
            statistics = one.run(program.max_supersteps)
        wanted = {result: run.values(result) for result in program.outputs}
        found = compare(program, {result: engine.values(result) for result in program.outputs}, wanted)
        assert found.ok, found.detail
    engine.reset(inputs)
    statistics = engine.run(program.max_supersteps)
    assert {step.direction for step in statistics.supersteps} <= {"push", "pull"}
    first = statistics.supersteps[0]
    searches = name in ("bfs", "sssp")  # in which vertices that were not reached send nothing
    assert first.direction == ("push" if searches else "pull")
    assert searches == (first.edges < graph.num_edges / 2)
    assert (first.choice.reason == "start") == (not searches)
    share = engine.planned.schedule.dense_share
    for step in statistics.supersteps:
        limit = max(1, int(step.choice.share * graph.num_edges))
        assert (step.choice.reason == "few") == (step.direction == "push")
        assert (step.choice.reason == "many") <= (step.choice.edges >= limit)
        assert step.choice.share <= share + 1 / graph.num_edges
        if step.direction == "pull" and engine.planned.extension.pull_costs is not None:
            edge, vertex = engine.planned.extension.pull_costs
            share = min(share, (edge * step.edges + vertex * graph.num_vertices) / graph.num_edges)
        assert step.choice.by == "fitted"
    engine.close()


@pytest.mark.parametrize(
    ("name", "rebuild", "persistent"),
    [("pagerank", 3, False), ("pagerank", 3, True), ("hits", 2, True), ("bfs", 64, False),
     pytest.param("hits", 2, False, marks=pytest.mark.full), pytest.param("bfs", 64, True, marks=pytest.mark.full)],
)  # fmt: skip
def test_a_run_in_parts_has_the_supersteps_and_reasons_of_one(name, rebuild, persistent, adaptive):
    """Supersteps are numbered from the reset, also those that rebuild sums."""
    algorithm, program, graph = network(name)
    engine = adaptive(program, graph, 1, share=0.9, balance="warp", persistent=persistent, rebuild=rebuild)
    inputs = algorithm.inputs(graph, 1)
    engine.reset(inputs)
    whole = engine.run(14)
    for parts in ((1, 13), (2, 12), (3, 1, 10), (1,) * 14):
        engine.reset(inputs)
        found = engine.run(parts[0])
        for part in parts[1:]:
            found = found if found.settled else found.followed_by(engine.run(part))
        assert [step.choice.reason for step in found.supersteps] == [step.choice.reason for step in whole.supersteps]
        assert found == whole
    assert ("rebuild" in {step.choice.reason for step in whole.supersteps}) == (name != "bfs")
    engine.close()


@pytest.mark.parametrize("share", [0.0, 0.05, 0.3, 1.0])
def test_supersteps_pull_from_the_share_of_the_edges_that_is_given(share, adaptive):
    """A superstep pushes the edges of the sources that moved before it, or pulls all edges."""
    algorithm, program, graph = network("bfs")
    engine = adaptive(program, graph, 1, share=share, balance="warp", bottom_up=False)
    run = ReferenceRun(program, graph, 1)
    for one in (engine, run):
        one.reset(algorithm.inputs(graph, 1))
    levels, degrees, (output,) = [], graph.out_degrees, program.outputs
    for _ in range(5):
        before = run.values(output)[:, 0].copy()
        run.run(1)
        levels.append(int(degrees[run.values(output)[:, 0] != before].sum()))
    steps = engine.run(5).supersteps
    for moved, step in zip(levels, steps[1:], strict=False):
        pulls = moved >= max(1, int(share * graph.num_edges))
        assert (step.direction, step.edges) == (("pull", graph.num_edges) if pulls else ("push", moved))
        assert (step.choice.reason, step.choice.edges) == ("many" if pulls else "few", moved)
    assert engine.planned.schedule.dense_share == share


def ladder(rungs=40):
    """Return a long bipartite graph, in which few vertices move at a time, with every edge in both directions."""
    rng = np.random.default_rng(3)
    left, right = np.repeat(np.arange(rungs), 4), rng.integers(0, 4, 4 * rungs) + np.repeat(np.arange(rungs), 4)
    weights = rng.uniform(1.0, 9.0, len(left)).astype(np.float32)
    return Graph.from_edges(
        left, rungs + np.minimum(right, rungs - 1), num_vertices=2 * rungs, name="ladder", duplicates="keep",
        symmetrize=True, bipartite=(rungs, rungs), weights=weights,
    )  # fmt: skip


@pytest.mark.parametrize("share", [0.0, 0.03, 0.06, 1.0])
@pytest.mark.parametrize("persistent", [False, True])
def test_supersteps_of_a_side_pull_from_the_share_of_its_edges(share, persistent, adaptive):
    """The edges of sources that moved are compared with those of a side, of which a bipartite graph has two."""
    program, graph = program_named("sides_settle"), ladder()
    first = np.where(np.arange(graph.num_vertices) == 0, 0.0, np.inf).astype(np.float32)[:, None]
    inputs = Inputs({"weight": graph.weights, "first": first}, program.parameters)
    options = {"balance": "warp", "bottom_up": False, "persistent": persistent}
    engine, run = adaptive(program, graph, 1, share=share, **options), ReferenceRun(program, graph, 1)
    for one in (engine, run):
        one.reset(inputs)
    sent, (output,), supersteps = [], program.outputs, 30
    for _ in range(supersteps):
        before = run.values(output)[:, 0].copy()
        run.run(1)
        sent.append(int(graph.out_degrees[run.values(output)[:, 0] != before].sum()))
    steps = engine.run(supersteps).supersteps
    limit = max(1, int(share * graph.num_edges / 2))
    assert share in (0.0, 1.0) or any(limit <= moved < 2 * limit for moved in sent[1:-1])
    for moved, step in zip(sent[1:], steps[2:], strict=False):
        assert step.direction == ("pull" if moved >= limit else "push")
        assert step.choice.reason == ("many" if moved >= limit else "few")
        assert (step.choice.edges, step.choice.share) == (moved, share)
        assert step.edges == (graph.num_edges // 2 if moved >= limit else moved)
    engine.close()


def test_programs_that_cannot_switch_are_refused(adaptive, emulated, monkeypatch):
    monkeypatch.setitem(SCHEDULES, "adaptive", ("onyx", {"direction": "adaptive"}))
    answer = cuda_engine("adaptive").plan(program_named("beliefs"), two_sides().facts, 2)
    assert isinstance(answer, No)
    assert "reads or updates edges that change; give push or pull" in answer.reason
    monkeypatch.setitem(SCHEDULES, "adaptive", ("onyx", {"direction": "adaptive", "change_driven": False}))
    _, program, graph = network("pagerank")
    answer = cuda_engine("adaptive").plan(program, graph.facts, 2)
    assert isinstance(answer, No)
    assert "direction=adaptive pushes what changed while little does; give change_driven=true" in answer.reason
