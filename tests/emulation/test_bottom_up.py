"""Pulls that read only what may improve a vertex, on an emulated device: the same answers from fewer edges."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from engines.onyx.cuda_engine import OnyxCudaEngine
from harness.contract import Device, No
from harness.graph import Graph
from harness.graph.generators import rmat
from harness.language import Inputs, trace
from harness.language.reference import ReferenceRun
from tests.emulation.device import POLICY, THREADS, emulate
from tests.engines import test_cuda, test_warm
from tests.engines.bottom_up import problem
from tests.engines.cuda_schedules import SCHEDULES, cuda_engine
from tests.engines.test_cuda import algorithms, prepared

LISTS = {"middle_edges": 2, "middle_share": 0.0, "fewest_owners": 1, "hub_edges": (6, 6)}


@pytest.fixture
def engine_of(monkeypatch, emulated):
    """Return a function that prepares an adaptive engine, by default with owners of vertices of many edges."""

    def made(program, graph, features, policy=None, **options):
        monkeypatch.setattr(OnyxCudaEngine, "policy", policy or replace(POLICY, **LISTS))
        given = {"direction": "adaptive", "block_size": THREADS, "dense_share": 0.1, **options}
        monkeypatch.setitem(SCHEDULES, "adaptive", ("onyx", given))
        return prepared("adaptive", program, graph, features, emulated)

    return made


def finished(engine, inputs, program):
    """Return the outputs of a whole run, and its supersteps."""
    engine.reset(inputs)
    steps = engine.run(program.max_supersteps).supersteps
    return {name: engine.values(name) for name in program.outputs}, steps


ROWS = [
    (name, features, options)
    for name in ("bfs", "sssp", "components", "bottleneck", "decay")
    for features in ((1,) if name == "components" else (1, 3, 40))
    for options in (
        {"balance": "warp"}, {"balance": "edge", "persistent": True}, {"balance": "warp", "feature_aware": False},
        {"balance": "edge", "dense_share": 0.0}, {"balance": "warp", "fold": False, "dense_share": 0.0},
    )
]  # fmt: skip


@pytest.mark.short_run(rows=1)
@pytest.mark.parametrize(("name", "features", "options"), ROWS)
def test_answers_are_those_of_whole_rows_and_of_the_reference(name, features, options, engine_of):
    edges = {True: 0, False: 0}
    for seed in range(4):
        graph = rmat(scale=7, edge_factor=5, seed=seed, max_weight=9)
        graph = graph.with_reverse_edges() if seed % 2 else graph
        program, graph, inputs = problem(name, graph, features, seed)
        found = {}
        for bottom_up in (True, False):
            engine = engine_of(program, graph, features, **options, bottom_up=bottom_up)
            for _ in range(2):  # the second run begins where the first has ended
                found[bottom_up], steps = finished(engine, inputs, program)
            edges[bottom_up] += sum(step.edges for step in steps)
            assert any(step.direction == "pull" for step in steps)
            engine.close()
        run = ReferenceRun(program, graph, features)
        run.reset(inputs)
        run.run(program.max_supersteps)
        for output, values in found[True].items():
            np.testing.assert_array_equal(values, found[False][output])
            np.testing.assert_allclose(values, run.values(output), rtol=1e-5)
    assert edges[True] <= edges[False]
    assert edges[True] < edges[False] or name == "decay"  # whose values improve everywhere in every superstep


def searched(graph, level, step):
    """Return the edges that a bottom-up superstep of a search reads: every row of a vertex that has not been reached,
    up to the first neighbour that was reached in the superstep before."""
    read = 0
    for v in np.flatnonzero(level >= step):
        row = level[graph.csc.neighbours[graph.csc.offsets[v] : graph.csc.offsets[v + 1]]]
        hits = np.flatnonzero(row == step - 1)
        read += int(hits[0]) + 1 if len(hits) else len(row)
    return read


def test_a_search_reads_rows_to_the_first_neighbour_that_was_just_reached(engine_of):
    """Beamer et al. (2012), section IV: with one lane group for each vertex, which fetches one edge at a time."""
    graph = rmat(scale=8, edge_factor=8, seed=3)
    program, graph, inputs = problem("bfs", graph, 1)
    alone = replace(POLICY, edges_of_lane_group=10**6, hub_edges=(10**6, 10**6), middle_edges=10**6, searched_edges=1)
    engine = engine_of(program, graph, 1, alone, balance="warp", dense_share=0.0)
    answer, steps = finished(engine, inputs, program)
    level = answer["level"][:, 0]
    pulled = [number for number, step in enumerate(steps) if step.direction == "pull"]
    assert len(pulled) > 2
    for number in pulled:
        assert steps[number].edges == searched(graph, level, number + 1)


@pytest.mark.short_run(rows=1)
@pytest.mark.parametrize(("name", "most"), [("bfs", 0.2), ("components", 0.6), ("sssp", 0.4)])
def test_edges_read_on_a_skewed_graph(name, most, engine_of):
    """Pulls read a small part of the edges of an R-MAT graph."""
    program, graph, inputs = problem(name, rmat(scale=10, edge_factor=16, seed=1, max_weight=9), 1)
    read = {}
    for bottom_up in (True, False):
        engine = engine_of(program, graph, 1, POLICY, balance="edge", bottom_up=bottom_up)
        read[bottom_up] = sum(step.edges for step in finished(engine, inputs, program)[1] if step.direction == "pull")
        engine.close()
    assert 0 < read[True] < most * read[False]


@pytest.mark.parametrize(
    ("name", "options", "reason"),
    [
        ("bfs", {"direction": "push"}, "bottom_up=true is built for the pulls of direction=adaptive; give that"),
        ("kcore", {}, "bottom_up=true: count reduces by sum, of which every message counts; leave it unset"),
    ],
)
def test_refusals_of_the_option(name, options, reason, monkeypatch):
    given = {"direction": "adaptive", "bottom_up": True, "change_driven": True, **options}
    monkeypatch.setitem(SCHEDULES, "adaptive", ("onyx", given))
    algorithm = algorithms()[name]
    graph = algorithm.prepare_graph(rmat(scale=5))
    answer = cuda_engine("adaptive").plan(trace(algorithm), graph.facts, 1)
    assert isinstance(answer, No)
    assert reason in answer.reason


@pytest.mark.parametrize(
    ("name", "options", "line"),
    [
        ("sssp", {}, "as good as (best.distance + extreme.weight), and end rows there"),
        ("sssp", {"bottom_up": False}, "bottom_up: pulls read all edges, because bottom_up=false"),
        ("pagerank", {}, "pulls read all edges, because pagerank is not one reduction over edges"),
    ],
)
def test_what_pulls_read_is_explained(name, options, line, monkeypatch):
    monkeypatch.setitem(SCHEDULES, "adaptive", ("onyx", {"direction": "adaptive", "change_driven": True, **options}))
    algorithm = algorithms()[name]
    engine = cuda_engine("adaptive")
    engine.generate(trace(algorithm), rmat(scale=5), 1, Device("cuda", 0))
    assert line in engine.explain()
    assert engine.resolved_options()["bottom_up"] is (name == "sssp" and not options)


@pytest.mark.short_run(rows=1)
@pytest.mark.parametrize("features", [1, 3])
@pytest.mark.parametrize("name", ["sssp", "bottleneck"])
def test_no_kernel_races(name, features, monkeypatch):
    device = emulate(monkeypatch, racing=True)
    monkeypatch.setattr(OnyxCudaEngine, "policy", replace(POLICY, **LISTS))
    given = {"direction": "adaptive", "block_size": THREADS, "dense_share": 0.1, "balance": "edge"}
    monkeypatch.setitem(SCHEDULES, "adaptive", ("onyx", given))
    program, graph, inputs = problem(name, rmat(scale=7, edge_factor=5, seed=1, max_weight=9), features)
    engine = prepared("adaptive", program, graph, features, device)
    answer, steps = finished(engine, inputs, program)
    assert any(step.direction == "pull" for step in steps)
    run = ReferenceRun(program, graph, features)
    run.reset(inputs)
    run.run(program.max_supersteps)
    for output, values in answer.items():
        np.testing.assert_allclose(values, run.values(output), rtol=1e-5)


@pytest.mark.short_run(rows=2)
@pytest.mark.parametrize("edges", [0, 400])
def test_extremes_of_inputs(edges, engine_of):
    """Each run has other lengths, of which some are negative or infinite; or there are no edges."""
    rng = np.random.default_rng(5)
    pairs = np.sort(rng.integers(0, 60, (edges, 2)), axis=1)
    pairs = pairs[pairs[:, 0] < pairs[:, 1]]  # without cycles
    graph = Graph.from_edges(pairs[:, 0], pairs[:, 1], num_vertices=60, name="drawn", duplicates="keep")
    program = trace(algorithms()["sssp"])
    source = np.full((60, 1), np.inf, np.float32)
    source[:3] = 0.0
    engine = engine_of(program, graph, 1, balance="warp", dense_share=0.0)
    for least in (1.0, -2.0, 0.0):
        weights = rng.uniform(least, 9, graph.num_edges).astype(np.float32)
        weights[rng.random(graph.num_edges) < 0.1] = np.inf
        inputs = Inputs({"source": source, "weight": weights})
        answer, _ = finished(engine, inputs, program)
        run = ReferenceRun(program, graph, 1)
        run.reset(inputs)
        run.run(program.max_supersteps)
        np.testing.assert_allclose(answer["distance"], run.values("distance"), rtol=1e-5, atol=1e-5)
        wanted = weights.min() if graph.num_edges else np.nan
        np.testing.assert_array_equal(engine.executor.arrays["extreme_weight"].get()[0], wanted)


@pytest.mark.short_run(rows=2)
@pytest.mark.parametrize("share", [0.0, 0.05])
@pytest.mark.parametrize("kind", ["insert", "lighter"])
@pytest.mark.parametrize("name", ["sssp", "components"])
def test_warm_starts(name, kind, share, emulated, monkeypatch):
    """The first superstep has no bound, because sources that did not move in it are to be heard too."""
    given = {"direction": "adaptive", "block_size": THREADS, "dense_share": share}
    monkeypatch.setitem(SCHEDULES, "adaptive", ("onyx", given))
    monkeypatch.setattr(test_warm, "graph_of", lambda *_: rmat(8, max_weight=8, seed=2))
    monkeypatch.setattr(test_warm, "SHARE", 1e-3)
    test_cuda.test_warm_starts("adaptive", name, kind, emulated, monkeypatch)
