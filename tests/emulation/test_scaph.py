"""The Scaph style on an emulated device: answers, how subgraphs are read, bytes, and the waits that are due."""

from __future__ import annotations

import gc
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from engines.outofmemory.scaph import cuda_executor
from engines.outofmemory.scaph.cuda_staging import PackedRows
from engines.outofmemory.scaph.cuda_subgraphs import SubgraphCall, SubgraphStreamer
from engines.outofmemory.scaph.extraction import groups_of
from engines.outofmemory.scaph.reading import Choice
from engines.outofmemory.scaph.values import Rates
from harness.algorithms.bfs import BFS
from harness.contract import Device, No
from harness.emulation.arrays import Event, Stream
from harness.graph import Graph
from harness.graph.generators import rmat
from harness.language import K, trace
from harness.language.reference import ReferenceRun
from harness.lowering.cuda import executor as cuda
from harness.lowering.cuda.calls import Call
from harness.lowering.cuda.windows import SLACK, aligned
from tests.emulation.device import THREADS, emulate
from tests.engines import test_cuda, test_warm
from tests.engines.cuda_schedules import SCHEDULES, cuda_engine
from tests.engines.emogi import requests_of, rows_of
from tests.engines.problems import ALGORITHMS, prepared, problem, program
from tests.engines.programs import edges_and_loops, inputs_for, program_named, traced
from tests.engines.scaph import check_values_on_both
from tests.engines.test_cuda import algorithms, check_every_superstep

NAMES = ("bfs", "sssp", "components", "kcore", "pagerank", "label_propagation", "hits", "als", "multimodal")
MEANS = [
    {}, {"values": "low"}, {"values": "high"}, {"values": "low", "low": "stream"},
    {"values": "low", "low": "zero_copy"}, {"low": "zero_copy", "alpha": 0.2}, {"access": "aligned", "slots": 2},
    {"rule": "chosen"}, {"rule": "chosen", "low": "zero_copy"},
]  # fmt: skip
FEATURES = (1, 3, 32)
# Every algorithm, all means, and every number of features.
CASES = [
    (name, MEANS[(3 * i + j) % len(MEANS)], FEATURES[(i + j) % 3], (0.004, 0.02)[(i + j) % 2])
    for i, name in enumerate(NAMES)
    for j in range(4)
]


def check(options, traced, graph, inputs, features, device, monkeypatch):
    """Compare supersteps with the reference."""
    monkeypatch.setitem(SCHEDULES, "scaph", ("scaph", options))
    check_every_superstep("scaph", traced, graph, inputs, features, device, 5)


@pytest.mark.short_run(rows=2)
@pytest.mark.parametrize(("name", "options", "features", "size"), CASES)
def test_every_superstep_is_right(name, options, features, size, emulated, monkeypatch):
    algorithm = algorithms()[name]
    graph = algorithm.prepare_graph(rmat(scale=6, edge_factor=8, seed=features, max_weight=4))
    size *= features if name in ("als", "multimodal") else 1
    inputs = algorithm.inputs(graph, features)
    check({"window_mb": size, **options}, trace(algorithm), graph, inputs, features, emulated, monkeypatch)


def several_numbers(p, self):
    """Read several numbers of every edge, and one."""
    p.edge("weight")
    p.edge("gates", K)
    p.vertex("x0", K)
    p.vertex("x", K, start="x0")

    @p.over_edges(into="got", reduce="sum")
    def spread(src, edge):
        return edge.weight * edge.gates * src.x

    @p.over_vertices
    def step(v):
        return {"x": 0.5 * v.x + 0.02 * v.got}

    p.repeat(10)
    p.output("x", bound=1e-4)


@pytest.mark.short_run(rows=2)
@pytest.mark.parametrize("features", [1, 3])
@pytest.mark.parametrize("options", [{"values": "low"}, {"values": "high"}, {"values": "low", "low": "zero_copy"}])
def test_arrays_of_edges_of_all_widths(options, features, emulated, monkeypatch):
    graph = edges_and_loops.__wrapped__()
    for one in (program_named("several_reductions"), traced(several_numbers, "several numbers")):
        check(
            {"window_mb": 0.002, **options}, one, graph, inputs_for(one, graph, features), features, emulated,
            monkeypatch,
        )  # fmt: skip


@pytest.mark.parametrize("options", [MEANS[0], MEANS[1], MEANS[4]], ids=str)
@pytest.mark.parametrize("graph_name", ["hub", "scattered", "no edges", "one vertex", "one loop", "chain"])
def test_rows_of_all_lengths(graph_name, options, emulated, monkeypatch):
    """A hub fills a window exactly, many rows are empty, and there may be no edge or a single vertex."""
    graph, inputs = problem("sssp", graph_name, 3)
    size = 3000 * 8e-6 if graph_name == "hub" else 0.0004
    check({"window_mb": size, **options}, program("sssp"), graph, inputs, 3, emulated, monkeypatch)


@pytest.mark.parametrize("kind", ["insert", "lighter"])
def test_warm_starts(kind, emulated, monkeypatch):
    monkeypatch.setattr(test_warm, "graph_of", lambda *_: rmat(8, max_weight=8, seed=2))
    monkeypatch.setattr(test_warm, "SHARE", 1e-3)
    monkeypatch.setitem(SCHEDULES, "scaph", ("scaph", {"window_mb": 0.008}))
    monkeypatch.setitem(test_warm.ALL, "scaph", SCHEDULES["scaph"])
    test_cuda.test_warm_starts("scaph", "sssp", kind, emulated, monkeypatch)


@pytest.mark.short_run(rows=2)
@pytest.mark.parametrize(("name", "options"), [("sssp", {"values": "low"}), ("pagerank", {})])
def test_no_kernel_races(name, options, monkeypatch):
    algorithm = algorithms()[name]
    graph = algorithm.prepare_graph(rmat(scale=6, edge_factor=6, seed=1, max_weight=4))
    check(
        {"window_mb": 0.002, **options}, trace(algorithm), graph, algorithm.inputs(graph, 3), 3,
        emulate(monkeypatch, racing=True), monkeypatch,
    )  # fmt: skip


# what is read ---------------------------------------------------------------------------------------------------------
def four_rows():
    """Return four rows of 10 edges, in two subgraphs of 20; a search from vertex 0 reaches 1, and then nothing new."""
    sources = np.repeat(np.arange(4), 10)
    targets = np.array([1, 0, 2, 3])[sources]
    return Graph.from_edges(sources, targets, num_vertices=4, name="four rows", duplicates="keep")


def test_what_is_read_by_hand(run_scaph):
    graph, traced = four_rows(), trace(BFS(sources="0"))
    table = 8  # bytes: an entry for the vertices of a subgraph
    wanted = {
        "low": ({"values": "low"}, {"copied": 0, "extracted": 4 * 10 + table}, (0, 1)),
        "high": ({"values": "high"}, {"copied": 4 * 20, "extracted": 0}, (1, 0)),
        "whole": ({"values": "low", "low": "stream"}, {"copied": 4 * 20, "extracted": 0}, (0, 1)),
        # row 1 is the bytes 40 to 79: parts of the sectors that begin at 32 and 64
        "in place": ({"low": "zero_copy"}, {"copied": 0, "extracted": 0, "zero_copy": 64}, (0, 1)),
        "half is not more than alpha": ({}, {"copied": 0, "extracted": 4 * 10 + table}, (0, 1)),
        "half is more than alpha": ({"alpha": 0.4}, {"copied": 4 * 20, "extracted": 0}, (1, 0)),
    }
    for case, (options, moved, (high, low)) in wanted.items():
        engine = run_scaph(traced, graph, 1, window_mb=20 * 4 / 1e6, **options)
        engine.reset(BFS(sources="0").inputs(graph, 1))
        assert engine.run(1).transfers.visited == 4 * 10, "vertex 0 is the source"
        found = engine.run(1).transfers
        assert found.visited == 4 * 10, "vertex 1 was reached"
        assert found.moved == moved, case
        assert found.subgraphs == {"high": high, "low": low, "again": 0}, "the other subgraph is not read"
        engine.run(5)
        assert sum(engine.run(1).transfers.moved.values()) == 0, "nothing is read once the run has settled"


def test_sectors_read_in_place_are_those_of_the_frontier(run_scaph):
    """The frontier of a superstep of a breadth-first search is the level before it; a thread reads a row by sectors."""
    traced, graph = program("bfs"), rmat(scale=8, edge_factor=4, seed=3)
    inputs = ALGORITHMS["bfs"].inputs(graph, 1)
    engine = run_scaph(traced, graph, 1, values="low", low="zero_copy", window_mb=0.001)
    reference = ReferenceRun(traced, graph, 1)
    for one in (engine, reference):
        one.reset(inputs)
    (output,) = traced.outputs
    frontier = np.isfinite(reference.values(output)).ravel()  # the source
    for _ in range(5):
        found = engine.run(1).transfers
        wanted = requests_of(graph.csr.offsets, frontier, "naive", THREADS, shared=False)
        assert found.moved["zero_copy"] == 32 * wanted[32]
        assert found.visited == 4 * int(np.diff(graph.csr.offsets)[frontier].sum())
        before = reference.values(output)
        reference.run(1)
        frontier = reference.values(output).ravel() != before.ravel()


def push_of(engine):
    """Return the call over all edges of a superstep of a search."""
    run = engine.executor.run_in_progress
    calls = [call for call in run.launcher.calls(1, run.past) if call.launch]
    [push] = (call for call in calls if engine.planned.windows.takes(call.launch.kernel))
    return push


def test_one_launch_processes_adjacent_subgraphs_that_are_read_in_place(run_scaph, monkeypatch):
    """Of ten subgraphs, the third one is copied, and the seventh has no active vertex."""
    graph, search = rows_of(*[10] * 100), ALGORITHMS["bfs"]
    engine = run_scaph(program("bfs"), graph, 1, values="measured", low="zero_copy", window_mb=0.0004)
    engine.reset(search.inputs(graph, 1))
    call, started = SubgraphCall(engine.executor.streamer, push_of(engine)), []
    monkeypatch.setattr(Call, "start", lambda call: started.append(call.bounds))
    monkeypatch.setattr(SubgraphCall, "counts", lambda _: [(int(n != 6), 10, 2) for n in range(10)])
    whole = Choice(high=True, means="copied"), Choice(high=False, means="zero_copy")
    monkeypatch.setattr(SubgraphCall, "choose", lambda _, number, counts: whole[number != 2])
    call.start()
    assert len(call.parts) == 10
    assert started == [(20, 30), (0, 20), (30, 100)]


MIXED = {"alpha": 0.59, "beta": 0.59}  # some subgraphs of these searches exceed it in a superstep, and some do not
VALUES = [
    MIXED, {"alpha": 0.9}, {"values": "low", "low": "stream"}, {}, {"alpha": 0.3, "beta": 0.2},
    {"values": "high", "order": "zigzag"}, {"counters": True, "order": "value"},
]  # fmt: skip


@pytest.mark.short_run(rows=3)
@pytest.mark.parametrize("name", ["bfs", "sssp"])
@pytest.mark.parametrize("options", VALUES, ids=str)
def test_values_are_those_of_the_cpu(options, name, run_scaph, monkeypatch):
    """Both devices find the same useful bytes in every subgraph, and read the same ones whole."""
    graph, inputs = problem(name, "rmat", 1)
    chosen = {"window_mb": 0.004, **options}
    engines = [prepared("scaph", chosen, program(name), graph, 1), run_scaph(program(name), graph, 1, **chosen)]
    found = check_values_on_both(engines, inputs, 6, chosen, monkeypatch)
    high = [cpu.subgraphs["high"] for cpu, _ in found]
    both = [cpu.subgraphs["high"] > 0 and cpu.subgraphs["low"] > 0 for cpu, _ in found]
    assert any(both) or options != MIXED, "both kinds occur in a superstep"
    assert any(high[1:]) == (options.get("values") != "low"), "not only while all vertices are active"
    swept_twice = any(vain for _, vain in found)  # then the first subgraphs are copied ahead, and some in vain
    assert swept_twice == (name == "sssp") or options


def two_reductions(p, self):
    """Reduce the edges twice, once without their weights."""
    p.edge("weight")
    p.vertex("x0", K)
    p.vertex("x", K, start="x0")

    @p.over_edges(into="weighted", reduce="sum")
    def first(src, edge):
        return edge.weight * src.x

    @p.over_edges(into="plain", reduce="sum")
    def second(src):
        return src.x

    @p.over_vertices
    def step(v):
        return {"x": 0.5 * v.x + 0.01 * v.weighted + 0.02 * v.plain}

    p.repeat(10)
    p.output("x", bound=1e-4)


@pytest.mark.parametrize(("slots", "size"), [(2, 0.001), (3, 0.002), (4, 0.001), (6, 0.001)])
def test_all_copies_are_counted(slots, size, run_scaph, monkeypatch):
    """Also those of subgraphs that were copied ahead and overwritten by the subgraphs of another kernel."""
    twice, graph, copied = traced(two_reductions, "two reductions"), rmat(scale=6, edge_factor=12, max_weight=4), []
    engine = run_scaph(twice, graph, 2, window_mb=size, values="high", slots=slots)
    fill = SubgraphStreamer.fill

    def noted(streamer, number, names, first, last):
        copied.append(streamer.stored(names, first, last))
        fill(streamer, number, names, first, last)

    monkeypatch.setattr(SubgraphStreamer, "fill", noted)
    engine.reset(inputs_for(twice, graph, 2))
    for supersteps in (1, 3, 2):
        assert engine.run(supersteps).transfers.moved["copied"] == sum(copied) > 0
        copied.clear()
    run = ReferenceRun(twice, graph, 2)
    run.reset(inputs_for(twice, graph, 2))
    run.run(6)
    np.testing.assert_allclose(engine.values("x"), run.values("x"), rtol=1e-5)


@pytest.mark.parametrize(
    ("low", "other", "high"),
    # all 80 bytes are copied in 8 seconds, and 48 bytes packed, or 64 read in place, in the rest
    [("extract", 6.0, True), ("extract", 6.1, False), ("zero_copy", 8.0, True), ("zero_copy", 8.1, False)],
)
def test_the_least_time_is_chosen(low, other, high, run_scaph, monkeypatch):
    monkeypatch.setattr(cuda_executor, "measured_rates", lambda *_: Rates(10.0, other))
    monkeypatch.setattr(cuda_executor, "omits_decisions", lambda _: False)
    graph, traced = four_rows(), trace(BFS(sources="0"))
    engine = run_scaph(traced, graph, 1, window_mb=20 * 4 / 1e6, rule="chosen", low=low)
    engine.reset(BFS(sources="0").inputs(graph, 1))
    engine.run(1)
    assert engine.run(1).transfers.subgraphs == {"high": int(high), "low": int(not high), "again": 0}


@pytest.mark.parametrize("low", ["extract", "zero_copy", "stream"])
@pytest.mark.parametrize("graph_name", ["rmat", "no edges"])
def test_rates_are_measured(graph_name, low, run_scaph):
    graph, _ = problem("bfs", graph_name, 1)
    rates = run_scaph(program("bfs"), graph, 1, rule="chosen", low=low).executor.readings.rates
    assert rates.copied >= rates.other >= 0
    assert (rates.other > 0) == (graph_name == "rmat")


# memory ---------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("options", "stagings"),
    [({}, 2), ({"slots": 3}, 2), ({"values": "high"}, 0), ({"low": "stream"}, 0), ({"low": "zero_copy"}, 0)],
    ids=str,
)
def test_the_plan_prices_what_is_allocated(options, stagings, run_scaph, monkeypatch):
    required = []
    monkeypatch.setattr(cuda, "require_memory", required.append)
    graph = rmat(scale=6, edge_factor=8, seed=1, max_weight=4)
    engine = run_scaph(program("sssp"), graph, 1, window_mb=0.002, **options)
    engine.reset(ALGORITHMS["sssp"].inputs(graph, 1))
    engine.run(3)
    plan, streamer = engine.planned, engine.executor.run_in_progress.launcher.place
    of_edges = sum(buffer.nbytes for buffer in plan.buffers if buffer.of_edges)
    others = sum(buffer.nbytes for buffer in plan.buffers if not buffer.of_edges)
    assert of_edges == 2 * 4 * graph.num_edges
    assert len(streamer.slots) == options.get("slots", 6)
    buffers = list(streamer.packing.stagings) if stagings else []
    assert (len(buffers), streamer.packing is None) == (stagings, not stagings)
    packed, offsets = sum(one.device.nbytes for one in buffers), streamer.packing.offsets.nbytes if stagings else 0
    assert offsets == bool(stagings) * 4 * (graph.num_vertices + 1)
    slots = sum(slot.nbytes for slot in streamer.slots)
    assert plan.bytes_needed == others + slots + packed + offsets == required[-1]
    flags = graph.num_vertices if stagings else 0
    assert plan.host_bytes == of_edges + sum(one.host.nbytes for one in buffers) + flags
    assert f"{plan.host_bytes:,} bytes of page-locked host memory" in engine.explain()
    assert packed == stagings * (256 * -(-8 * groups_of(graph.num_vertices) // 256) + plan.windows.slot_bytes)
    buffers.clear()
    registered = sys.modules["cupy"].cuda.runtime.registered
    assert len(registered) == 2 + stagings + bool(stagings)
    gc.disable()  # nothing is left to the garbage collector
    try:
        engine.close()
        assert not registered
        assert not streamer.slots
        assert not (streamer.packing and streamer.packing.stagings)
    finally:
        gc.enable()


def packed_row(streamer, offsets, row):
    """Pack a row of :func:`four_rows`."""
    return streamer.packing.pack(["out_neighbours"], (0, 4), offsets, np.arange(4) == row)


def row_of(staging):
    """Return the row that has arrived on the device."""
    return staging.device.get()[256 : 256 + 4 * 10].view(np.uint32)


@pytest.mark.parametrize("waits", [True, False])
def test_packed_rows_are_not_overwritten_before_they_are_copied(waits, run_scaph, monkeypatch):
    """The emulated copy is made when it is waited for, and reads its source then: without the wait of the host, the
    third row is in the place of the first."""
    graph = four_rows()
    engine = run_scaph(trace(BFS(sources="0")), graph, 1, window_mb=40 * 4 / 1e6, values="low")
    streamer, offsets = engine.executor.run_in_progress.launcher.place, graph.csr.offsets
    monkeypatch.setattr(Stream, "wait_event", lambda *_: None)  # no kernel asks for a copy
    if not waits:
        monkeypatch.setattr(Event, "synchronize", lambda *_: None)
    stagings = [packed_row(streamer, offsets, row).staging for row in range(3)]
    assert stagings[0] is stagings[2] is not stagings[1]
    copied = [int(staging.host.host[256:260].view(np.uint32)[0]) for staging in stagings[:2]]
    assert copied == [2, 0], "the rows 2 and 1"
    if waits:
        assert (row_of(stagings[0]) == 1).all(), "row 0 arrived before row 2 was packed"
        return
    for one in list(streamer.stream.pending):
        one()
    assert (row_of(stagings[0]) == 2).all(), "row 0 was lost"


def test_copies_wait_for_kernels_and_kernels_for_copies(run_scaph, monkeypatch):
    """Packed rows are not copied over those that are still read, nor read before they are there."""
    graph, waited, wait = four_rows(), [], Stream.wait_event
    engine = run_scaph(trace(BFS(sources="0")), graph, 1, window_mb=40 * 4 / 1e6, values="low")
    streamer, offsets = engine.executor.run_in_progress.launcher.place, graph.csr.offsets

    def noted(stream, event):
        waited.append((stream is streamer.stream, event))
        wait(stream, event)

    monkeypatch.setattr(Stream, "wait_event", noted)
    recorded, record = [], Event.record
    monkeypatch.setattr(Event, "record", lambda event, *to: (recorded.append(event), record(event, *to)))
    packed = packed_row(streamer, offsets, 0)
    streamer.packing.place(packed)
    streamer.packing.release(packed)
    staging = packed.staging
    assert waited == [(True, staging.used), (False, staging.copied)]
    assert recorded == [staging.copied, staging.used]
    assert (row_of(staging) == 1).all()
    np.testing.assert_array_equal(streamer.packing.offsets.get(), [0, 10, 10, 10, 10])


@pytest.mark.parametrize("first", [0, 3, 40])
@pytest.mark.parametrize("count", [0, 1, 31, 32, 33, 200])
def test_rows_that_are_not_packed_are_empty(first, count, run_scaph):
    """The offsets of packed rows are sums of the degrees of those before them, within the vertices that were packed."""
    rng = np.random.default_rng(count)
    degrees = rng.integers(0, 5, 300)
    graph = rows_of(*degrees)
    engine = run_scaph(program("bfs"), graph, 1, window_mb=1.0, values="low")
    streamer, last = engine.executor.run_in_progress.launcher.place, first + count
    flags = rng.random(300) < 0.4
    packed = streamer.packing.pack(["out_neighbours"], (first, last), graph.csr.offsets, flags)
    streamer.packing.offsets.fill(77)
    streamer.packing.place(packed)
    found = streamer.packing.offsets.get()
    expected = np.concatenate([[0], np.cumsum((degrees * flags)[first:last])])
    if count:
        np.testing.assert_array_equal(found[first : last + 1], expected)
    assert (np.delete(found, np.s_[first : last + 1]) == 77).all()
    ends = graph.csr.offsets
    rows = [graph.csr.neighbours[ends[v] : ends[v + 1]] for v in range(first, last) if flags[v]]
    at = packed.places["out_neighbours"]
    there = packed.staging.device.get()[at : at + 4 * expected[-1]].view(np.uint32)
    np.testing.assert_array_equal(there, np.concatenate([np.zeros(0, np.uint32), *rows]))


def test_the_arrays_of_packed_rows_are_apart(run_scaph, monkeypatch):
    """A lane without a feature may read SLACK bytes after the last row of an array; they are copied with the others."""
    graph = rows_of(*[10] * 4)
    engine, copied = run_scaph(program("sssp"), graph, 1, window_mb=1.0, values="low"), []
    packing = engine.executor.streamer.packing
    engine.reset(ALGORITHMS["sssp"].inputs(graph, 1))
    names = SubgraphCall(engine.executor.streamer, push_of(engine)).names
    monkeypatch.setattr(sys.modules["cupy"].cuda.runtime, "memcpyAsync", lambda *given: copied.append(given[2]))
    packed = packing.pack(names, (0, 4), graph.csr.offsets, np.ones(4, bool))
    size = aligned(4 * 40 + SLACK)
    assert packed.places == {names[0]: 256, names[1]: 256 + size}
    assert copied == [256 + 2 * size]
    assert packing.stagings[0].device.nbytes >= copied[0]


GROUPED = [  # the edges of packed subgraphs by number; the groups; buffers have room for 10
    ({0: 4, 1: 6}, [[0, 1]]), ({0: 4, 1: 7}, [[0], [1]]), ({0: 1, 3: 2, 8: 0}, [[0, 3, 8]]),
    ({0: 10, 1: 0, 2: 1}, [[0, 1], [2]]), ({0: 12, 1: 1}, [[0], [1]]), ({0: 9, 1: 2, 2: 8}, [[0], [1, 2]]), ({}, []),
]  # fmt: skip


@pytest.mark.parametrize(("edges", "groups"), GROUPED)
def test_subgraphs_are_packed_together_if_they_fit(edges, groups):
    counts = [(1, edges.get(number, 99), 1) for number in range(9)]
    windows = SimpleNamespace(edges=10)
    call = SimpleNamespace(streamer=SimpleNamespace(plan=SimpleNamespace(windows=windows)))
    assert SubgraphCall.packed_groups(call, sorted(edges), counts) == groups


def test_flags_between_packed_subgraphs_are_false(run_scaph):
    """Four subgraphs of two vertices: one that is read otherwise, and one that is wholly active, without its flags."""
    graph = rows_of(*[10] * 8)
    engine = run_scaph(program("bfs"), graph, 1, window_mb=20 * 4 / 1e6, values="low")
    engine.reset(ALGORITHMS["bfs"].inputs(graph, 1))
    push = push_of(engine)
    call = SubgraphCall(engine.executor.streamer, push)
    push.arguments[call.kernel.visits.flags][:8] = np.array([1, 0, 1, 1, 1, 1, 0, 1], bool)
    flags = engine.executor.streamer.flags
    for numbers, expected in (([0, 2, 3], [1, 0, 0, 0, 1, 1, 0, 1]), ([1, 2], [1, 1, 1, 1]), ([], [])):
        flags[:] = True
        call.fetch_flags(numbers, [(1, 10, 1), (2, 20, 1), (2, 20, 1), (1, 10, 1)])
        low = 2 * numbers[0] if numbers else 0
        np.testing.assert_array_equal(flags[low : low + len(expected)], np.array(expected, bool))


def test_one_copy_and_one_launch_for_the_packed_rows_of_several_subgraphs(run_scaph, monkeypatch):
    graph, search, started = rows_of(*[10] * 100), ALGORITHMS["bfs"], []
    engine = run_scaph(program("bfs"), graph, 1, values="low", window_mb=0.0004)
    engine.reset(search.inputs(graph, 1))
    call, pack = SubgraphCall(engine.executor.streamer, push_of(engine)), PackedRows.pack
    monkeypatch.setattr(Call, "start", lambda call: started.append(call.bounds))
    packed = []

    def noted(rows, names, vertices, *given):
        packed.append(vertices)
        return pack(rows, names, vertices, *given)

    monkeypatch.setattr(PackedRows, "pack", noted)
    monkeypatch.setattr(SubgraphCall, "counts", lambda _: [(int(n != 6), 25 * (n != 6), 2) for n in range(10)])
    call.start()
    assert len(call.parts) == 10
    assert started == packed == [(0, 40), (40, 90), (90, 100)], "four times 25 edges fit, also around the seventh"


# refusals -------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("options", "name", "reason"),
    [
        ({}, "belief_propagation", "updates an edge property"),
        ({"window_mb": 0.001}, "sssp", "give window_mb=1"),
        ({"rounds": 2}, "pagerank", "is a sum, of which every message counts once; give rounds=1"),
    ],
)
def test_what_cannot_run_is_refused_with_the_reason(options, name, reason, monkeypatch):
    graph, _ = problem(name, "picture" if name.startswith("belief") else "hub", 3)
    monkeypatch.setitem(SCHEDULES, "scaph", ("scaph", options))
    answer = cuda_engine("scaph").supports(program(name), graph, 3, Device("cuda"))
    assert isinstance(answer, No)
    assert reason in answer.reason
