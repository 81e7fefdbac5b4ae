"""Packed ids of streamed edges on the CPU: answers, bytes that are read, memory, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from harness.contract import Device, Phases, ScheduleError
from harness.graph.generators import grid, rmat
from harness.lowering.buffers import Order
from harness.lowering.cpu.edge_places import PackedEdges, StreamedEdges
from harness.lowering.packed_ids import pack
from harness.lowering.packed_sizes import most_window_bytes
from tests.engines.problems import ALGORITHMS, new_engine, prepared, problem, program, reference

PACKED = {"edges": "streamed", "window_mb": 0.004, "codes": "packed"}
WAYS = {
    "onyx pull": ("onyx", {"direction": "pull", "change_driven": False}),
    "onyx push": ("onyx", {"direction": "push", "change_driven": True}),
    "gunrock": ("gunrock", {}),
    "tigr": ("tigr", {}),
    "LBASE": ("scaph", {"values": "low", "low": "stream"}),
    "HVSP": ("scaph", {"values": "high", "rounds": 4}),
    "zigzag": ("scaph", {"values": "high", "order": "zigzag"}),
}


def run(engine, options, name, graph_name, features):
    """Return the outputs of a run, its statistics, and the engine."""
    graph, inputs = problem(name, graph_name, features)
    running = prepared(engine, options, program(name), graph, features)
    for _ in range(2):  # a second run reads the same files
        running.reset(inputs)
        statistics = running.run(200)
    return {output: running.values(output) for output in program(name).outputs}, statistics, running


@pytest.mark.parametrize(("graph_name", "features"), [("rmat", 1), ("rmat", 3), ("scattered", 32), ("chain", 3)])
@pytest.mark.short_run(rows=1)
@pytest.mark.parametrize("way", WAYS)
def test_answers_are_those_of_plain_ids(way, graph_name, features):
    engine, options = WAYS[way]
    plain = {**PACKED, "codes": "plain"}
    wanted, before, _ = run(engine, {**options, **plain}, "sssp", graph_name, features)
    found, after, _ = run(engine, {**options, **PACKED}, "sssp", graph_name, features)
    assert all(np.array_equal(found[name], values) for name, values in wanted.items())
    assert after.supersteps == before.supersteps
    assert after.transfers.visited == before.transfers.visited


@pytest.mark.parametrize("way", ["onyx pull", "LBASE"])
@pytest.mark.full
@pytest.mark.parametrize("window_mb", [0.0006, 0.00371])
def test_supersteps_are_those_of_the_reference(way, window_mb):
    """Windows end anywhere within blocks; the answer is that of the float64 reference."""
    engine, options = WAYS[way]
    graph, inputs = problem("pagerank", "scattered", 3)
    running = prepared(engine, {**options, **PACKED, "window_mb": window_mb}, program("pagerank"), graph, 3)
    running.reset(inputs)
    running.run(6)
    wanted, _, _ = reference("pagerank", "scattered", 3, 6)
    for name, values in wanted.items():
        np.testing.assert_allclose(running.values(name), values, rtol=1e-5, atol=1e-7)


def bytes_read(graph, codes, engine="onyx", **options):
    """Return the bytes that a superstep of PageRank reads, and the engine."""
    given = {**PACKED, "codes": codes, "window_mb": 0.05, **options}
    running = prepared(engine, given, program("pagerank"), graph, 1)
    running.reset(ALGORITHMS["pagerank"].inputs(graph, 1))
    found = running.run(1).transfers
    assert found.visited == 4 * graph.num_edges
    return sum(found.moved.values()), running


@pytest.mark.full
@pytest.mark.parametrize(
    ("engine", "options"), [("onyx", WAYS["onyx pull"][1]), ("scaph", {"values": "low", "low": "stream"})]
)
def test_fewer_bytes_are_read(engine, options):
    """A mesh by rows has small gaps; ids of an R-MAT graph of 1,024 vertices take 10 bits and their part of a head."""
    for graph, least in ((grid(rows=60, columns=60), 2.0), (rmat(scale=10, edge_factor=16, seed=1), 2.4)):
        plain, _ = bytes_read(graph, "plain", engine, **options)
        packed, running = bytes_read(graph, "packed", engine, **options)
        assert plain == 4 * graph.num_edges
        assert plain / packed > least
        assert "ids of neighbours packed" in running.explain()
        assert running.resolved_options()["codes"] == "packed"


@pytest.mark.short_run(rows=2)
@pytest.mark.parametrize("codes", ["plain", "packed"])
def test_every_run_reads_the_file_of_ids_once_in_each_superstep(codes):
    """One window has all edges: 4 bytes for each plain id, or the heads and the words of all blocks."""
    graph, inputs = problem("pagerank", "scattered", 3)
    options = {"edges": "streamed", "window_mb": 1, "codes": codes, "direction": "pull", "change_driven": False}
    running = prepared("onyx", options, program("pagerank"), graph, 3)
    of_file = pack(graph.csc.neighbours).nbytes if codes == "packed" else 4 * graph.num_edges
    for supersteps in (1, 3, 2):
        running.reset(inputs)
        found = running.run(supersteps)
        assert found.transfers.moved == {"read": supersteps * of_file}
        assert found.transfers.visited == 4 * found.edges == supersteps * 4 * graph.num_edges


def test_bytes_of_windows_are_known_before_they_are_read():
    """Also of windows that begin or end within a block."""
    ids = np.random.default_rng(2).integers(0, 5000, 150).astype(np.uint32)
    place, room = PackedEdges(), np.empty(4096, np.uint8)
    packed = place.streamed(place.placed_ids(ids, Order.CSR))
    plain = place.streamed(place.placed(ids, Order.CSR))
    for first, last in ((0, 150), (0, 0), (0, 32), (31, 33), (32, 64), (33, 34), (149, 150), (70, 141)):
        found = np.empty(last - first, np.uint32)
        assert packed.read_ids(first, last, found, room) == packed.stored(first, last, 150)
        np.testing.assert_array_equal(found, ids[first:last])
        assert plain.stored(first, last, 150) == 4 * (last - first)
    assert (plain.row(150), packed.row(150)) == (4, 4)
    assert packed.stored(0, 150, 150) == pack(ids).nbytes


def test_each_array_that_is_streamed_has_a_file_of_its_own():
    place = StreamedEdges()
    streamed = {id(place.placed(np.full(3, number, np.float32), Order.CSC)): number for number in range(50)}
    assert sorted(streamed.values()) == list(range(50))
    assert place.streamed(np.empty(0, np.float32)) is None


def test_the_room_for_packed_ids_is_a_part_of_the_memory():
    graph, _ = problem("pagerank", "rmat", 1)
    room = most_window_bytes(4000 // 4, graph.num_vertices)
    for engine, options in (("onyx", {}), ("scaph", {"low": "stream"})):
        plain, packed = (
            new_engine(engine, {**options, **PACKED, "codes": codes}).supports(
                program("pagerank"), graph, 1, Device(threads=2)
            )
            for codes in ("plain", "packed")
        )
        assert packed.bytes_needed - plain.bytes_needed == room


@pytest.mark.full
def test_packing_is_timed_apart():
    graph, _ = problem("pagerank", "rmat", 1)
    engine, phases = new_engine("onyx", PACKED), Phases()
    engine.prepare(program("pagerank"), graph, 1, Device(threads=2), phases)
    assert phases.seconds["pack_ids"] > 0


@pytest.mark.parametrize(
    ("engine", "options", "reason"),
    [
        ("onyx", {"codes": "packed"}, "edges=resident are read where they are"),
        ("onyx", {"codes": "packed", "edges": "mapped"}, "edges=mapped are read where they are"),
        ("gunrock", {"codes": "packed", "edges": "managed"}, "edges=managed are read where they are"),
        ("emogi", {"codes": "packed"}, "edges=mapped are read where they are"),
        ("scaph", {"codes": "packed"}, "low=extract reads single rows"),
        ("scaph", {"codes": "packed", "low": "zero_copy"}, "low=zero_copy reads single rows"),
        (
            "scaph",
            {"codes": "packed", "low": "stream", "rule": "chosen"},
            "rule=chosen compares the rates of plain ids",
        ),
    ],
)
def test_packed_ids_are_refused_where_single_rows_are_read(engine, options, reason):
    with pytest.raises(ScheduleError, match="codes=packed") as error:
        new_engine(engine, options)
    assert reason in str(error.value)
