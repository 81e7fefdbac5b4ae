"""The first of mapped edges on the emulated device as well: same answers, half of the requests, exact memory."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest

from harness.contract import Device, No, Phases, ScheduleError
from harness.emulation.arrays import Event, Stream
from harness.graph.generators import grid
from harness.language import Inputs
from harness.lowering.cuda import cached_edges
from harness.lowering.cuda import executor as cuda
from harness.lowering.cuda.cached_edges import Prefixed, Together
from harness.lowering.cuda.calls import Call
from harness.lowering.cuda.edge_places import MappedEdges
from harness.lowering.cuda.prefix import Prefix
from harness.lowering.cuda.windows import ALIGNED_BYTES, SLACK
from tests.emulation.device import THREADS
from tests.engines.cuda_schedules import SCHEDULES, cuda_engine, plan_of
from tests.engines.problems import ALGORITHMS, new_engine, problem, program, scattered
from tests.engines.programs import edges_and_loops, inputs_for, program_named, two_sides

FEATURES, SUPERSTEPS = 3, 4
CASES = {
    "pull": ("onyx", {"change_driven": False, "balance": "warp", "block_size": THREADS, "edges": "mapped"}),
    "push": ("onyx", {"change_driven": False, "direction": "push", "balance": "warp", "block_size": THREADS,
                      "edges": "mapped"}),
    "push edges": ("onyx", {"change_driven": False, "direction": "push", "balance": "edge", "block_size": THREADS,
                            "edges": "mapped"}),
    "changes": ("onyx", {"change_driven": True, "balance": "warp", "block_size": THREADS, "edges": "mapped"}),
    "emogi": ("emogi", {}), "naive": ("emogi", {"access": "naive"}), "tiled": ("emogi", {"access": "tiled"}),
}  # fmt: skip


@pytest.fixture
def engine_for(monkeypatch):
    """Return a function that makes the engine of a case with a cache of some MB, or without one."""

    def made(case, cache_mb=None, **more):
        kind, options = CASES[case]
        monkeypatch.setitem(SCHEDULES, "cached", (kind, {**options, **more, "cache_mb": cache_mb}))
        return cuda_engine("cached")

    return made


def answers(engine, traced, graph, device, inputs):
    """Return the outputs after some supersteps and the statistics; run twice, on the same inputs."""
    engine.prepare(traced, graph, FEATURES, device, Phases())
    for _ in range(2):
        engine.reset(inputs)
        statistics = engine.run(SUPERSTEPS)
    return {name: engine.values(name) for name in traced.outputs}, statistics


def cache_of(engine, traced, graph, edges):
    """Return the MB of a cache with some edges."""
    rows = Prefix.of(10**9, graph.facts, plan_of(engine, traced, graph, FEATURES).buffers).row_bytes
    return (edges * sum(row for _, row in rows) + len(rows) * (SLACK + ALIGNED_BYTES)) / 1e6


@pytest.mark.short_run(rows=3, always="emogi-shortest_paths-50")
@pytest.mark.parametrize("edges", [5, 50, 104])  # of 104
@pytest.mark.parametrize("name", ["shortest_paths", "aggregate_rewritten"])
@pytest.mark.parametrize("case", CASES)
def test_cached_edges_give_the_same_answers(case, name, edges, emulated, engine_for, monkeypatch):
    required = []
    monkeypatch.setattr(cuda, "require_memory", required.append)
    traced, graph = program_named(name), edges_and_loops.__wrapped__()  # whose stores no other test uses
    inputs = inputs_for(traced, graph, FEATURES)
    plain = engine_for(case)
    cache_mb = cache_of(plain, traced, graph, edges)
    cached = engine_for(case, cache_mb)
    wanted, before = answers(plain, traced, graph, emulated, inputs)
    plain.close()
    found, after = answers(cached, traced, graph, emulated, inputs)
    assert after == before
    for output, values in wanted.items():
        np.testing.assert_allclose(found[output], values, rtol=1e-6)  # a push adds in another order
    plan = cached.planned
    assert plan.prefix.edges == edges
    assert plan.bytes_needed == plain.planned.bytes_needed + plan.prefix.nbytes
    assert plan.prefix.nbytes <= round(cache_mb * 1e6)
    assert plan.host_bytes == plain.planned.host_bytes
    assert required == [plain.planned.bytes_needed, plan.bytes_needed]
    place = cached.executor.run_in_progress.launcher.place
    assert isinstance(place, Prefixed)
    assert sum(array.nbytes for array in place.near.values()) == plan.prefix.nbytes
    assert f"the first {plan.prefix.edges:,} of {graph.num_edges:,} edges" in cached.explain()
    assert cached.resolved_options()["cache_mb"] == cache_mb
    cached.close()
    assert not place.near


def test_edges_beyond_the_cache_only_are_read_from_the_host(emulated, engine_for, monkeypatch):
    """Overwrite what the other memory has of each part: answers stay the same."""
    traced, graph = program("pagerank"), scattered()
    inputs = ALGORITHMS["pagerank"].inputs(graph, FEATURES)
    wanted, _ = answers(engine_for("emogi"), traced, graph, emulated, inputs)
    engine = engine_for("emogi", 0.002)
    answers(engine, traced, graph, emulated, inputs)
    edges = engine.planned.prefix.edges
    whole = graph.csr.offsets[np.searchsorted(graph.csr.offsets, edges, side="right") - 1]  # of vertices in the cache
    assert 0 < whole <= edges < graph.num_edges
    far = engine.executor.arrays["out_neighbours"]
    far[: int(whole)].set(np.zeros(int(whole), np.uint32))
    monkeypatch.setattr(Prefixed, "refresh", lambda *_: None)
    engine.reset(inputs)
    engine.run(SUPERSTEPS)
    np.testing.assert_allclose(engine.values("rank"), wanted["rank"], rtol=1e-6)


def test_requests_for_cached_edges_are_none_over_the_link(emulated, engine_for):
    traced, graph = program("feature_diffusion"), scattered()
    inputs = ALGORITHMS["feature_diffusion"].inputs(graph, FEATURES)
    plain, half, whole = (
        answers(engine_for("emogi", cache_mb, counters=True), traced, graph, emulated, inputs)[1].transfers
        for cache_mb in (None, 0.004, 1.0)
    )
    assert plain.visited == half.visited == whole.visited > 0
    assert 0 < half.moved["zero_copy"] < plain.moved["zero_copy"]
    assert whole.moved == {"zero_copy": 0}


def test_other_edge_inputs_are_copied_again_and_equal_ones_are_not(emulated, engine_for, monkeypatch):
    traced, graph = program("feature_diffusion"), scattered()
    inputs = ALGORITHMS["feature_diffusion"].inputs(graph, FEATURES)
    runtime, copies = sys.modules["cupy"].cuda.runtime, []
    copy = runtime.memcpyAsync

    def counted(*given):
        copies.append(given)
        copy(*given)

    monkeypatch.setattr(runtime, "memcpyAsync", counted)
    engine = engine_for("emogi", 0.004)
    first, _ = answers(engine, traced, graph, emulated, inputs)
    assert len(copies) == 2  # neighbours and coefficients, once in two resets
    doubled = Inputs({**inputs.properties, "coefficient": 2 * inputs.properties["coefficient"]}, inputs.parameters)
    engine.reset(doubled)
    engine.run(SUPERSTEPS)
    assert len(copies) == 3
    np.testing.assert_allclose(engine.values("x"), 2.0**SUPERSTEPS * first["x"], rtol=1e-5)


def test_parts_of_a_call_are_the_vertices_with_cached_edges_and_the_others(emulated, engine_for):
    traced, graph = program("pagerank"), scattered()
    engine = engine_for("emogi", 0.002)
    answers(engine, traced, graph, emulated, ALGORITHMS["pagerank"].inputs(graph, FEATURES))
    run = engine.executor.run_in_progress
    place, vertices = run.launcher.place, graph.num_vertices
    call = next(one for one in run.launcher.calls(0, run.past) if "out_neighbours" in one.arguments)
    middle = int(np.searchsorted(graph.csr.offsets, engine.planned.prefix.edges, side="right")) - 1
    assert 5 < middle < vertices - 5
    for first, last in ((0, vertices), (0, middle - 1), (middle, vertices), (middle + 3, vertices), (2, middle + 1)):
        cached, others = (first, min(middle, last)), (max(first, middle), last)
        parts = {one.bounds: one.arguments["out_neighbours"] for one in place.parts(call.between(first, last))}
        assert list(parts) == [bounds for bounds in (cached, others) if bounds[0] < bounds[1]]
        assert all((array is place.near["out_neighbours"]) == (bounds == cached) for bounds, array in parts.items())
    assert [one.bounds for one in place.parts(call.between(middle, middle))] == [(middle, middle)]


def test_both_calls_follow_earlier_work_and_are_followed_by_later_work(emulated, monkeypatch):
    cuda, noted = sys.modules["cupy"].cuda, []
    current, beside = Stream(), Stream()
    monkeypatch.setattr(cached_edges, "with_room", lambda call: call)
    monkeypatch.setattr(cuda, "get_current_stream", lambda: current)
    together = Together(*(SimpleNamespace(start=partial(noted.append, name)) for name in ("cached", "others")), beside)
    names = {current: "run", beside: "beside", together.begun: "begun", together.ended: "ended"}
    for kind, name, text in (
        (Event, "record", "{1} records {0}"), (Stream, "wait_event", "{0} waits {1}"), (Stream, "__enter__", "on {0}"),
        (Stream, "__exit__", "on run"),
    ):  # fmt: skip
        monkeypatch.setattr(
            kind, name, lambda *given, text=text: noted.append(text.format(*(names.get(one) for one in given)))
        )
    together.start()
    begin, own = ["run records begun", "beside waits begun"], ["on beside", "others", "beside records ended", "on run"]
    assert noted == [*begin, *own, "cached", "run waits ended"]


def test_calls_that_read_the_link_begin_first_and_leave_room_for_others(emulated, engine_for, monkeypatch):
    """Grids have as many blocks as rows of 256 vertices, unless they read the link; all edges are still read."""
    traced, graph, started = program("pagerank"), grid(rows=70, columns=80), []
    inputs = ALGORITHMS["pagerank"].inputs(graph, FEATURES)
    wanted, _ = answers(engine_for("tiled"), traced, graph, emulated, inputs)
    monkeypatch.setattr(cached_edges, "LINK_BLOCKS", 2)
    start = Call.start
    monkeypatch.setattr(Call, "start", lambda call: (started.append(call), start(call)))
    engine = engine_for("tiled", 0.03)
    found, _ = answers(engine, traced, graph, emulated, inputs)
    np.testing.assert_allclose(found["rank"], wanted["rank"], rtol=1e-5)
    pairs = [(one, other) for one, other in pairwise(started)
             if one.launch and other.launch and one.launch.kernel.name == other.launch.kernel.name]  # fmt: skip
    near = engine.executor.run_in_progress.launcher.place.near["out_neighbours"]
    assert pairs
    for link, cached in pairs:
        assert link.arguments["out_neighbours"] is not near
        assert cached.arguments["out_neighbours"] is near
        assert link.grid == (2 * link.multiprocessors,)
        assert cached.grid[0] > 2 * link.multiprocessors
    few = replace(pairs[0][1], launch=replace(pairs[0][1].launch, most="all"))
    assert cached_edges.with_room(few) is few, "its blocks do not repeat"


# without a device -----------------------------------------------------------------------------------------------------
def test_the_cache_has_as_many_edges_as_fit_with_all_their_arrays(engine_for):
    traced, graph = program_named("shortest_paths"), edges_and_loops()
    plan = plan_of(engine_for("emogi", 0.002), traced, graph, FEATURES)
    rows = {buffer.name: 4 for buffer in plan.buffers if buffer.of_edges}
    assert dict(plan.prefix.row_bytes) == rows
    more = Prefix(plan.prefix.edges + 200, plan.prefix.row_bytes)
    assert plan.prefix.nbytes <= 2000 < more.nbytes
    assert Prefix.of(0, graph.facts, plan.buffers) == Prefix()
    assert plan_of(engine_for("emogi"), traced, graph, FEATURES).prefix.nbytes == 0


def test_what_cannot_be_cached_is_refused_by_name(engine_for):
    traced, graph = program_named("shortest_paths"), edges_and_loops()
    for edges in (None, "resident", "managed", "streamed"):
        with pytest.raises(ScheduleError, match="cache_mb=2 applies only to edges=mapped"):
            new_engine("onyx", {"edges": edges, "cache_mb": 2})
    with pytest.raises(ScheduleError, match="cache_mb=2 applies only to edges=mapped"):
        new_engine("scaph", {"cache_mb": 2})
    for kind, options, reason in (
        ("onyx", {"edges": "mapped", "persistent": True}, "one launch runs all supersteps"),
        ("onyx", {"edges": "mapped", "change_driven": False, "direction": "pull", "balance": "edge"}, "consecutive"),
        ("gunrock", {"edges": "mapped"}, "does not work on consecutive vertices"),
        ("simdx", {"edges": "mapped"}, "cache_mb: "),
        ("tigr", {"edges": "mapped"}, "does not work on consecutive vertices"),
        ("emogi", {"frontier": "list"}, "cache_mb caches edges of consecutive vertices"),
        ("emogi", {"cache_mb": 1e-5}, "cache_mb is too small for an edge"),
    ):
        answer = new_engine(kind, {"cache_mb": 2, **options}).supports(traced, graph, FEATURES, Device("cuda"))
        assert isinstance(answer, No), (kind, options)
        assert reason in answer.reason, answer.reason
    for kind in ("onyx", "gunrock", "tigr", "simdx", "emogi"):
        options = {"cache_mb": 2.0, **({} if kind == "emogi" else {"edges": "mapped"})}
        answer = new_engine(kind, options).supports(traced, graph, FEATURES, Device(threads=1))
        assert isinstance(answer, No)
        assert "cache_mb has no meaning on the CPU" in answer.reason


def test_reverse_edges_are_refused(engine_for):
    answer = engine_for("pull", 2.0).plan(program_named("beliefs"), two_sides().facts, FEATURES)
    assert isinstance(answer, No)
    assert "reads reverse edges" in answer.reason


def test_a_plan_without_a_cache_has_the_place_itself():
    graph, _ = problem("pagerank", "scattered", 1)
    plan = plan_of(cuda_engine("emogi"), program("pagerank"), graph, 1)
    place = MappedEdges()
    assert place.replayer(plan, None, {}, {}) is place
