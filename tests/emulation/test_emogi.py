"""The EMOGI style on an emulated device: every access pattern against float64, and its requests."""

from __future__ import annotations

import sys
from collections import Counter

import numpy as np
import pytest

from engines.outofmemory.emogi import cuda_plan
from harness.contract import Phases
from harness.graph import Graph
from harness.graph.generators import rmat
from harness.language import trace
from harness.language.reference import ReferenceRun
from harness.language.validation import compare
from harness.lowering.cuda.loop import CudaRun
from tests.emulation.device import THREADS, emulate
from tests.engines.cuda_schedules import SCHEDULES, cuda_engine
from tests.engines.emogi import ACCESS, OPTIONS, requests_of, rows_of
from tests.engines.test_cuda import algorithms, check_every_superstep, random_network

FEATURES = (1, 3, 32)
# Every algorithm, every schedule and every number of features; three of the former differ in the form that is pushed.
CASES = [
    (name, OPTIONS[(2 * i + j) % len(OPTIONS)], FEATURES[(i + j) % 3])
    for i, name in enumerate(("bfs", "sssp", "components", "kcore", "pagerank", "label_propagation", "hits"))
    for j in range(3)
] + [
    ("belief_propagation", {"access": "tiled"}, 3),
    ("als", {"access": "merged"}, 3),
    ("bfs", {"edges": "resident"}, 1),
]


@pytest.fixture
def run_as(monkeypatch, emulated):
    """Return a function that prepares an engine of the EMOGI style with some options."""

    def made(program, graph, features, **options):
        monkeypatch.setitem(SCHEDULES, "emogi", ("emogi", options))
        engine = cuda_engine("emogi")
        engine.prepare(program, graph, features, emulated, Phases())
        return engine

    return made


@pytest.mark.short_run(rows=4)
@pytest.mark.parametrize(("name", "options", "features"), CASES)
def test_every_superstep_is_right(name, options, features, emulated, monkeypatch):
    monkeypatch.setitem(SCHEDULES, "emogi", ("emogi", options))
    algorithm = algorithms()[name]
    program = trace(algorithm)
    graph = algorithm.prepare_graph(rmat(scale=6, edge_factor=8, seed=features, max_weight=4))
    inputs = random_network(graph, features) if name == "belief_propagation" else algorithm.inputs(graph, features)
    check_every_superstep("emogi", program, graph, inputs, features, emulated, 5, repeatable=True)


@pytest.mark.short_run(rows=3)
@pytest.mark.parametrize("name", ["pagerank", "sssp"])
@pytest.mark.parametrize("access", ACCESS)
def test_a_whole_run_settles_like_the_reference(access, name, run_as):
    algorithm = algorithms()[name]
    program, graph = trace(algorithm), rmat(scale=7, edge_factor=6, seed=9, max_weight=4)
    inputs = algorithm.inputs(graph, 1)
    engine, run = run_as(program, graph, 1, access=access), ReferenceRun(program, graph, 1)
    for one in (engine, run):
        one.reset(inputs)
    expected, taken = run.run(200), engine.run(200)
    outputs = program.outputs
    found = compare(program, {n: engine.values(n) for n in outputs}, {n: run.values(n) for n in outputs})
    assert found.ok, found.detail
    assert expected.settled
    assert taken.settled
    edges = sum(step.edges for step in taken.supersteps)
    assert taken.transfers.visited == (8 if name == "sssp" else 4) * edges
    assert taken.transfers.amplification is None, "bytes moved are only counted on request"
    if name == "sssp":
        assert sum(step.edges for step in taken.supersteps) < 3 * graph.num_edges, "only active vertices are visited"


# Rows of 40, 3, 0 and 64 edges from edge 0 on, by hand: 107 edges, in four lines of 32. The last row begins in the
# sector of eight edges in which that of three ends.
BY_HAND = {
    "naive": {32: 5 + 1 + 8, 64: 0, 96: 0, 128: 0},
    "merged": {32: 2, 64: 4, 96: 0, 128: 1},
    "aligned": {32: 2, 64: 2, 96: 0, 128: 2},
    "chunk": {32: 2, 64: 2, 96: 0, 128: 2},
    "tiled": {32: 0, 64: 1, 96: 0, 128: 3},
}


@pytest.mark.short_run(rows=2)
@pytest.mark.parametrize("access", ACCESS)
def test_requests_by_hand(access, run_as):
    graph = rows_of(40, 3, 0, 64)
    for name, arrays in (("pagerank", 1), ("sssp", 2)):  # the latter reads weights, too
        algorithm = algorithms()[name]
        program = trace(algorithm)
        engine = run_as(program, graph, 1, access=access, counters=True)
        engine.reset(algorithm.inputs(graph, 1))
        found = engine.run(1).transfers
        wanted = {size: arrays * number for size, number in BY_HAND[access].items()}
        assert found.requests == wanted
        assert found.visited == arrays * 4 * 107
        assert found.moved == {"zero_copy": sum(size * number for size, number in wanted.items())}
        assert found.amplification == found.moved["zero_copy"] / found.visited


@pytest.mark.short_run(rows=3)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_requests_of_every_superstep_are_those_of_its_frontier(options, run_as):
    """The frontier of a superstep of a breadth-first search is the level before it."""
    algorithm = algorithms()["bfs"]
    program, graph = trace(algorithm), rmat(scale=8, edge_factor=4, seed=3)
    engine = run_as(program, graph, 1, counters=True, **options)
    engine.reset(algorithm.inputs(graph, 1))
    reference = ReferenceRun(program, graph, 1)
    reference.reset(algorithm.inputs(graph, 1))
    (output,) = program.outputs
    before, frontier = None, np.isfinite(reference.values(output)).ravel()  # the source
    for _ in range(5):
        found = engine.run(1).transfers
        wanted = requests_of(graph.csr.offsets, frontier, options["access"], THREADS)
        assert Counter(found.requests) == wanted
        assert found.visited == 4 * int(np.diff(graph.csr.offsets)[frontier].sum())
        before = reference.values(output)
        reference.run(1)
        frontier = reference.values(output).ravel() != before.ravel()


def test_accesses_that_fill_lines_make_fewer_requests(run_as):
    """Of short rows, every sector is a request of its own unless tiles read lines of several rows."""
    graph, algorithm = rows_of(*[3] * 200), algorithms()["pagerank"]
    program, found = trace(algorithm), {}
    for access in ACCESS:
        engine = run_as(program, graph, 1, access=access, counters=True)
        engine.reset(algorithm.inputs(graph, 1))
        found[access] = engine.run(1).transfers
        assert found[access].amplification < 1.05
    requests = {access: sum(one.requests.values()) for access, one in found.items()}
    assert requests["tiled"] <= 19 + 200 // THREADS, "lines, and those that two blocks share"
    assert requests["aligned"] == requests["chunk"] == requests["naive"] == 75, "sectors"


def test_a_sector_is_requested_by_a_row_if_no_row_before_it_is_read(run_as):
    """Rows of twelve edges: a search from vertex 2 reads that of vertex 1 without that of vertex 0."""
    sources, targets = np.repeat(np.arange(3), 12), np.repeat([2, 0, 1], 12)
    graph = Graph.from_edges(sources, targets, num_vertices=3, name="rows", duplicates="keep")
    search = algorithms()["bfs"]
    engine = run_as(trace(search), graph, 1, access="aligned", counters=True)
    engine.reset(search.inputs(graph, 1))
    assert [engine.run(1).transfers.requests for _ in range(2)] == [
        {32: 2, 64: 0, 96: 0, 128: 0},
        {32: 0, 64: 1, 96: 0, 128: 0},
    ], "edges 24 to 35, in two lines, and 12 to 23"


@pytest.mark.parametrize(("advice", "share"), [("read_mostly", 0.25), ("none", 0.5), ("accessed_by", 0.0)])
def test_pages_beyond_the_kept_share_leave_the_device_after_every_superstep(advice, share, run_as, monkeypatch):
    monkeypatch.setattr("harness.device.managed_memory.BLOCK", 1)
    runtime, algorithm, supersteps = sys.modules["cupy"].cuda.runtime, algorithms()["sssp"], []
    program, graph = trace(algorithm), rmat(scale=7, edge_factor=6, seed=9, max_weight=4)
    engine = run_as(program, graph, 1, edges="managed", advice=advice, kept_share=share)
    queued = CudaRun.superstep

    def read_all(run, number):
        queued(run, number)
        supersteps.append([int(np.count_nonzero(pages & runtime.DEVICE)) for pages in runtime.pages.values()])
        for pointer, memory in runtime.managed.items():
            runtime.read(pointer, memory.nbytes, runtime.DEVICE)

    monkeypatch.setattr(CudaRun, "superstep", read_all)
    run, inputs = ReferenceRun(program, graph, 1), algorithm.inputs(graph, 1)
    for one in (engine, run):
        one.reset(inputs)
    run.run(200)
    taken = engine.run(200)
    kept = [round(share * memory.nbytes) for memory in runtime.managed.values()]
    assert supersteps[0] == [0] * len(kept)
    assert supersteps[1:] == [kept] * (len(taken.supersteps) - 1)
    assert len(kept) == 2, "neighbours and weights"
    assert all((pages & runtime.DEVICE).all() for pages in runtime.pages.values()), "the run is over"
    assert np.array_equal(engine.values(program.outputs[0]), run.values(program.outputs[0]))
    assert taken.settled
    assert engine.resolved_options()["kept_share"] == share
    engine.close()


@pytest.mark.parametrize("racing", [False, True])
@pytest.mark.parametrize(("access", "frontier"), [("merged", "flags"), ("aligned", "list"), ("chunk", "flags")])
@pytest.mark.parametrize("name", ["pagerank", "sssp"])
def test_rows_that_all_warps_of_a_block_read(name, access, frontier, racing, monkeypatch, tmp_path):
    """Rows of 8 edges and more are long here, and a block lists two of them."""
    source = (cuda_plan.FOLDER / "emogi.cuh").read_text(encoding="utf-8")
    short = source.replace("LONG = 2048;", "LONG = 8;").replace("LONG_ROWS = 32;", "LONG_ROWS = 2;")
    assert short.count("= 8;") == source.count("= 8;") + 1
    assert short.count("= 2;") == source.count("= 2;") + 1
    (tmp_path / "emogi.cuh").write_text(short, encoding="utf-8")
    monkeypatch.setattr(cuda_plan, "FOLDER", tmp_path)
    monkeypatch.setitem(SCHEDULES, "emogi", ("emogi", {"access": access, "frontier": frontier}))
    algorithm, device = algorithms()[name], emulate(monkeypatch, racing=racing)
    graph = algorithm.prepare_graph(rmat(scale=8, edge_factor=12, seed=4, max_weight=4))
    assert (np.diff(graph.csr.offsets) >= 8).sum() > 2 * graph.num_vertices / 8, "some warps read long rows alone"
    inputs = algorithm.inputs(graph, 3)
    check_every_superstep("emogi", trace(algorithm), graph, inputs, 3, device, 4, repeatable=True)
