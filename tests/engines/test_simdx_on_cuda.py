"""SIMD-X style on a CUDA device, filters by fusion, compared with the float64 reference on fresh random inputs."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from engines.pullbaseline.schedules import FILTERS, FUSIONS, SimdxSchedule
from engines.pullbaseline.simdx.cuda_engine import SimdxCudaEngine
from harness.algorithms.als import ALS
from harness.algorithms.belief_propagation import BeliefPropagation
from harness.algorithms.bfs import BFS
from harness.algorithms.components import Components
from harness.algorithms.kcore import KCore
from harness.algorithms.label_propagation import LabelPropagation
from harness.algorithms.manifold_ranking import ManifoldRanking
from harness.algorithms.pagerank import PageRank
from harness.algorithms.sssp import SSSP
from harness.contract import EngineFailure, Phases, Yes
from harness.graph import Graph
from harness.graph.generators import grid, random_ratings, rmat
from harness.language import K, normalize, trace
from harness.language.reference import ReferenceRun
from harness.language.validation import compare
from tests.engines.edge_programs import EDGE_PROGRAMS
from tests.engines.fresh import SEED
from tests.engines.programs import edges_and_loops, inputs_for, traced, two_sides, whole_graph
from tests.engines.test_cuda import random_network

pytestmark = pytest.mark.gpu
LOW = {"warp_degree": 3, "block_degree": 9}  # so that small graphs fill all lists


def symmetric(pairs, vertices, name):
    """Return a weighted graph of undirected edges and isolated vertices."""
    pairs = np.asarray(pairs, np.int64).reshape(-1, 2)
    weights = np.random.default_rng(SEED).uniform(0.5, 2.0, len(pairs)).astype(np.float32)
    return Graph.from_edges(
        pairs[:, 0], pairs[:, 1], num_vertices=vertices, weights=weights, name=name, duplicates="min", symmetrize=True
    )


def stars(hubs=6, leaves=5000):
    """Return hubs that share leaves, a chain of hubs, and 100 isolated vertices."""
    rng = np.random.default_rng(SEED)
    spokes = np.stack([np.repeat(np.arange(hubs), leaves), hubs + rng.integers(0, leaves, hubs * leaves)], 1)
    chain = np.stack([np.arange(hubs - 1), np.arange(1, hubs)], 1)
    return symmetric(np.concatenate([spokes, chain]), hubs + leaves + 100, "stars")


GRAPHS = {
    "rmat": lambda: rmat(scale=10, edge_factor=8, seed=SEED % 1000, max_weight=4),
    "stars": stars,
    "path": lambda: symmetric([[i, i + 1] for i in range(700)], 710, "path"),
    "grid": lambda: grid(rows=40, columns=37),
    "no edges": lambda: symmetric([], 70, "no edges"),
    "one vertex": lambda: symmetric([], 1, "one vertex"),
    "directed": lambda: Graph.from_edges(
        *np.random.default_rng(SEED).integers(0, 500, (2, 2500)), num_vertices=600, name="directed", duplicates="keep"
    ),
}  # fmt: skip
ALGORITHMS = {
    "bfs": (BFS(seed=SEED), 1), "bfs of 5": (BFS(seed=SEED), 5), "sssp": (SSSP(seed=SEED), 1),
    "sssp of 19": (SSSP(seed=SEED), 19), "components": (Components(), 1), "kcore": (KCore(core=4), 1),
}  # fmt: skip


def prepared(algorithm, graph, features, device, **options):
    engine = SimdxCudaEngine(SimdxSchedule(**options))
    program = trace(algorithm)
    answer = engine.supports(program, graph, features, device)
    assert isinstance(answer, Yes), answer
    engine.prepare(program, graph, features, device, Phases())
    return engine, program


def check(engine, program, run):
    found = {name: engine.values(name) for name in program.outputs}
    comparison = compare(program, found, {name: run.values(name) for name in program.outputs})
    assert comparison.ok, f"seed {SEED}, superstep {engine.executor.run_in_progress.done}: {comparison.detail}"


@pytest.mark.parametrize(("filter_", "fusion"), list(itertools.product(FILTERS, FUSIONS)))
@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_superstep_is_the_reference_s(algorithm, name, filter_, fusion, device):
    chosen, features = ALGORITHMS[algorithm]
    graph = chosen.prepare_graph(GRAPHS[name]())
    inputs = chosen.inputs(graph, features)
    bins = {} if filter_ == "ballot" else {"bin_size": 1024}
    engine, program = prepared(chosen, graph, features, device, filter=filter_, fusion=fusion, **bins, **LOW)
    run = ReferenceRun(program, graph, features)
    run.reset(inputs)
    engine.reset(inputs)
    for steps in (1, 1, 1, 2, 4, 1000):
        expected, taken = run.run(steps), engine.run(steps)
        assert len(taken.supersteps) == len(expected.supersteps), f"seed {SEED}"
        assert taken.settled == expected.settled
        check(engine, program, run)
        if expected.settled:
            break
    assert expected.settled
    assert not engine.run(5).supersteps
    engine.close()


@pytest.mark.parametrize("fusion", FUSIONS)
@pytest.mark.parametrize(("name", "algorithm"), [("stars", "bfs"), ("stars", "kcore"), ("rmat", "sssp")])
def test_bins_that_overflow_turn_the_ballot_on_and_off_again(name, algorithm, fusion, device):
    chosen, features = ALGORITHMS[algorithm]
    graph = chosen.prepare_graph(GRAPHS[name]())
    inputs = chosen.inputs(graph, features)
    options = {"fusion": fusion, "pull_share": 1.0, "bin_size": 1, "warp_degree": 100_000, "block_degree": 100_000}
    engine, program = prepared(chosen, graph, features, device, filter="jit", **options)
    run = ReferenceRun(program, graph, features)
    run.reset(inputs)
    engine.reset(inputs)
    run.run(10_000)
    taken = engine.run(10_000)
    assert taken.settled
    check(engine, program, run)
    assert {step.direction for step in taken.supersteps} == {"push"}
    if algorithm != "kcore":  # whose last supersteps, or only the first, may overflow
        assert "ballot" in engine.executor.filters[1:]
        assert engine.executor.filters[-1] == "online"
    engine.close()


@pytest.mark.parametrize("fusion", FUSIONS)
def test_the_online_filter_fails_on_overflow(fusion, device):
    chosen, graph = BFS(sources="0"), stars()
    inputs = chosen.inputs(graph, 1)
    options = {"bin_size": 1, "warp_degree": 100_000, "block_degree": 100_000, "pull_share": 1.0}
    engine, _ = prepared(chosen, graph, 1, device, filter="online", fusion=fusion, **options)
    engine.reset(inputs)
    with pytest.raises(EngineFailure, match="overflowed"):
        engine.run(1000)
    engine.close()


@pytest.mark.parametrize("share", [0.0, 0.2, 1.0])
@pytest.mark.parametrize("fusion", FUSIONS)
def test_directions_turn_by_the_share_of_edges(fusion, share, device):
    chosen, graph = BFS(seed=SEED), GRAPHS["rmat"]()
    inputs = chosen.inputs(graph, 1)
    engine, program = prepared(chosen, graph, 1, device, fusion=fusion, pull_share=share)
    run = ReferenceRun(program, graph, 1)
    run.reset(inputs)
    engine.reset(inputs)
    run.run(1000)
    taken = engine.run(1000)
    check(engine, program, run)
    degrees = {0.0: {"pull"}, 1.0: {"push"}, 0.2: {"push", "pull"}}
    working = {step.direction for step in taken.supersteps if step.edges}  # active vertices may have no out-edges
    assert working == degrees[share]
    engine.close()


@pytest.mark.parametrize("algorithm", ["bfs", "components", "kcore", "sssp of 19"])
def test_few_blocks_and_a_warm_start(algorithm, device):
    """Levels that do not come from one start are not votes."""
    chosen, features = ALGORITHMS[algorithm]
    graph = chosen.prepare_graph(GRAPHS["rmat"]())
    inputs = chosen.inputs(graph, features)
    engine, program = prepared(chosen, graph, features, device, resident_blocks=3)
    run = ReferenceRun(program, graph, features)
    run.reset(inputs)
    run.run(2)
    state = {name: run.values(name).astype(np.float32) for name in program.outputs}
    run.reset(inputs, state)
    engine.reset(inputs, state)
    run.run(1000)
    assert engine.run(1000).settled
    check(engine, program, run)
    engine.close()


BULK = {
    "pagerank": (PageRank(), "rmat", 1), "pagerank of 6": (PageRank(), "stars", 6),
    "label_propagation": (LabelPropagation(seeds="random"), "grid", 5), "als": (ALS(), "ratings", 4),
    "manifold_ranking": (ManifoldRanking(), "rmat", 3), "no edges": (PageRank(), "no edges", 2),
    "belief_propagation": (BeliefPropagation(damping=0.3), "rmat", 3),
}  # fmt: skip


@pytest.mark.parametrize("blocks", [None, 2])
@pytest.mark.parametrize("name", BULK)
def test_bulk_synchronous_supersteps_in_one_kernel(name, blocks, device):
    chosen, kind, features = BULK[name]
    given = random_ratings(users=60, items=40, num_ratings=700, seed=SEED) if kind == "ratings" else GRAPHS[kind]()
    graph = chosen.prepare_graph(given)
    inputs = random_network(graph, features) if name == "belief_propagation" else chosen.inputs(graph, features)
    engine, program = prepared(chosen, graph, features, device, fusion="push_pull", resident_blocks=blocks, **LOW)
    run = ReferenceRun(program, graph, features)
    run.reset(inputs)
    for _ in range(2):  # again from the initial state
        engine.reset(inputs)
    for steps in (1, 1, 2, 5):
        expected, taken = run.run(steps), engine.run(steps)
        assert len(taken.supersteps) == len(expected.supersteps), f"seed {SEED}"
        check(engine, program, run)
        if expected.settled:
            break
    assert set(engine.blocks_of) == {"fused_pull"}
    engine.close()


def sent_by_turns(p, self):
    """Send messages of two source properties on alternating sides of a bipartite graph."""
    p.vertex("x0", K)
    p.vertex("x", K, start="x0")

    @p.over_edges(into="aggr", reduce="sum")
    def spread(src):
        return src.x / src.out_degree

    @p.over_vertices
    def step(v):
        return {"x": 0.5 * v.x + 0.25 * normalize(v.aggr)}

    p.alternate_sides()
    p.repeat(5)
    p.output("x", bound=1e-4)


OPERATIONS = {
    "reductions over the graph in one phase": (whole_graph, edges_and_loops),
    "sides": (sent_by_turns, two_sides),
    **{name: EDGE_PROGRAMS[name][:2] for name in ("two updates", "overwritten", "reduced for later")},
}


@pytest.mark.parametrize("blocks", [None, 2])
@pytest.mark.parametrize("features", [1, 5])
@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_in_one_kernel(name, features, blocks, device):
    build, graph = OPERATIONS[name]
    program = traced(build, build.__name__)
    inputs = inputs_for(program, graph(), features, seed=SEED)
    engine = SimdxCudaEngine(SimdxSchedule(fusion="push_pull", resident_blocks=blocks, **LOW))
    assert isinstance(engine.supports(program, graph(), features, device), Yes)
    engine.prepare(program, graph(), features, device, Phases())
    run = ReferenceRun(program, graph(), features)
    for steps in ((1, 1, 1), (2, 3)):  # again from the initial state
        run.reset(inputs)
        engine.reset(inputs)
        for some in steps:
            run.run(some)
            engine.run(some)
            check(engine, program, run)
    engine.close()


def test_more_blocks_than_are_resident_are_refused(device):
    chosen, graph = BFS(seed=SEED), GRAPHS["path"]()
    engine = SimdxCudaEngine(SimdxSchedule(resident_blocks=100_000))
    with pytest.raises(EngineFailure, match="resident at once"):
        engine.prepare(trace(chosen), graph, 1, device, Phases())
    engine.close()
