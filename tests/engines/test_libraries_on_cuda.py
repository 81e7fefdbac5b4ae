"""cuSPARSE and PyTorch on a CUDA device, compared with the float64 reference: programs, algorithms, hubs, protocol."""

from __future__ import annotations

import functools
import gc

import numpy as np
import pytest

from harness.contract import Device, No, Phases, RunStatistics
from harness.graph import Graph
from harness.language import trace
from harness.language.reference import ReferenceRun
from harness.language.validation import compare
from tests.engines.problems import new_engine, outputs_of, problem, program, reference
from tests.engines.programs import PROGRAMS, edges_and_loops, graph_for, inputs_for, program_named
from tests.engines.test_operations import NO_PRODUCT
from tests.engines.test_random_programs import random_graph, random_program

pytestmark = pytest.mark.gpu
ENGINES = {
    "cusparse": ("cusparse", {}),
    "cusparse-1": ("cusparse", {"algorithm": 1}),
    "cusparse-3": ("cusparse", {"algorithm": 3}),
    "torch": ("torch", {}),
}
FEATURES = (1, 3, 4, 8, 33)
BLOCKS = {"inverse_of_a_destination"}  # a product with a matrix of k x k blocks, which only SciPy has


def prepared(engine_name, program_, graph, features):
    engine, device = new_engine(*ENGINES[engine_name]), Device("cuda", 0, threads=1)
    answer = engine.supports(program_, graph, features, device)
    if isinstance(answer, No):
        return answer
    assert answer.bytes_needed > 0
    engine.prepare(program_, graph, features, device, Phases())
    return engine


def check(engine, program_, run, inputs, supersteps):
    run.reset(inputs)
    engine.reset(inputs)
    for superstep in range(supersteps):
        expected, taken = run.run(1), engine.run(1)
        found = compare(program_, outputs_of(engine, program_), outputs_of(run, program_))
        assert found.ok, f"after superstep {superstep}: {found.detail}"
        if expected.settled or taken.settled:
            break


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("engine_name", ENGINES)
def test_operations(engine_name, name):
    program_ = program_named(name)
    graph = graph_for(name)
    for features in FEATURES:
        engine = prepared(engine_name, program_, graph, features)
        if isinstance(engine, No):
            assert engine_name != "torch"
            assert name in NO_PRODUCT | BLOCKS
            pytest.skip(engine.reason)
        check(engine, program_, ReferenceRun(program_, graph, features), inputs_for(program_, graph, features), 4)
        engine.close()


@functools.cache
def algorithms():
    from harness.algorithms.als import ALS
    from harness.algorithms.bfs import BFS
    from harness.algorithms.components import Components
    from harness.algorithms.kcore import KCore
    from harness.algorithms.label_propagation import LabelPropagation
    from harness.algorithms.pagerank import PageRank
    from harness.algorithms.sssp import SSSP

    return {
        "label_propagation": LabelPropagation(seeds="random"), "pagerank": PageRank(), "als": ALS(sides="all"),
        "bfs": BFS(), "sssp": SSSP(), "components": Components(), "kcore": KCore(core=6),
    }  # fmt: skip


@pytest.mark.parametrize("features", [1, 8, 100])
@pytest.mark.parametrize("name", ["label_propagation", "pagerank", "als", "bfs", "sssp", "components", "kcore"])
@pytest.mark.parametrize("engine_name", ["cusparse", "torch"])
def test_algorithms(engine_name, name, features):
    from harness.graph.generators import rmat

    algorithm = algorithms()[name]
    program_ = trace(algorithm)
    graph = algorithm.prepare_graph(rmat(scale=9, edge_factor=8, seed=4, max_weight=4))
    inputs = algorithm.inputs(graph, features)
    engine = prepared(engine_name, program_, graph, features)
    if isinstance(engine, No):
        assert (engine_name, name) in {("cusparse", refused) for refused in ("bfs", "sssp", "components")}
        pytest.skip(engine.reason)
    run = ReferenceRun(program_, graph, features)
    supersteps = 10 if name == "als" else 60
    run.reset(inputs)
    engine.reset(inputs)
    expected, taken = run.run(supersteps), engine.run(supersteps)
    found = compare(program_, outputs_of(engine, program_), outputs_of(run, program_))
    assert found.ok, found.detail
    assert taken.settled == expected.settled or name in ("label_propagation", "pagerank", "als")
    engine.close()


@pytest.mark.parametrize("engine_name", ENGINES)
def test_sides_take_turns(engine_name):
    graph, inputs = problem("als", "ratings", 4)
    engine = prepared(engine_name, program("als"), graph, 4)
    check(engine, program("als"), ReferenceRun(program("als"), graph, 4), inputs, 6)
    engine.close()


@pytest.mark.parametrize("features", [1, 4])
@pytest.mark.parametrize("engine_name", ENGINES)
def test_a_hub_of_a_hundred_thousand_equal_messages(engine_name, features):
    graph, inputs = problem("pagerank", "great hub", features)
    engine = prepared(engine_name, program("pagerank"), graph, features)
    engine.reset(inputs)
    engine.run(5)
    wanted, _, _ = reference("pagerank", "great hub", features, 5)
    found = compare(program("pagerank"), outputs_of(engine, program("pagerank")), wanted)
    print(engine_name, features, found.error, found.bound)
    assert found.ok, found.detail
    engine.close()


@pytest.mark.parametrize("edges", [2, 2000])
@pytest.mark.parametrize("features", [1, 3, 8])
@pytest.mark.parametrize("engine_name", ENGINES)
def test_more_parallel_edges_than_a_matrix_has_entries(engine_name, features, edges):
    ends = np.zeros(edges, np.int64)
    graph = Graph.from_edges(ends, ends, num_vertices=1, name="loops", duplicates="keep")
    ranks = program("pagerank")
    engine = prepared(engine_name, ranks, graph, features)
    check(engine, ranks, ReferenceRun(ranks, graph, features), inputs_for(ranks, graph, features, seed=features), 3)
    engine.close()


@pytest.mark.parametrize("seed", range(12))
def test_random_programs(seed):
    program_, features = random_program(seed), (1, 3, 4, 8)[seed % 4]
    for engine_name in ("cusparse", "torch"):
        for number in range(3):
            graph = random_graph(10 * seed + number)
            engine = prepared(engine_name, program_, graph, features)
            if not isinstance(engine, No):
                run, inputs = ReferenceRun(program_, graph, features), inputs_for(program_, graph, features, seed)
                check(engine, program_, run, inputs, 5)
                engine.close()


@pytest.mark.parametrize("engine_name", ["cusparse", "torch"])
def test_protocol(engine_name):
    """Runs continue, resets repeat, values are copies, and a settled run does nothing more."""
    graph, inputs = problem("pagerank", "rmat", 3)
    engine = prepared(engine_name, program("pagerank"), graph, 3)
    engine.reset(inputs)
    parts = engine.run(3).supersteps + engine.run(4).supersteps
    parted = engine.values("rank")
    assert parted.dtype == np.float32
    assert parted.shape == (graph.num_vertices, 3)
    engine.reset(inputs)
    whole = engine.run(7)
    assert len(parts) == len(whole.supersteps) == 7
    assert whole.supersteps[0].active == graph.num_vertices
    assert np.allclose(parted, engine.values("rank"), rtol=1e-5)
    parted[:] = -1.0
    assert (engine.values("rank") >= 0).all()
    assert engine.run(200).settled
    assert engine.run(5) == RunStatistics(settled=True)
    engine.close()
    engine.close()  # closing twice has no effect


@pytest.mark.parametrize("graph_name", ["rmat", "great hub"])
def test_cusparse_resolves_every_option_by_timing(graph_name):
    graph, _ = problem("pagerank", graph_name, 4)
    engine = prepared("cusparse", program("pagerank"), graph, 4)
    options = engine.resolved_options()
    assert list(options) == ["algorithm", "order", "preprocess", "split"]
    assert not {0, "auto"} & {one for value in options.values() for one in np.atleast_1d(value).tolist()}
    assert len(engine.choices.made) == (1 if options["split"] == "no" else 3)  # rows, runs and the sums of these
    assert f"algorithm={options['algorithm']!r}, order={options['order']!r}" in engine.explain()
    assert "chosen by the engine: algorithm, order, preprocess, split" in engine.explain()
    engine.close()


def test_the_processor_is_refused_by_cusparse():
    answer = new_engine("cusparse").supports(program("pagerank"), edges_and_loops(), 2, Device("cpu", threads=1))
    assert isinstance(answer, No)
    assert "CUDA" in answer.reason


def test_memory_of_the_device_is_released():
    import cupy

    graph, inputs = problem("pagerank", "rmat", 8)
    pool = cupy.get_default_memory_pool()
    gc.collect()
    before = pool.used_bytes()  # of earlier tests in this process
    engine = prepared("cusparse", program("pagerank"), graph, 8)
    engine.reset(inputs)
    engine.run(3)
    assert pool.used_bytes() > before
    engine.close()
    assert pool.used_bytes() == before


@pytest.fixture
def little_memory():
    """Limit both libraries to almost none of the device's memory."""
    import cupy

    torch = pytest.importorskip("torch")
    pool = cupy.get_default_memory_pool()
    pool.free_all_blocks()
    torch.cuda.empty_cache()
    pool.set_limit(size=1 << 20)
    torch.cuda.set_per_process_memory_fraction(1e-5)
    yield
    pool.set_limit(size=0)
    torch.cuda.set_per_process_memory_fraction(1.0)


@pytest.mark.parametrize("engine_name", ["cusparse", "torch"])
def test_more_than_the_device_has_is_out_of_memory(engine_name, little_memory):
    graph, inputs = problem("pagerank", "great hub", 32)
    with pytest.raises(MemoryError):
        prepared(engine_name, program("pagerank"), graph, 32).reset(inputs)
