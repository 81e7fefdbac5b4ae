"""Packed ids of streamed edges on an emulated device: answers, copies, memory, and the waits that are due."""

from __future__ import annotations

import gc
import sys
from dataclasses import replace

import numpy as np
import pytest

from engines.onyx.cuda_engine import OnyxCudaEngine
from harness.contract import No, Phases
from harness.emulation.arrays import Stream
from harness.graph import Graph
from harness.graph.generators import grid, rmat
from harness.language import trace
from harness.language.reference import ReferenceRun
from harness.language.validation import compare
from harness.lowering.cuda import executor as cuda
from harness.lowering.cuda.windows import SLACK
from tests.emulation.device import emulate
from tests.emulation.test_streamed_edges import hubs_and_middle
from tests.engines.cuda_schedules import SCHEDULES, cuda_engine
from tests.engines.problems import ALGORITHMS, problem, program
from tests.engines.programs import inputs_for
from tests.engines.test_cuda import algorithms, check_every_superstep

WAYS = {
    "pull": ("onyx", {"change_driven": False, "balance": "warp", "direction": "pull"}),
    "push": ("onyx", {"change_driven": False, "balance": "warp", "direction": "push"}),
    "push by edges": ("onyx", {"change_driven": False, "balance": "edge", "direction": "push"}),
    "changes": ("onyx", {"change_driven": True, "direction": "push", "balance": "warp"}),
    "LBASE": ("scaph", {"values": "low", "low": "stream"}),
    "HVSP": ("scaph", {"values": "high", "rounds": 4}),
    "zigzag": ("scaph", {"values": "high", "order": "zigzag"}),
}
# Sizes of windows that end within blocks of 32 ids.
CASES = [
    (name, way, (1, 3, 32)[(i + j) % 3], (0.0011, 0.0023, 0.004)[(i + 2 * j) % 3])
    for i, name in enumerate(("sssp", "pagerank", "components"))
    for j, way in enumerate(WAYS)
    if (name, way) != ("pagerank", "HVSP")  # sums run in step
]


def engine_for(monkeypatch, way, window_mb, codes="packed", **more):
    """Return a fresh engine whose edges are streamed."""
    kind, options = WAYS[way]
    chosen = {**options, "edges": "streamed", "window_mb": window_mb, "codes": codes, **more}
    monkeypatch.setitem(SCHEDULES, way, (kind, {"block_size": 64, **chosen} if kind == "onyx" else chosen))
    return cuda_engine(way)


def check(way, traced, graph, inputs, features, device, steps=5):
    """Compare supersteps with the reference; a run out of step is compared when it has settled."""
    if way != "HVSP":
        check_every_superstep(way, traced, graph, inputs, features, device, steps)
        return
    engine, run = cuda_engine(way), ReferenceRun(traced, graph, features)
    engine.prepare(traced, graph, features, device, Phases())
    for one in (engine, run):
        one.reset(inputs)
        one.run(200)
    found, wanted = ({name: one.values(name) for name in traced.outputs} for one in (engine, run))
    assert compare(traced, found, wanted).ok
    engine.close()


@pytest.mark.short_run(rows=3)
@pytest.mark.parametrize(("name", "way", "features", "size"), CASES)
def test_every_superstep_is_right(name, way, features, size, emulated, monkeypatch):
    algorithm = algorithms()[name]
    graph = algorithm.prepare_graph(rmat(scale=6, edge_factor=8, seed=features, max_weight=4))
    engine_for(monkeypatch, way, size)
    check(way, trace(algorithm), graph, algorithm.inputs(graph, features), features, emulated)


@pytest.mark.short_run(rows=4)
@pytest.mark.parametrize("way", ["pull", "LBASE"])
@pytest.mark.parametrize("graph_name", ["hub", "scattered", "no edges", "one vertex", "one loop", "chain"])
def test_rows_of_all_lengths(graph_name, way, emulated, monkeypatch):
    """A hub fills a window exactly, many rows are empty, and there may be no edge or a single vertex."""
    graph, inputs = problem("sssp", graph_name, 3)
    engine_for(monkeypatch, way, 3000 * 8e-6 if graph_name == "hub" else 0.0004)
    check(way, program("sssp"), graph, inputs, 3, emulated)


def test_no_kernel_races(monkeypatch):
    device = emulate(monkeypatch, racing=True)
    graph = rmat(scale=6, edge_factor=6, seed=1)
    engine_for(monkeypatch, "pull", 0.0011)
    check("pull", program("pagerank"), graph, ALGORITHMS["pagerank"].inputs(graph, 3), 3, device, 2)


def test_the_plan_prices_the_most_and_allocates_no_more(emulated, monkeypatch):
    required = []
    monkeypatch.setattr(cuda, "require_memory", required.append)
    graph = rmat(scale=8, edge_factor=8, seed=1, max_weight=4)
    engine = engine_for(monkeypatch, "LBASE", 0.004)
    traced = program("sssp")
    engine.prepare(traced, graph, 1, emulated, Phases())
    engine.reset(ALGORITHMS["sssp"].inputs(graph, 1))
    engine.run(3)
    plan, streamer = engine.planned, engine.executor.run_in_progress.launcher.place
    assert plan.windows.packed == ("out_neighbours",)
    others = sum(buffer.nbytes for buffer in plan.buffers if not buffer.of_edges)
    rooms = sum(one.nbytes for one in (*streamer.slots, *streamer.packed.rooms))
    assert plan.bytes_needed == others + rooms == required[-1]
    ids = streamer.arrays["out_neighbours"]
    assert 0 < ids.nbytes <= plan.windows.packed_bytes < 4 * graph.num_edges
    assert plan.host_bytes == 4 * graph.num_edges + plan.windows.packed_bytes, "weights are plain"
    assert f"packed, and unpacked on the device: out_neighbours, at most {plan.windows.packed_bytes:,}" in (
        engine.explain()
    )
    registered = sys.modules["cupy"].cuda.runtime.registered
    assert len(registered) == 3, "weights, heads and words"
    gc.disable()  # nothing is left to the garbage collector
    try:
        engine.close()
        del ids
        assert not registered
        assert not streamer.packed.rooms
    finally:
        gc.enable()


@pytest.mark.short_run(rows=2)
@pytest.mark.parametrize("way", ["pull", "LBASE"])
def test_packed_bytes_are_counted(way, emulated, monkeypatch):
    """A superstep of PageRank copies all blocks once, and those with edges of two windows twice."""
    graph = grid(rows=24, columns=24)
    copied = {}
    for codes in ("plain", "packed"):
        engine = engine_for(monkeypatch, way, 0.004, codes)
        engine.prepare(program("pagerank"), graph, 1, emulated, Phases())
        engine.reset(ALGORITHMS["pagerank"].inputs(graph, 1))
        found = engine.run(1).transfers
        assert found.visited == 4 * graph.num_edges
        copied[codes] = found.moved["copied"]
        ids = engine.executor.arrays.get("in_neighbours" if way == "pull" else "out_neighbours")
        nbytes = ids.nbytes
        engine.close()
    assert copied["plain"] >= 4 * graph.num_edges
    assert nbytes <= copied["packed"] < 1.2 * nbytes
    assert copied["packed"] < 0.6 * copied["plain"]


def test_kernels_wait_until_ids_are_unpacked(emulated, monkeypatch):
    """The emulated copy is made when a stream waits for it: ids are unpacked from what has been copied by then."""
    graph = rmat(scale=8, edge_factor=8, seed=3)
    engine = engine_for(monkeypatch, "pull", 0.002)
    engine.prepare(program("pagerank"), graph, 1, emulated, Phases())
    streamer, (begin, last) = engine.executor.run_in_progress.launcher.place, (128, 197)
    values = graph.csc.neighbours[begin:last]

    def found(slot):
        return streamer.slots[slot].get()[: values.nbytes].view(values.dtype)

    names = ["in_neighbours"]
    with monkeypatch.context() as patched:
        patched.setattr(Stream, "wait_event", lambda *_: None)
        streamer.fill(0, names, begin, last)
        assert not np.array_equal(found(0), values)
    for number in range(2):
        streamer.fill(number, names, begin, last)
        streamer.wait_for(number)
        np.testing.assert_array_equal(found(number), values)
        assert (streamer.slots[number].get()[4 * (last - begin) :][:SLACK] == 0xA5).all(), "no id behind the last one"
        streamer.free(number)
    assert streamer.ready(0) is streamer.packed.unpacked[0]


@pytest.mark.parametrize("first", [64, 70, 95, 96, 127])
def test_windows_begin_anywhere(first, emulated, monkeypatch):
    graph = rmat(scale=8, edge_factor=8, seed=3)
    engine = engine_for(monkeypatch, "pull", 0.002)
    engine.prepare(program("pagerank"), graph, 1, emulated, Phases())
    streamer = engine.executor.run_in_progress.launcher.place
    for last in (first + 1, first + 2, first + 57):
        number = streamer.bring(["in_neighbours"], first, last)
        streamer.wait_for(number)
        pointer, slot = (
            int(streamer.pointers(number, ["in_neighbours"], first, last)["in_neighbours"]),
            streamer.slots[number],
        )
        at = (pointer + 4 * first - slot.data.ptr) % (1 << 64)
        ids = slot.get()[at : at + 4 * (last - first)].view(np.uint32)
        np.testing.assert_array_equal(ids, graph.csc.neighbours[first:last])
        streamer.free(number)


def test_owners_of_long_rows_wait_for_unpacked_ids(emulated, monkeypatch):
    """Kernels of hubs run on streams of their own, beside those of the other vertices."""
    lists = replace(OnyxCudaEngine.policy, middle_edges=8, middle_share=0)
    monkeypatch.setattr(OnyxCudaEngine, "policy", lists)
    graph, traced = hubs_and_middle(), program("pagerank")
    outcomes = []
    for codes in ("plain", "packed"):
        engine = engine_for(monkeypatch, "pull", 4 * 2500e-6, codes)
        engine.prepare(traced, graph, 3, emulated, Phases())
        engine.reset(inputs_for(traced, graph, 3))
        engine.run(4)
        assert {"hubs", "middle"} <= {buffer.name for buffer in engine.planned.buffers}
        outcomes.append([engine.values(name) for name in traced.outputs])
        engine.close()
    for plain, packed in zip(*outcomes, strict=True):
        np.testing.assert_array_equal(plain, packed)


def test_ids_that_cannot_be_packed_are_refused(monkeypatch):
    graph, _ = problem("pagerank", "rmat", 1)
    large = replace(graph.facts, num_vertices=1 << 30, num_edges=1 << 33)
    answer = engine_for(monkeypatch, "LBASE", 32.0).plan(program("pagerank"), large, 1)
    assert isinstance(answer, No)
    assert "codes=packed has positions of 32 bits" in answer.reason


def test_stores_of_packed_and_plain_ids_are_not_shared(emulated, monkeypatch):
    graph = Graph.from_edges(np.arange(40), (np.arange(40) + 1) % 41, num_vertices=41, name="ring")
    stores = []
    for codes in ("plain", "packed"):
        engine = engine_for(monkeypatch, "pull", 0.001, codes)
        engine.prepare(program("pagerank"), graph, 1, emulated, Phases())
        stores.append((engine, engine.executor.store))
    assert stores[0][1] is not stores[1][1]


@pytest.mark.short_run(rows=1, always="packed-pull")
@pytest.mark.parametrize("way", ["pull", "changes"])
@pytest.mark.parametrize("codes", ["plain", "packed"])
def test_every_run_copies_the_same(codes, way, emulated, monkeypatch):
    """There are more windows than slots, and earlier runs have ended with many active vertices or with few."""
    vertices = np.arange(500)
    weights = np.ones(len(vertices) - 1, np.float32)
    graph = Graph.from_edges(vertices[:-1], vertices[1:], num_vertices=500, weights=weights, name="chain")
    engine, copied = engine_for(monkeypatch, way, 0.0002, codes), []
    engine.prepare(program("sssp"), graph, 1, emulated, Phases())
    for supersteps in (3, 1, 3, 5, 3, 1):
        engine.reset(ALGORITHMS["sssp"].inputs(graph, 1))
        found = engine.run(supersteps)
        assert found.transfers.visited >= 4 * sum(one.edges for one in found.supersteps)
        copied.append((supersteps, found.transfers.visited, dict(found.transfers.moved)))
    assert copied[0] == copied[2] == copied[4]
    assert copied[1] == copied[5]
    assert copied[1][1] < copied[0][1] < copied[3][1]
    engine.close()
