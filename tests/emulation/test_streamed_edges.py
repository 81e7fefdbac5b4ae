"""Edge arrays that are copied to the device window by window: same answers, few copies, and the waits that are due."""

from __future__ import annotations

import gc
import sys
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from engines.onyx.cuda_engine import OnyxCudaEngine
from harness.algorithms.sssp import SSSP
from harness.contract import No, Phases
from harness.edge_places import Place
from harness.emulation.arrays import Stream
from harness.graph import Graph
from harness.language import trace
from harness.lowering.cuda import executor as cuda
from harness.lowering.cuda.edge_places import PLACES
from harness.lowering.cuda.streamed import WindowedCall
from harness.lowering.cuda.windows import READS_REVERSE, SLACK, unstreamable
from tests.engines.cuda_schedules import SCHEDULES, cuda_engine
from tests.engines.problems import problem, program
from tests.engines.programs import edges_and_loops, inputs_for, program_named, traced, two_sides
from tests.engines.test_supports import reversed_edges

FEATURES, SUPERSTEPS, WINDOW_MB = 3, 4, 0.0003
# Between them they read weights by either order and rows, drive changes, and alternate sides.
CASES = [
    ("pull", "aggregate_rewritten"),
    ("push-edges", "shortest_paths"),
    ("changes-pull", "sides"),
    ("changes-push", "shortest_paths"),
]


@pytest.fixture
def streamed(monkeypatch):
    """Return a function that makes an engine whose edges are streamed."""

    def made(schedule, window_mb=WINDOW_MB):
        kind, options = SCHEDULES[schedule]
        chosen = {**options, "edges": "streamed", "window_mb": window_mb}
        monkeypatch.setitem(SCHEDULES, schedule, (kind, chosen))
        engine = cuda_engine(schedule)
        monkeypatch.setitem(SCHEDULES, schedule, (kind, options))
        return engine

    return made


def answers(engine, traced, graph, device, inputs=None):
    """Return the outputs after some supersteps, and the statistics, without closing the engine."""
    engine.prepare(traced, graph, FEATURES, device, Phases())
    for _ in range(2):
        engine.reset(inputs or inputs_for(traced, graph, FEATURES))
        statistics = engine.run(SUPERSTEPS)
    return {name: engine.values(name) for name in traced.outputs}, statistics


@pytest.mark.short_run(rows=2)
@pytest.mark.parametrize(("schedule", "name"), CASES)
def test_streamed_edges_give_the_answers_of_resident_ones(schedule, name, emulated, streamed, monkeypatch):
    required = []
    monkeypatch.setattr(cuda, "require_memory", required.append)
    graph = (two_sides if name == "sides" else edges_and_loops).__wrapped__()  # whose stores no other test uses
    traced = program_named(name)
    resident = cuda_engine(schedule)
    wanted, statistics = answers(resident, traced, graph, emulated)
    resident.close()
    engine = streamed(schedule)
    found, windowed = answers(engine, traced, graph, emulated)
    for output, values in wanted.items():
        np.testing.assert_array_equal(found[output], values)
    assert (windowed.settled, windowed.supersteps) == (statistics.settled, statistics.supersteps)
    assert statistics.transfers is None
    plan, streamer = engine.planned, engine.executor.run_in_progress.launcher.place
    of_edges = {buffer.name: buffer.nbytes for buffer in plan.buffers if buffer.of_edges}
    assert plan.host_bytes == sum(of_edges.values()) >= 4 * graph.num_edges
    others = sum(buffer.nbytes for buffer in plan.buffers if not buffer.of_edges)
    assert plan.bytes_needed == others + sum(slot.nbytes for slot in streamer.slots) == required[-1]
    assert streamer.copied > plan.host_bytes
    assert windowed.transfers.moved == {"copied": streamer.copied // 2}, "the second of two equal runs"
    assert windowed.transfers.visited == streamer.needed // 2 <= streamer.copied // 2
    assert streamer.turn > 2 * SUPERSTEPS, "several windows a superstep"
    assert f"edge arrays streamed: {plan.host_bytes:,} bytes of page-locked host memory" in engine.explain()
    registered = sys.modules["cupy"].cuda.runtime.registered
    assert registered
    gc.disable()  # nothing is left to the garbage collector
    try:
        engine.close()
        assert not registered
        assert not streamer.slots
    finally:
        gc.enable()


def test_kernels_wait_for_copies_and_copies_for_kernels(emulated, streamed, monkeypatch):
    """The emulated copy is made when a stream waits for it, and reads its source then."""
    traced, graph = program_named("aggregate_rewritten"), edges_and_loops()
    engine, waited, wait = streamed("pull"), [], Stream.wait_event
    engine.prepare(traced, graph, FEATURES, emulated, Phases())
    streamer, begin = engine.executor.run_in_progress.launcher.place, 64  # edges; copies begin at multiples of 64
    values = graph.csc.neighbours[begin : begin + 20]

    def found(slot):
        return streamer.slots[slot].get()[: values.nbytes].view(values.dtype)

    names, end = ["in_neighbours"], begin + 20
    monkeypatch.setattr(Stream, "wait_event", lambda *_: None)
    streamer.fill(0, names, begin, end)
    streamer.wait_for(0)
    assert not np.array_equal(found(0), values)

    def noted(stream, event):
        waited.append((stream is streamer.stream, event))
        wait(stream, event)

    monkeypatch.setattr(Stream, "wait_event", noted)
    for turn in range(7):
        slot = streamer.bring(names, begin, end)
        streamer.wait_for(slot)
        assert slot == turn % 6
        pointer = streamer.pointers(slot, names, begin, end)["in_neighbours"]
        assert int(pointer) + 4 * begin == streamer.slots[slot].data.ptr
        np.testing.assert_array_equal(found(slot), values)
        streamer.free(slot)
    copied, used = streamer.filled, streamer.used
    assert waited == [*((False, copied[slot]) for slot in range(6)), (True, used[0]), (False, copied[0])]


def test_streams_of_slots_wait_for_work_before_them_and_are_waited_for(emulated, streamed, monkeypatch):
    """Kernels of a window wait for the stream of the run, which waits for all windows; so do those of listed rows."""
    policy = replace(OnyxCudaEngine.policy, middle_edges=8, middle_share=0)
    monkeypatch.setattr(OnyxCudaEngine, "policy", policy)
    graph, traced, waited, wait = hubs_and_middle(), program("pagerank"), [], Stream.wait_event
    engine = streamed("pull", window_mb=4 * 2500e-6)
    engine.prepare(traced, graph, FEATURES, emulated, Phases())
    engine.reset(inputs_for(traced, graph, FEATURES))
    streamer = engine.executor.run_in_progress.launcher.place

    def noted(stream, event):
        waited.append((stream, event))
        wait(stream, event)

    monkeypatch.setattr(Stream, "wait_event", noted)
    engine.run(1)
    of_slots = {id(stream) for stream in streamer.streams._streams.values()}
    begun = [id(stream) for stream, event in waited if event is streamer.streams._begun]
    assert begun
    assert len(begun) == len({*begun})
    assert {*begun} <= of_slots
    ended = {id(event) for stream, event in waited if id(stream) not in of_slots and stream is not streamer.stream}
    used = {slot: [id(event) for event in events] for slot, events in streamer._freed.items()}
    assert any(len(events) == 2 for events in used.values()), "kernels of hubs ran beside those of other vertices"
    assert ended - {id(event) for event in streamer.filled} == {event for events in used.values() for event in events}


def test_first_windows_are_copied_before_they_are_known_to_be_needed(emulated, streamed):
    """At the beginning, and after a superstep that needed all windows, four windows are in slots already."""
    graph, traced, ahead = chain(41), program("pagerank"), 4
    engine = streamed("pull", window_mb=5 * 4e-6)
    engine.prepare(traced, graph, FEATURES, emulated, Phases())
    streamer, filled = engine.executor.run_in_progress.launcher.place, []
    fill, needed = streamer.fill, WindowedCall._needed
    streamer.fill = lambda number, names, *edges: (filled.append(edges), fill(number, names, *edges))

    def noted(call):
        filled.append("decided")
        return needed(call)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WindowedCall, "_needed", noted)
        for _ in range(2):
            filled.clear()
            engine.reset(inputs_for(traced, graph, FEATURES))
            engine.run(3)
            at = filled.index("decided")
            windows = [*filled[:at], *filled[at + 1 : filled.index("decided", at + 1) - ahead]]
            assert len(windows) > ahead
            assert filled == 3 * [*windows[:ahead], "decided", *windows[ahead:]]
    engine.close()


def test_windows_copied_ahead_make_way_for_those_that_are_needed(emulated, streamed):
    engine, graph, traced = streamed("pull"), chain(41), program("pagerank")
    answers(engine, traced, graph, emulated)
    streamer = engine.executor.run_in_progress.launcher.place
    names, copied = [name for name in streamer.rows if name in streamer.arrays], []
    streamer.refresh(None)
    streamer.prefetch(names, [(0, 5), (5, 9)])
    for window in ((0, 5), (9, 14), (5, 9)):  # the second is another one, and the third is copied again
        before = streamer.copied
        streamer.bring(names, *window)
        copied.append(streamer.copied > before)
    streamer.prefetch(names, [(14, 20)])
    before = streamer.copied
    streamer.bring(names, 14, 20)
    assert [*copied, streamer.copied > before] == [False, True, True, False]
    engine.close()


def test_slots_are_kept_until_copies_ahead_have_ended(emulated, streamed, monkeypatch):
    """No kernel has waited for windows that a run turned out not to need."""
    engine, graph, traced, slots = streamed("pull"), chain(41), program("pagerank"), []
    answers(engine, traced, graph, emulated)
    streamer = engine.executor.run_in_progress.launcher.place
    synchronize = Stream.synchronize

    def noted(stream):
        if stream is streamer.stream:
            slots.append(len(streamer.slots))
        synchronize(stream)

    streamer.prefetch(list(streamer.rows), [(0, 5)])
    assert streamer.stream.pending
    monkeypatch.setattr(Stream, "synchronize", noted)
    engine.close()
    assert not streamer.stream.pending
    assert slots == [6]
    assert not streamer.slots


@pytest.mark.parametrize(("first", "last", "begin"), [(64, 84, 64), (70, 84, 64), (0, 1, 0), (127, 128, 64)])
def test_arrays_of_a_window_begin_where_rows_keep_their_alignment(first, last, begin, emulated, streamed):
    traced, graph = program_named("aggregate_rewritten"), edges_and_loops()
    engine = streamed("pull")
    answers(engine, traced, graph, emulated)
    streamer = engine.executor.run_in_progress.launcher.place
    names = sorted(streamer.rows.keys() & streamer.arrays.keys())
    assert len(names) > 1
    number = streamer.turn % len(streamer.slots)
    before, slot = streamer.copied, int(streamer.slots[number].data.ptr)
    assert streamer.bring(names, first, last) == number
    pointers = streamer.pointers(number, names, first, last)
    for name in names:
        assert streamer.rows[name] == 4
        place = (int(pointers[name]) + 4 * begin) % (1 << 64)
        assert place == slot
        slot += -(-(4 * (last - begin) + SLACK) // 256) * 256  # bytes that lanes without a feature may read
    assert streamer.copied - before == 4 * (last - begin) * len(names)
    assert slot - int(streamer.slots[number].data.ptr) <= streamer.slots[number].nbytes


@pytest.mark.parametrize("place", [Place.MAPPED, Place.MANAGED, Place.RESIDENT])
@pytest.mark.parametrize("dtype", [np.float32, np.uint64])
def test_every_place_has_the_bytes_that_lanes_without_a_feature_may_read(place, dtype, emulated):
    array = PLACES[place]().empty(100, dtype)
    assert array.nbytes == 100 * np.dtype(dtype).itemsize + SLACK


def chain(vertices):
    """Return a path whose edges have the weights 1, 2, ..."""
    sources = np.arange(vertices - 1)
    return Graph.from_edges(sources, sources + 1, num_vertices=vertices, weights=sources + 1.0, name="chain")


@pytest.mark.short_run(rows=2)
@pytest.mark.parametrize(
    ("schedule", "first", "copies"), [("changes-pull-sparse", 8, [5, 2, 2]), ("changes-push", 1, [1, 1, 1])]
)
def test_windows_without_active_vertices_are_not_copied(schedule, first, copies, emulated, streamed):
    """One vertex is active in each superstep: its window is copied, and that of its destination in a pull.

    In the first superstep a pull reads all windows of five edges; so the second begins with four copies, of which three
    are not needed. A push begins with the source.
    """
    graph = chain(41)
    inputs = SSSP(sources="0 0 0").inputs(graph, FEATURES)
    engine = streamed(schedule, window_mb=5 * 8e-6)
    engine.prepare(trace(SSSP()), graph, FEATURES, emulated, Phases())
    engine.reset(inputs)
    engine.run(1)
    streamer = engine.executor.run_in_progress.launcher.place
    assert streamer.turn == first
    visited = set()
    for count in copies:
        before = streamer.turn
        transfers = engine.run(1).transfers
        assert streamer.turn - before == count
        assert transfers.moved["copied"] >= transfers.visited
        visited.add(transfers.visited)
    assert len(visited) == 1, "a window that is not needed is moved, but not visited"
    engine.run(50)
    np.testing.assert_array_equal(engine.values("distance")[:, 0], np.cumsum([0, *graph.weights]))
    before = streamer.turn
    engine.run(1)
    assert streamer.turn == before, "nothing is copied once the run has settled"


def hubs_and_middle(leaves=2100):
    """Return a graph with two vertices that blocks own, far apart, others that warps own, and short rows."""
    rng = np.random.default_rng(5)
    count = 2 * leaves + 300
    degrees = {3: leaves, 4000: leaves} | dict.fromkeys(range(5, 4500, 300), 50)
    ends = [(vertex, rng.choice(count, degree, replace=False)) for vertex, degree in degrees.items()]
    sources = np.concatenate([others for _, others in ends] + [np.arange(count - 1)])
    targets = np.concatenate([np.full(len(others), vertex) for vertex, others in ends] + [np.arange(1, count)])
    return Graph.from_edges(sources, targets, num_vertices=count, duplicates="keep", name="hubs")


@pytest.mark.parametrize("schedule", ["pull", "changes-pull-sparse"])
def test_owners_of_long_rows_read_the_windows_of_the_others(schedule, emulated, streamed, monkeypatch):
    """Each window is copied once for the kernels of hubs, of middle vertices and of the others."""
    monkeypatch.setitem(SCHEDULES, "pull", ("onyx", {"change_driven": False, "balance": "warp", "persistent": False}))
    lists = replace(OnyxCudaEngine.policy, middle_edges=8, middle_share=0)
    monkeypatch.setattr(OnyxCudaEngine, "policy", lists)
    graph, traced = hubs_and_middle(), program("pagerank")
    resident = cuda_engine(schedule)
    wanted, _ = answers(resident, traced, graph, emulated)
    assert {"hubs", "middle"} <= {buffer.name for buffer in resident.planned.buffers}
    resident.close()
    engine = streamed(schedule, window_mb=4 * 2500e-6)
    found, _ = answers(engine, traced, graph, emulated)
    for output, values in wanted.items():
        np.testing.assert_array_equal(found[output], values)
    streamer = engine.executor.run_in_progress.launcher.place
    before, windows = streamer.turn, -(-graph.num_edges // 2500)
    engine.reset(inputs_for(traced, graph, FEATURES))
    engine.run(1)
    assert 1 < windows <= streamer.turn - before <= 2 * windows
    engine.close()


def test_reductions_that_read_reverse_edges_cannot_be_streamed():
    assert unstreamable(traced(reversed_edges, "reversed")) == READS_REVERSE
    assert unstreamable(program("pagerank")) == ""


def test_what_cannot_be_streamed_is_refused(streamed):
    answer = streamed("pull").plan(program_named("beliefs"), two_sides().facts, FEATURES)
    assert isinstance(answer, No)
    assert "updates an edge property, and only edges that do not change stream" in answer.reason
    graph, _ = problem("pagerank", "hub", FEATURES)
    answer = streamed("pull", window_mb=0.004).plan(program("pagerank"), graph.facts, FEATURES)
    assert answer == No("edges=streamed: a window has 1,000 edges, and a vertex has 3,000; give window_mb=1")


def test_windows_that_are_copied_ahead_are_not_overwritten_by_those_of_other_arrays(emulated, streamed):
    """A kernel over other arrays needs more windows than there are slots left; the windows ahead stay."""
    graph, traced = edges_and_loops.__wrapped__(), program_named("several_reductions")
    engine = streamed("pull")
    answers(engine, traced, graph, emulated)
    streamer = engine.executor.run_in_progress.launcher.place
    first, *others = sorted(streamer.rows)
    copied, windows = streamer.copied, [(0, 20), (20, 40), (40, 60), (60, 64)]
    streamer.prefetch([first], windows)
    ahead = streamer.copied - copied
    slots = {streamer.bring(others, 4 * i, 4 * i + 4) for i in range(12)}
    assert len(slots) == len(streamer.slots) - len(windows)
    copied = streamer.copied
    found = [streamer.bring([first], *one) for one in windows]
    assert not slots & {*found}
    assert len({*found}) == len(windows)
    assert (ahead > 0, streamer.copied) == (True, copied)
    engine.close()


def test_windows_ahead_that_no_kernel_reads_are_dropped_at_the_end_of_a_superstep(emulated, streamed):
    """Others could not use their slots. Those for the next superstep stay."""
    engine, traced, graph = streamed("pull"), program("pagerank"), chain(41)
    answers(engine, traced, graph, emulated)
    streamer = engine.executor.run_in_progress.launcher.place
    for later, kept in ((0, 0), (1, 2)):
        streamer.prefetch(["in_neighbours"], [(0, 5), (5, 10)], later)
        assert len(streamer._ahead) == 2
        streamer.drop()
        assert len(streamer._ahead) == kept
    streamer.left -= 1  # the next superstep
    streamer.drop()
    assert not streamer._ahead
    engine.close()


def test_nothing_is_copied_ahead_for_supersteps_that_a_run_does_not_have(emulated, streamed):
    """The last kernel over edges copies ahead for the next superstep, if there is one."""
    graph, traced, counts = chain(41), program("pagerank"), Counter()
    engine = streamed("changes-pull", window_mb=5 * 4e-6)
    engine.prepare(traced, graph, FEATURES, emulated, Phases())
    streamer = engine.executor.run_in_progress.launcher.place
    fill, bring = streamer.fill, streamer.bring
    streamer.fill = lambda *window: (counts.update(["filled"]), fill(*window))
    streamer.bring = lambda *window: (counts.update(["read"]), bring(*window))[1]
    for supersteps in (1, 4, 3):
        engine.reset(inputs_for(traced, graph, FEATURES))
        engine.run(supersteps)
        assert counts["filled"] == counts["read"] >= 8 * supersteps
        counts.clear()
    engine.close()
