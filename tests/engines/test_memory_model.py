"""Modelled memory transactions, on graphs small enough to count by hand, for every schedule."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest

from harness.algorithms.als import ALS
from harness.algorithms.belief_propagation import BeliefPropagation
from harness.algorithms.label_propagation import LabelPropagation
from harness.algorithms.pagerank import PageRank
from harness.campaign.cell import load
from harness.contract import Device, No, schedule_from_options
from harness.emulation import compiler
from harness.graph import Graph
from harness.graph.generators.rmat import rmat
from harness.language import trace
from harness.lowering.cuda import memory_model
from harness.lowering.cuda.calls import Call
from harness.lowering.cuda.kernels import CudaKernel
from harness.lowering.cuda.launches import Launch
from harness.lowering.cuda.parameters import Parameter
from harness.lowering.cuda.ranges import Over
from harness.lowering.cuda.thread_planner import ThreadPlanner
from harness.lowering.graph_store import GraphStore
from harness.plugins import load_plugins
from harness.transactions import Atomics, Behaviour, Loads
from tests.engines.cuda_schedules import plan_of

PUSH = {"direction": "push", "change_driven": False}
PULL = {"direction": "pull", "change_driven": False}
ENTERED = Loads(24, 24, 24 * 8)  # three counters of the run, read by the eight warps of one block
PROPAGATION = LabelPropagation(seeds="random")
BELIEFS = BeliefPropagation(vertices="drawn")


def star(leaves: int, *, inwards: bool) -> Graph:
    hub, others = np.zeros(leaves, np.int64), np.arange(1, leaves + 1)
    ends = (others, hub) if inwards else (hub, others)
    return Graph.from_edges(*ends, weights=np.ones(leaves, np.float32), name="star")


def ring(count: int) -> Graph:
    start = np.arange(count)
    return Graph.from_edges(start, (start + 1) % count, weights=np.ones(count, np.float32), name="ring")


def engine_of(name, **options):
    spec = load_plugins(()).engine(name)
    return load(spec.factory)(schedule_from_options(spec, options))


def behaviour(name, graph, k, *, algorithm=PROPAGATION, **options) -> Behaviour:
    engine = engine_of(name, **options)
    found = engine.memory_model(trace(algorithm), graph, k, algorithm.inputs(graph, k))
    assert isinstance(found, Behaviour), found
    return found


def spread(name, graph, k, **options):
    """Return the edge kernel without the initial reads of every thread."""
    kernel = behaviour(name, graph, k, **options).kernels["spread"]
    return kernel.loads + ENTERED.times(-1), kernel.atomics


def test_pushed_rows_are_coalesced_with_features_across_lanes():
    loads, atomics = spread("onyx", ring(64), 8, **PUSH, balance="edge")
    # two tiles; four steps of 16 edges, with two lanes each, which load 16 bytes at once
    assert loads == Loads(2 + 2 + 4 + 4, 2 * 4 + 2 * 4 + 4 * 2 + 4 * 16, 2 * 128 + 2 * 128 + 4 * 64 + 4 * 512)
    assert atomics == Atomics(4, 4 * 16, 4 * 5)


def test_pushed_rows_lie_a_stride_apart_with_features_in_a_loop():
    loads, atomics = spread("onyx", ring(64), 8, **PUSH, balance="edge", feature_aware=False)
    # one lane per edge: a feature of 32 rows of 32 bytes, each in a separate sector
    assert loads == Loads(2 * (3 + 8), 2 * (3 * 4 + 8 * 32), 2 * (3 * 128 + 8 * 128))
    assert atomics == Atomics(2 * 8, 2 * 8 * 32, 2 * 8 * 9)


def test_a_block_owns_a_hub():
    kernels = behaviour("onyx", star(1024, inwards=True), 8, **PULL, balance="warp", fold=False).kernels
    loads = kernels["spread_hubs"].loads + ENTERED.times(-1)
    # eight warps read the hub and its bounds; each has 16 lane groups of two lanes, and each lane group has eight edges
    # of the hub: neighbours and weights are coalesced, and rows have 32 bytes
    once, edges = Loads(3, 3, 3 * 4), Loads(3, 2 + 2 + 16, 64 + 64 + 512)
    assert loads == once.times(8) + edges.times(8 * 8)
    # the others have no edges: 65 warps of 16 owners read both bounds of each; nine blocks of them are entered
    loads = kernels["spread"].loads + ENTERED.times(-9)
    assert (loads.requests, loads.bytes) == (65 * 2, 2 * (64 * 64 + 4))


def test_a_side_without_hubs_launches_nothing_for_them():
    for swapped in (False, True):
        ends = [np.zeros(300, np.int64), 1 + np.arange(300) % 299]
        if swapped:
            ends = [299 - end for end in ends]
        graph = Graph.from_edges(
            *ends, weights=1 + np.arange(300, dtype=np.float32) % 5, num_vertices=300,
            bipartite=(299, 1) if swapped else (1, 299), symmetrize=True, duplicates="keep", name="sides",
        )  # fmt: skip
        engine = engine_of("onyx", **PULL, balance="warp").on(Device("cuda"))
        plan = plan_of(engine, trace(ALS()), graph, 4)
        store = GraphStore(graph)
        found = engine.memory_model(trace(ALS()), graph, 4, ALS().inputs(graph, 4)).kernels
        (hubs,) = plan.tables
        assert [*store.table(hubs).arrays["hubs"]] == [299 if swapped else 0]
        assert any(name.endswith("_hubs") for name in found) is not swapped
        assert plan.named["hubs"].nbytes == 4


def test_rows_are_padded_to_a_power_of_two():
    loads, atomics = spread("onyx", ring(64), 5, **PUSH, balance="edge")
    # rows of 5 have a stride of 8: the second of two lanes also loads 16 bytes, of one feature and padding
    assert (loads, atomics) == spread("onyx", ring(64), 8, **PUSH, balance="edge")
    # one feature per lane: 6 lane groups of 5 lanes, so 6 steps of 6 edges; 4 are fetched ahead, and where no edge is
    # left, the last one is fetched again: twice
    loads, atomics = spread("onyx", ring(32), 5, **PUSH, balance="edge", vector_width=1)
    assert loads.requests == 1 + 1 + 8 + 8
    assert loads.bytes == 128 + 128 + 34 * 4 + 34 * 20
    assert atomics.requests == 6
    assert atomics.sectors == 32


def test_one_thread_processes_a_hub():
    # vertex 0 has 100 edges, the other lanes of its warp none: one edge per step, two words and four features of 4
    # bytes
    loads, _ = spread("onyx", star(100, inwards=True), 4, **PULL, feature_aware=False, fold=False)
    offsets = 3 * (4 + 5) + 2  # of 101 vertices and of the next ones, by four warps
    assert loads == Loads(8 + 600, offsets + 600, 101 * 8 + 600 * 4)


def test_a_hub_is_shared_by_the_threads_of_a_warp():
    gathered = behaviour("simdx", star(100, inwards=True), 4).kernels["spread_middle"].loads
    # the 32 lanes of a warp process 32 edges: neighbours and weights coalesced, rows of 16 bytes one feature at a time
    words = 4 + 4 + 4 + 1
    rows = [
        np.unique(16 * np.arange(first, last) // 32).size for first, last in ((1, 33), (33, 65), (65, 97), (97, 101))
    ]
    around = 3 * 8 + 3  # the run's counters by eight warps; the list and the offsets once
    assert gathered.requests == 4 * (2 + 4) + around
    assert gathered.sectors == 2 * words + 4 * sum(rows) + around


def test_virtual_nodes_read_edges_side_by_side():
    loads, atomics = spread("tigr", star(96, inwards=False), 4)
    # 12 nodes of 8 interleaved edges: 12 neighbours and weights are consecutive; the source's row stays in registers
    assert loads.requests == 4 + 4 + 8 * 2
    assert loads.sectors == 2 + 2 + 1 + 1 + 4 + 8 * (2 + 2)
    assert atomics == Atomics(8 * 4, 8 * 4 * 7, 4 * 4 * (2 + 3))


def test_reading_ahead_makes_the_transactions_of_reading_one_after_another(monkeypatch):
    def made():
        engine = engine_of("tigr").on(Device("cuda"))
        source = plan_of(engine, trace(PageRank()), ring(900), 1).source
        return source, behaviour("tigr", ring(900), 1, algorithm=PageRank()).kernels["rank"]

    source, ahead = made()
    assert "fetched[4]" in source
    monkeypatch.setattr(ThreadPlanner, "most_ahead", 1)
    source, single = made()
    assert "fetched" not in source
    # by blocks of 256 vertices, not of 1,024: more warps read three counters of the run and two parameters, and those
    # of them that have vertices (29 of 32, and 8 of 8) read the sum over the graph
    around, total = Loads(5, 5, 3 * 8 + 2 * 4), Loads(1, 1, 4)
    assert single.loads == ahead.loads + around.times(3 * 8) + total.times(29 - 8)
    assert single.atomics == ahead.atomics == Atomics()  # on a ring no rank moves, so no block adds to the counter


def test_rows_that_cross_runs_are_reduced_and_others_stored():
    inside = behaviour("onyx", ring(64), 8, **PULL, balance="edge").kernels["spread"]
    assert inside.atomics == Atomics()
    across = behaviour("onyx", star(4096, inwards=True), 8, **PULL, balance="edge").kernels["spread"]
    # two tiles of 2,048 edges, 128 runs of 16 each, all of which end with a reduction into one row: 16 lane groups are
    # serialized
    assert across.atomics == Atomics(2 * 8, 2 * 8 * 16, 2 * 8 * 16)


def test_a_run_that_begins_without_tracking_has_the_loads_of_full_propagation():
    graph = BELIEFS.prepare_graph(ring(64))
    kernels = behaviour("onyx", graph, 4, algorithm=BELIEFS, balance="edge").kernels
    full = behaviour("onyx", graph, 4, algorithm=BELIEFS, **PULL, balance="edge").kernels
    # eight warps each read whether the superstep is tracked, and which of the messages' buffers is current
    more = {"message": Loads(16, 16, 16 * 8), "gather_log_copy": Loads(8, 8, 8 * 8)}
    for name, looked in more.items():
        assert kernels[f"{name}_untracked"].loads == full[name].loads + looked
        assert kernels[f"{name}_untracked"].atomics == full[name].atomics
        assert kernels[name].loads.bytes == kernels[name].loads.requests * 8  # and tracked kernels do nothing


def test_under_change_tracking_edges_of_dirty_rows_are_counted_and_buffers_change_places(monkeypatch):
    # tracked from the first superstep on
    monkeypatch.setattr("engines.onyx.cuda_tracking_policy.edges_change", lambda _: False)
    graph = BELIEFS.prepare_graph(ring(64))
    kernels = behaviour("onyx", graph, 4, algorithm=BELIEFS, direction="push", balance="warp").kernels
    # by two warps: one byte of flags per vertex, the begin and the end of its edges
    counted = kernels["count_message"].loads + (ENTERED + Loads(8, 8, 8 * 8)).times(
        -1
    )  # does the superstep have tracking?
    assert counted == Loads(2 * 3, 2 * (1 + 4 + 5), 2 * (32 + 128 + 128))
    # six counters, among them the number of dirty edges and the index of the current buffer; then it returns
    assert kernels["commit_message"].loads == Loads(6 * 8, 6 * 8, 6 * 8 * 8)


SCHEDULES = [
    ("onyx", {}), ("onyx", {"balance": "warp"}), ("onyx", {"balance": "edge"}), ("onyx", {"feature_aware": False}),
    ("onyx", {"direction": "push"}), ("onyx", {"direction": "push", "balance": "warp"}),
    ("onyx", {"direction": "push", "feature_aware": False}), ("onyx", PUSH), ("onyx", {**PULL, "fold": False}),
    ("gunrock", {}), ("gunrock", {"balance": "merge_path"}), ("tigr", {}), ("simdx", {}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "options"), SCHEDULES, ids=[f"{name}-{options}" for name, options in SCHEDULES])
@pytest.mark.parametrize(
    "algorithm",
    [PROPAGATION, *(pytest.param(one, marks=pytest.mark.full) for one in (PageRank(), ALS(sides="all"), BELIEFS))],
    ids=lambda one: type(one).__name__,
)
def test_every_schedule_is_counted(name, options, algorithm):
    graph = algorithm.prepare_graph(rmat(scale=5, edge_factor=4, symmetric=True, max_weight=4))
    found = engine_of(name, **options).memory_model(trace(algorithm), graph, 3, algorithm.inputs(graph, 3))
    if isinstance(found, No):
        assert isinstance(engine_of(name, **options).supports(trace(algorithm), graph, 3, Device("cuda")), No)
        return
    assert found.share == 1.0
    assert found.whole.loads.sectors > 0
    assert 0 < found.whole.loads.efficiency <= 1
    for kernel in found.kernels.values():
        assert kernel.loads.requests <= kernel.loads.sectors <= 32 * kernel.loads.requests
        assert kernel.atomics.requests <= kernel.atomics.transactions <= kernel.atomics.sectors


@pytest.mark.short_run(rows=1, always="onyx-options1")
@pytest.mark.parametrize(
    ("name", "options"), [("onyx", PULL), ("onyx", PUSH), ("gunrock", {}), ("tigr", {}), ("simdx", {})]
)
def test_a_sample_tells_of_the_whole(name, options, monkeypatch):
    graph = rmat(scale=14, edge_factor=8, symmetric=True, max_weight=4)
    monkeypatch.setattr(memory_model, "ACCESSES", 1 << 60)
    exact = behaviour(name, graph, 8, **options)
    monkeypatch.setattr(memory_model, "ACCESSES", 1 << 17)
    monkeypatch.setattr(memory_model, "REST", 0)
    sampled = behaviour(name, graph, 8, **options)
    assert exact.share == 1 > sampled.share
    assert sampled.whole.loads.sectors == pytest.approx(exact.whole.loads.sectors, rel=0.1)
    assert sampled.whole.loads.efficiency == pytest.approx(exact.whole.loads.efficiency, rel=0.05)
    assert sampled.whole.atomics.transactions == pytest.approx(exact.whole.atomics.transactions, rel=0.15)
    if options != PULL and name != "simdx":  # a pushed edge adds one row: the edges are known, whichever blocks ran
        assert sampled.whole.atomics.sectors == pytest.approx(exact.whole.atomics.sectors, rel=2e-3)


@pytest.mark.parametrize(
    ("parameters", "rest", "array"),
    [
        ({"run": "Run*", "out_offsets": "const EdgeId*", "list": "Id*"}, math.inf, ""),
        ({"run": "Run*", "starts": "EdgeId*"}, math.inf, ""),
        ({"run": "Run*", "vertex_x": "float*", "in_offsets": "const EdgeId*"}, memory_model.REST, ""),
        ({"list": "Id*", "in_neighbours": "const Id*", "vertex_x": "float*"}, memory_model.REST, "in_neighbours"),
        ({"out_neighbours": "const Id*"}, memory_model.REST, "out_neighbours"),
    ],
)
@pytest.mark.parametrize("whole", [False, True])
def test_blocks_that_list_work_are_run_though_they_are_not_counted(parameters, rest, array, whole):
    """The results of a sampled kernel are unknown, but for vertices that nothing reaches."""
    kernel = CudaKernel("visit", tuple(Parameter(name, kind) for name, kind in parameters.items()))
    arguments = {name: np.arange(8.0, dtype=np.float32) for name in parameters}
    given = {}

    def counted(grid, threads, values, shared, **named):
        given.update(named)
        return SimpleNamespace(whole=whole, blocks=5, quantities=np.zeros((1, 6)), covered=np.zeros(1))

    call = Call(SimpleNamespace(counted=counted), arguments, 256, launch=Launch(kernel, Over.VERTICES, 1.0))
    graph = Graph.from_edges([0, 1], [1, 2], num_vertices=3, name="three")
    buffer = SimpleNamespace(rows=3, length=6, stride=2)
    plan = SimpleNamespace(parities={}, named={"vertex_x": buffer})
    executor = SimpleNamespace(plan=plan, store=SimpleNamespace(graph=graph))
    found = memory_model._sampled(executor, call)
    assert (given["rest"], given["budget"], found.array) == (rest, memory_model.ACCESSES, array)
    assert given["covered"] is arguments.get(array)
    unknown = [0, 1, *[np.nan] * 4, 6, 7] if array and not whole else range(8)  # the last two are behind the rows
    for name, kind in parameters.items():
        np.testing.assert_array_equal(arguments[name], list(unknown) if kind == "float*" else list(range(8)))


def test_an_array_that_has_no_row_for_each_vertex_is_unknown_as_a_whole():
    graph = Graph.from_edges([0, 1], [1, 2], num_vertices=3, name="three")
    buffers = {"csc_x": SimpleNamespace(rows=2, length=4, stride=2), "vertex_x": None}
    plan = SimpleNamespace(parities={"next_csc_x": "csc_x"}, named=buffers)
    values = np.arange(5.0, dtype=np.float32)
    memory_model._forget(SimpleNamespace(plan=plan, store=SimpleNamespace(graph=graph)), "next_csc_x", values)
    assert np.isnan(values).all()


def test_an_engine_without_kernels_says_so():
    found = engine_of("scipy").memory_model(trace(PROPAGATION), ring(8), 8, PROPAGATION.inputs(ring(8), 8))
    assert isinstance(found, No)
    assert "no kernels whose accesses can be counted" in found.reason


def test_a_missing_compiler_is_named(monkeypatch):
    monkeypatch.setattr(compiler.shutil, "which", lambda _: None)
    found = engine_of("tigr").memory_model(trace(PROPAGATION), ring(8), 8, PROPAGATION.inputs(ring(8), 8))
    assert isinstance(found, No)
    assert "which is not installed: install the C++ compiler of GCC 11 or later (apt install g++" in found.reason
