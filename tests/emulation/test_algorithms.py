"""Algorithms on emulated CUDA devices against the float64 reference, on a small graph with hubs."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from engines.onyx.cuda_fused_next_superstep import FIRST_ALONE
from engines.pullbaseline.simdx import cuda_plan as simdx
from engines.pushbaseline.gunrock import cuda_plan as gunrock
from harness.algorithms.bfs import BFS
from harness.algorithms.pagerank import PageRank
from harness.contract import No, Phases
from harness.graph import Graph
from harness.graph.generators import rmat
from harness.language import Inputs, trace
from harness.language.reference import ReferenceRun
from harness.language.validation import compare
from harness.lowering.cuda import launches
from tests.covering import covering
from tests.emulation.device import THREADS
from tests.engines.cuda_schedules import SCHEDULES, cuda_engine
from tests.engines.programs import inputs_for
from tests.engines.test_cuda import (
    ALGORITHM_SCHEDULES,
    algorithms,
    check_hub_of_matrices,
    check_owners_of_few_edges,
    prepared,
    random_network,
)
from tests.engines.test_cuda_fused_next_superstep import Passing

EXACT = ("bfs", "sssp", "components", "kcore")  # the others may settle a superstep apart
FEATURES = (1, 3, 8, 33)
TODAY = (
    ("belief_propagation", "pull-edges", 8), ("belief_propagation", "push", 3), ("label_propagation", "pull", 33),
    ("label_propagation", "changes-push-edges", 8), ("pagerank", "tigr", 1), ("pagerank", "gunrock", 1),
    ("bfs", "simdx", 1), ("bfs", "gunrock-merge-path", 3), ("kcore", "changes-pull-edges", 1),
    ("kcore", "simdx-lists", 1), ("als", "pull", 3), ("als", "push-loops", 3), ("hits", "changes-push-edges", 3),
    ("multimodal", "changes-pull", 9),
)  # fmt: skip


def of_pairs(row):
    """Return all pairs of an algorithm, a schedule and a number of features."""
    return itertools.combinations(enumerate(row), 2)


AT_LENGTH = [
    row
    for row in covering(list(itertools.product(algorithms(), ALGORITHM_SCHEDULES, FEATURES)), of_pairs)
    if row not in TODAY
]


@pytest.mark.short_run(rows=5, always="multimodal-changes-pull-9")
@pytest.mark.parametrize(
    ("name", "schedule", "features"),
    [pytest.param(*row, marks=() if row in TODAY else (pytest.mark.full,)) for row in [*TODAY, *AT_LENGTH]],
)
def test_algorithms(name, schedule, features, emulated):
    algorithm = algorithms()[name]
    program = trace(algorithm)
    graph = algorithm.prepare_graph(rmat(scale=6, edge_factor=8, seed=4, max_weight=4))
    inputs = random_network(graph, features) if name == "belief_propagation" else algorithm.inputs(graph, features)
    engine = prepared(schedule, program, graph, features, emulated)
    supersteps = 6 if name in ("als", "belief_propagation") else 20
    run = ReferenceRun(program, graph, features)
    run.reset(inputs)
    engine.reset(inputs)
    expected, taken = run.run(supersteps), engine.run(supersteps)
    outputs = program.outputs
    found = compare(program, {n: engine.values(n) for n in outputs}, {n: run.values(n) for n in outputs})
    assert found.ok, found.detail
    assert taken.settled == expected.settled or name not in EXACT


@pytest.mark.parametrize(("schedule", "features"), [("pull", 3), ("push", 5)])
def test_rows_of_edges_and_vertices(schedule, features, emulated):
    graph = rmat(scale=5, edge_factor=6, seed=4, symmetric=True)
    program = trace(algorithms()["belief_propagation"])
    engine = prepared(schedule, program, graph, features, emulated)
    engine.reset(random_network(graph, features))
    engine.run(2)
    for name in ("belief", "msg"):
        whole = engine.values(name)
        index = np.random.default_rng(1).integers(0, len(whole), 40)
        np.testing.assert_array_equal(engine.rows(name, index), whole[index])


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("schedule", ["pull", "push"])
def test_an_edge_input_of_several_numbers_is_exchanged(schedule, symmetric, emulated, monkeypatch):
    monkeypatch.setattr("harness.lowering.cuda.memory.EDGES_AT_ONCE", 50)
    algorithm, k = algorithms()["multimodal"], 3
    graph = rmat(scale=5, edge_factor=6, seed=4, symmetric=symmetric)
    program = trace(algorithm)
    inputs = algorithm.inputs(graph, k)
    engine = prepared(schedule, program, graph, k, emulated)
    other = {"affinity": np.roll(inputs.properties["affinity"], 1, axis=0)}
    for given in (inputs, Inputs({**inputs.properties, **other}, inputs.parameters), inputs):
        run = ReferenceRun(program, graph, k)
        run.reset(given)
        engine.reset(given)
        run.run(3)
        engine.run(3)
        found = compare(program, {"mmode": engine.values("mmode")}, {"mmode": run.values("mmode")})
        assert found.ok, found.detail


@pytest.mark.parametrize(
    ("schedule", "vertices", "features"),
    [("tigr", 2300, 1), ("tigr", 4097, 1), ("tigr", 1100, 2), ("gunrock", 2100, 1), ("gunrock-merge-path", 1300, 2)],
)
def test_vertices_that_a_thread_reads_ahead(schedule, vertices, features, emulated, monkeypatch):
    """Two blocks of 256 threads process 2,048 or 1,024 vertices at once, and then the rest."""
    monkeypatch.setattr(launches, "MOST_BLOCKS", 2)
    monkeypatch.setattr(gunrock, "BLOCKS", 2)
    algorithm = PageRank()
    sources = np.arange(vertices - 5)
    graph = Graph.from_edges(sources, (7 * sources + 3) % vertices, num_vertices=vertices, name="strides")
    program, inputs = trace(algorithm), algorithm.inputs(graph, features)
    engine = prepared(schedule, program, graph, features, emulated)
    assert f"fetched[{4 // features}];" in engine.planned.source
    run = ReferenceRun(program, graph, features)
    for one in (run, engine):
        one.reset(inputs)
        one.run(3)
    found = compare(program, {"rank": engine.values("rank")}, {"rank": run.values("rank")})
    assert found.ok, found.detail


def test_the_ballot_filter_of_many_blocks(emulated, monkeypatch):
    """Each vertex is listed once, after those of all earlier blocks, also with more blocks than lanes."""
    blocks = 64
    graph = rmat(scale=12, edge_factor=4, seed=2)
    assert graph.num_vertices == THREADS * blocks  # one run of 32 per warp
    monkeypatch.setattr(simdx, "BLOCKS", blocks)
    monkeypatch.setitem(SCHEDULES, "ballot", ("simdx", {"filter": "ballot", "fusion": "none"}))
    algorithm = BFS()
    program, inputs = trace(algorithm), algorithm.inputs(graph, 1)
    engine, run = prepared("ballot", program, graph, 1, emulated), ReferenceRun(program, graph, 1)
    for one in (engine, run):
        one.reset(inputs)
    taken = engine.run(100)
    run.run(100)
    level = run.values("level")
    assert np.array_equal(engine.values("level"), level)
    assert [step.active for step in taken.supersteps] == np.bincount(level[np.isfinite(level)].astype(int)).tolist()
    engine.close()


@pytest.mark.short_run(rows=2)
@pytest.mark.parametrize(("schedule", "features"), [("pull", 66), ("pull", 2), ("changes-pull", 66)])
def test_owners_of_few_edges(schedule, features, emulated):
    check_owners_of_few_edges(schedule, features, emulated)


@pytest.mark.parametrize(("schedule", "features"), [("pull", 3), ("changes-pull", 4)])
def test_a_hub_of_matrices(schedule, features, emulated):
    check_hub_of_matrices(schedule, features, emulated)


@pytest.mark.parametrize("supersteps", [1, 4, 5])
@pytest.mark.parametrize("reads", ["nothing", "weight"])
def test_updates_that_reduce_for_the_next_superstep(reads, supersteps, emulated):
    """One call for several supersteps, then one call each: the next call must find the buffers in place."""
    algorithm, features = Passing(reads=reads), 5
    graph = rmat(scale=6, edge_factor=6, seed=1, max_weight=1)
    program = trace(algorithm)
    engine = cuda_engine("pull-edges")
    assert not isinstance(engine.supports(program, graph, features, emulated), No)
    engine.prepare(program, graph, features, emulated, Phases())
    assert any(kernel.unless == FIRST_ALONE for kernel in engine.planned.kernels)
    given = inputs_for(program, graph, features)
    run = ReferenceRun(program, graph, features)
    for _ in range(2):
        for one in (run, engine):
            one.reset(Inputs(given.properties, given.parameters))
            one.run(supersteps)
        for _ in range(2):
            run.run(1)
            engine.run(1)
            for name in ("x", "m"):
                assert abs(engine.values(name) - run.values(name)).max() < 1e-5 * max(1.0, abs(run.values(name)).max())
