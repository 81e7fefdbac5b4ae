"""Launches of a superstep: numbers of blocks, ranges of work, swaps, names of kernels, windows."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from engines.outofmemory.scaph.cuda_windows import SubgraphWindows
from harness.edge_places import Place, Placement
from harness.emulation.arrays import allocated
from harness.facts import GraphFacts
from harness.graph import Graph
from harness.graph.generators import random_ratings
from harness.language.program import IDENTITY, GraphReduce
from harness.lowering.buffers import Holds
from harness.lowering.cuda import launcher, persistent_executor
from harness.lowering.cuda.buffers import CudaBuffer, exchanged
from harness.lowering.cuda.calls import Call
from harness.lowering.cuda.kernels import CudaKernel, Visits
from harness.lowering.cuda.launches import Launch, named_apart, turned
from harness.lowering.cuda.parameters import Parameter
from harness.lowering.cuda.persistent_executor import PersistentExecutor
from harness.lowering.cuda.ranges import Over, WorkRanges, by_side
from harness.lowering.cuda.streamed import parts_of_listed
from harness.lowering.cuda.windows import ALIGNED_EDGES, SLACK, Windows, aligned
from harness.lowering.graph_store import GraphStore, Structure
from tests.engines.programs import program_named


def kernel(name="step", arguments=("run",), source="a"):
    return CudaKernel(name, tuple(Parameter(argument, "Id*") for argument in arguments), source)


def launch(over=Over.VERTICES, lanes=1.0, **fields):
    return Launch(kernel(*fields.pop("of", ())), over, lanes, **fields)


@pytest.mark.parametrize(
    ("fields", "count", "blocks"),
    [
        ({}, 0, 1),
        ({}, 256, 1),
        ({}, 257, 2),
        ({"lanes": 0.25}, 1025, 2),
        ({"lanes": 32.0}, 100, 13),
        ({}, 10**9, 10 * 64),
        ({"most": "few"}, 10**9, 10 * 4096 // 256),
        ({"most": "resident"}, 10**9, 10 * 3),
        ({"most": "resident"}, 300, 2),
        ({"most": "all"}, 256 * 10**6, 10**6),
        ({"blocks": 7}, 10**9, 7),
        ({"blocks": 7, "most": "few"}, 1, 7),
    ],
)
def test_blocks_are_as_many_as_the_work_needs_up_to_a_limit(fields, count, blocks):
    assert launch(**fields).blocks_over(count, 256, multiprocessors=10, at_once=3) == blocks


@pytest.mark.parametrize(("most", "threads", "at_once"), [("few", 8192, 3), ("resident", 256, 0)])
def test_a_multiprocessor_runs_a_block_at_least(most, threads, at_once):
    assert launch(most=most).blocks_over(10**9, threads, multiprocessors=10, at_once=at_once) == 10


def test_arrays_that_swap_twice_are_where_they_were():
    swaps = [("x",), ("x", "y"), (), ("z",), ("z", "x")]
    assert turned([launch(swaps=names) for names in swaps]) == {"x", "y"}
    pairs = {"x": "next_x", "next_x": "x", "y": "next_y", "next_y": "y"}
    plain, changed = ["x", "next_x", "y", "run"], ["next_x", "x", "y", "run"]
    for swapped, expected in (({"x"}, changed), ({"next_x"}, changed), (set(), plain), ({"run"}, plain)):
        assert [exchanged(name, swapped, pairs) for name in ("x", "next_x", "y", "run")] == expected


def test_different_kernels_get_different_names_and_equal_ones_keep_theirs():
    given = [("a", "1"), ("a", "2"), ("b", "3"), ("a", "1"), ("a", "4"), ("a_2", "5"), ("a", "2")]
    launches = [replace(launch(), kernel=kernel(name, source=f"    {body};\n")) for name, body in given]
    found = named_apart(launches)
    assert [one.kernel.name for one in found] == ["a", "a_2", "b", "a", "a_3", "a_2_2", "a_2"]
    assert len({(one.kernel.name, one.kernel.source) for one in found}) == 5
    assert all(f" {one.kernel.name}(" in one.kernel.source for one in found)
    assert found[0] is launches[0]


@pytest.mark.parametrize("side", [0, 1])
def test_ranges_are_those_of_the_side_that_is_updated(side):
    graph = random_ratings(users=6, items=4, num_ratings=12, seed=1)
    sides = ((0, 6), (6, 10))
    ranges = WorkRanges(SimpleNamespace(graph=graph), sides)
    vertices, sources = sides[side], sides[1 - side]
    into, out = graph.csc.offsets, graph.csr.offsets
    expected = {
        Over.VERTICES: vertices, Over.SOURCES: sources,
        Over.IN_EDGES: (into[vertices[0]], into[vertices[1]]), Over.OUT_EDGES: (out[sources[0]], out[sources[1]]),
        Over.ALL_VERTICES: (0, 10), Over.ALL_EDGES: (0, graph.num_edges),
    }  # fmt: skip
    assert {over: ranges.bounds(over, side) for over in Over} == expected
    assert {over for over in Over if over.of_edges} == {Over.IN_EDGES, Over.OUT_EDGES, Over.ALL_EDGES}
    edges = Graph.from_edges([0, 0, 2], [1, 2, 1], num_vertices=3, name="three")
    whole = WorkRanges(SimpleNamespace(graph=edges), ((0, 3),))
    assert {whole.bounds(over, 0) for over in Over} == {(0, 3)}


def test_listed_vertices_belong_to_the_side_that_they_are_in():
    listed = np.array([0, 3, 5, 6, 9], np.uint32)
    assert by_side(listed, ((0, 6), (6, 10))) == [(0, 3), (3, 5)]
    assert by_side(listed, ((0, 10),)) == [(0, 5)]
    assert by_side(listed[:0], ((0, 6), (6, 10))) == [(0, 0), (0, 0)]


def streamed(window_bytes, **more):
    return Placement(Place.STREAMED, window_bytes, **more)


def test_a_slot_of_packed_ids_has_a_buffer_for_its_blocks():
    ids = CudaBuffer(
        "out_neighbours", Holds.STRUCTURE, "", "uint32", 1000, source=Structure.OUT_NEIGHBOURS, of_edges=True
    )
    kernels, facts = [kernel(arguments=("out_neighbours", "weight"))], GraphFacts(300, 1000, 5)
    plain = Windows().over(streamed(800), facts, kernels, [ids, of_edges("weight")])
    found = Windows().over(streamed(800, packed=True), facts, kernels, [ids, of_edges("weight")])
    assert (found.edges, found.packed) == (100, ("out_neighbours",))
    block = 8 + 4 * 9  # ids below 300 take 9 bits
    assert found.packed_bytes == 32 * block + 8, "1,000 ids in 32 blocks"
    assert found.room_bytes == 6 * block + 8 + 2 * 256, "100 ids from anywhere within 64 on, and two alignments"
    assert found.nbytes - plain.nbytes == 6 * found.room_bytes
    assert found.host_bytes == plain.host_bytes == 0


def of_edges(name, stride=1):
    return CudaBuffer(name, Holds.STRUCTURE, "", "float32", 1000, stride, of_edges=True)


def test_a_window_has_the_edges_that_fit_for_the_kernel_of_the_longest_rows():
    buffers = [of_edges("neighbours"), of_edges("weight", 3), CudaBuffer("x", Holds.WORK, "", "float32", 9)]
    kernels = [kernel(arguments=names) for names in (("neighbours", "x"), ("weight", "neighbours"), ("run",))]
    facts = GraphFacts(10, 1000, 5)
    found = Windows().over(streamed(1600), facts, kernels, buffers)
    assert (found.edges, found.row_bytes) == (100, (("neighbours", 4), ("weight", 12)))
    stored = 100 + ALIGNED_EDGES
    assert found.slot_bytes == aligned(12 * stored + SLACK) + aligned(4 * stored + SLACK)
    assert found.nbytes == 6 * found.slot_bytes
    assert found.host_bytes == 0
    packed = SubgraphWindows(slot_bytes=100, stagings=3, staging_bytes=10, offset_bytes=2, extra_host_bytes=7)
    assert (packed.nbytes, packed.host_bytes) == (6 * 100 + 30 + 2, 37)
    assert [found.takes(one) for one in kernels] == [True, True, False]
    few = Windows().over(streamed(10**9), facts, kernels, buffers)
    assert few.slot_bytes == aligned(12 * (1000 + ALIGNED_EDGES) + SLACK) + aligned(4 * (1000 + ALIGNED_EDGES) + SLACK)
    assert Windows().over(streamed(15), facts, kernels, buffers).edges == 1
    assert Windows().over(Placement(), facts, kernels, buffers) == Windows()
    assert Windows().over(streamed(1600), facts, kernels[2:], buffers) == Windows()


@pytest.mark.parametrize(("over", "largest"), [(Over.VERTICES, 3), (Over.SOURCES, 2), (Over.OUT_EDGES, 2)])
def test_a_vertex_has_to_fit_into_a_window(over, largest):
    graph = Graph.from_edges([0, 1, 2, 2], [3, 3, 3, 1], num_vertices=4, name="four")
    program = SimpleNamespace(stages=())
    reads = Launch(kernel(arguments=("run", "neighbours")), over, 1.0)
    other = Launch(kernel(), Over.VERTICES if over is not Over.VERTICES else Over.SOURCES, 1.0)
    windows = [Windows(edges, 512, (("neighbours", 40 * 10**6),)) for edges in (largest, largest - 1)]
    enough, short = (one.refusal(program, graph.facts, [reads, other]) for one in windows)
    assert enough == ""
    assert short == (
        f"edges=streamed: a window has {largest - 1} edges, and a vertex has {largest}; give window_mb={40 * largest}"
    )
    elsewhere = Launch(kernel("cut", ("run", "neighbours")), Over.ALL_EDGES, 1.0)
    assert "the kernel cut of this schedule does not work on" in windows[0].refusal(program, graph.facts, [elsewhere])
    pairs = Launch(kernel(arguments=("neighbours", "reverse")), over, 1.0)
    assert "reads reverse edges" in windows[0].refusal(program, graph.facts, [pairs])


def test_a_call_of_a_part_has_its_bounds_and_the_blocks_for_it():
    arguments = {"run": "r", "first": np.uint32(0), "last": np.uint32(10**6), "neighbours": "whole"}
    queued = []
    whole = Call(
        lambda *given, **named: queued.append((*given, named)), arguments, 256, 48, launch(), (0, 10**6),
        multiprocessors=10,
    )  # fmt: skip
    part = whole.between(300, 900, neighbours="window")
    assert (part.bounds, whole.bounds) == ((300, 900), (0, 10**6))
    assert list(part.arguments.items()) == [("run", "r"), ("first", 300), ("last", 900), ("neighbours", "window")]
    assert {type(part.arguments[name]) for name in ("first", "last")} == {np.uint32}
    assert whole.arguments == arguments
    assert (whole.grid, part.grid) == ((640,), (3,))
    part.start()
    assert queued == [((3,), (256,), ("r", 300, 900, "window"), {"shared_mem": 48})]


def test_resident_blocks_are_those_that_the_device_runs_at_once(monkeypatch):
    """The occupancy of a kernel limits only launches whose blocks process adjacent work."""
    asked = []
    monkeypatch.setattr(launcher, "blocks_of_multiprocessor", lambda *given: asked.append(given) or 3)
    graph = Graph.from_edges(np.arange(5000), np.roll(np.arange(5000), 1), name="cycle")
    plan = SimpleNamespace(
        threads=256, edge_position=np.int64, parities={}, ping_pong={}, shared_of=lambda _: 48, criterion=None,
        measuring=SimpleNamespace(), sides=((0, 5000),), launches=[
            Launch(kernel(most, ("run", "first", "last", "x")), Over.VERTICES, 1.0, most=most)
            for most in ("resident", "some", "few", "all")
        ],
    )  # fmt: skip
    functions = {name: name for name in ("resident", "some", "few", "all", "end_of_superstep")}
    made = launcher.Launcher(
        plan, WorkRanges(GraphStore(graph), plan.sides), functions, {"x": "values"}, "run", 2, None
    )  # fmt: skip
    *calls, end = made.calls(0, "past")
    assert asked == [("resident", 256, 48)]
    assert [(call.function, call.at_once, call.grid) for call in calls] == [
        ("resident", 3, (6,)), ("some", 0, (20,)), ("few", 0, (20,)), ("all", 0, (20,))
    ]  # fmt: skip
    assert {tuple(call.arguments.values()) for call in calls} == {("run", 0, 5000, "values")}
    assert (end.function, end.threads, end.arguments) == ("end_of_superstep", 1, {"run": "run", "past": "past"})


def test_listed_vertices_are_those_of_each_window_of_a_side():
    hubs = np.array([1, 4, 6, 8, 9], np.uint32)
    reads = replace(kernel(arguments=("hubs",)), visits=Visits(listed="hubs"))
    launched, arguments = Launch(reads, Over.VERTICES, 1.0), {"hubs": SimpleNamespace(get=hubs.copy)}
    call = Call(None, arguments, 256, launch=launched, bounds=(2, 5))
    assert parts_of_listed(call, [(5, 7), (7, 9), (9, 9), (9, 11)]) == [(2, 3), (3, 4), (4, 4), (4, 5)]


def test_panels_are_the_second_dimension_of_the_grid():
    several = replace(launch(), kernel=replace(kernel(), panels=3))
    assert Call(None, {}, 256, launch=several, bounds=(0, 1000), multiprocessors=10).grid == (4, 3)
    assert Call(None, {}, 256, launch=launch(), bounds=(500, 1000), multiprocessors=10).grid == (2,)
    assert Call(None, {}, 256).grid == (1,)


def test_parts_of_a_reduction_that_no_block_of_a_persistent_kernel_writes_are_the_identity():
    program = program_named("whole_graph")
    reductions = [stage for stage in program.stages if isinstance(stage, GraphReduce)]
    arrays = {f"partial_{one.into}": allocated(np.full(4, 7, np.float32)) for one in reductions}
    arrays["bounds"] = allocated(np.zeros(6, np.int64))
    combined = SimpleNamespace(steps=[launch()], measuring=SimpleNamespace(launches=[launch(Over.ALL_EDGES)]))
    plan = SimpleNamespace(program=program, sides=((0, 5),), combined=combined)
    ranges = SimpleNamespace(bounds=lambda over, side: (side + 1, 5 if over is Over.VERTICES else 9))
    PersistentExecutor._set_bounds(SimpleNamespace(plan=plan, arrays=arrays, ranges=ranges))
    assert {one.reducer for one in reductions} == {"sum", "min", "max"}
    for one in reductions:
        assert (arrays[f"partial_{one.into}"].get() == IDENTITY[one.reducer]).all()
    assert arrays["bounds"].get().tolist() == [1, 5, 1, 9, 0, 0], "of steps, and then of those that measure"


@pytest.mark.parametrize(("blocks", "wanted"), [(3, 3), (4, 4), (9, 4)])
def test_a_persistent_kernel_has_no_more_blocks_than_a_reduction_has_slots(blocks, wanted, monkeypatch):
    program = program_named("whole_graph")
    slots = {"top": 4, "low": 6, "moments": 5}
    plan = SimpleNamespace(
        program=program, threads=256, shared_of=lambda _: 0, layout=SimpleNamespace(stride=lambda shape: 8),
        named={f"partial_{name}": SimpleNamespace(length=8 * count) for name, count in slots.items()},
    )  # fmt: skip
    found = SimpleNamespace(take=lambda *_: blocks)
    monkeypatch.setattr(persistent_executor, "residency_of", lambda *_: found)
    executor = SimpleNamespace(plan=plan, functions={"step": None}, attributes={}, resident={}, wanted_blocks=None,
                               remedy="")  # fmt: skip
    executor._most_blocks = lambda: PersistentExecutor._most_blocks(executor)
    assert PersistentExecutor._blocks(executor, kernel()) == wanted
