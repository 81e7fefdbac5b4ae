"""Orders of subgraphs of the Scaph style on an emulated device: answers, what stays in slots, and what is counted."""

from __future__ import annotations

import numpy as np
import pytest

from engines.outofmemory.scaph.cuda_subgraphs import SubgraphCall, SubgraphStreamer
from harness.algorithms.bfs import BFS
from harness.graph.generators import rmat
from harness.language import trace
from tests.emulation.test_scaph import check, four_rows
from tests.emulation.test_scaph_queue import settled
from tests.engines.problems import prepared, problem, program
from tests.engines.test_cuda import algorithms
from tests.engines.test_scaph_order import PARTS, check_useful_bytes_in_parts, expected_data

MEANS = [{"values": "high", "slots": 2}, {"alpha": 0.3}, {"low": "stream"}, {"low": "zero_copy", "slots": 3}]


@pytest.mark.short_run(rows=4)
@pytest.mark.parametrize("name", ["sssp", "pagerank", "hits"])
@pytest.mark.parametrize("order", ["value", "zigzag"])
@pytest.mark.parametrize("options", MEANS, ids=str)
def test_every_superstep_is_right(options, order, name, emulated, monkeypatch):
    algorithm = algorithms()[name]
    graph = algorithm.prepare_graph(rmat(scale=6, edge_factor=8, seed=2, max_weight=4))
    given = {"window_mb": 0.0015, **options, "order": order}
    check(given, trace(algorithm), graph, algorithm.inputs(graph, 3), 3, emulated, monkeypatch)


@pytest.mark.short_run(rows=2)
@pytest.mark.parametrize("name", ["sssp", "components"])
@pytest.mark.parametrize("order", ["value", "zigzag"])
@pytest.mark.parametrize("options", [{"rounds": 2}, {"rounds": 3, "values": "high", "slots": 3}], ids=str)
def test_queued_subgraphs_settle_at_the_answer(options, order, name, run_scaph):
    graph, inputs = problem(name, "rmat", 1)
    engine = run_scaph(program(name), graph, 1, window_mb=0.004, order=order, **options)
    expected, first = settled(program(name), graph, inputs, 1), None
    for _ in range(2):
        engine.reset(inputs)
        taken = engine.run(400)
        for output, values in expected.items():
            np.testing.assert_array_equal(engine.values(output), values)
        first = first or taken.transfers
        assert taken.transfers == first, "equal runs are equal"
    assert {"queue", "values"} <= first.seconds.keys()
    assert order != "zigzag" or first.subgraphs["resident"] > 0


@pytest.mark.parametrize("order", ["value", "zigzag"])
def test_what_is_read_is_that_of_the_cpu(order, run_scaph):
    graph, inputs = problem("sssp", "rmat", 1)
    given = {"window_mb": 0.004, "values": "high", "slots": 3, "order": order}
    engines = [prepared("scaph", given, program("sssp"), graph, 1), run_scaph(program("sssp"), graph, 1, **given)]
    for engine in engines:
        engine.reset(inputs)
    resident = 0
    for _ in range(5):
        cpu, cuda = (engine.run(1).transfers for engine in engines)
        assert cuda == cpu
        resident += cuda.subgraphs.get("resident", 0)
    assert (resident > 3) == (order == "zigzag")


@pytest.mark.parametrize("order", ["index", "zigzag"])
def test_subgraphs_in_slots_are_processed_from_there(order, run_scaph):
    """Zeros in the slots after the first superstep are overwritten by copies, but not where nothing is copied."""
    graph, inputs = problem("sssp", "rmat", 1)
    engine = run_scaph(program("sssp"), graph, 1, window_mb=0.004, values="high", slots=2, order=order)
    engine.reset(inputs)
    engine.run(1)
    for slot in engine.executor.streamer.slots:
        slot.fill(0)
    engine.executor.wait()
    engine.run(400)
    wanted = settled(program("sssp"), graph, inputs, 1)["distance"]
    assert np.array_equal(engine.values("distance"), wanted) == (order == "index")


def test_a_slot_with_some_rows_of_a_subgraph_does_not_hold_it(run_scaph):
    """Vertex 0 is active first, and then vertex 1, whose row is of the same subgraph."""
    graph, search = four_rows(), BFS(sources="0")
    engine = run_scaph(trace(search), graph, 1, window_mb=20 * 4 / 1e6, values="low", order="zigzag")
    engine.reset(search.inputs(graph, 1))
    for _ in range(2):
        found = engine.run(1).transfers
        assert found.moved["extracted"] == 4 * 10 + 8
        assert not found.subgraphs.get("resident")


@pytest.mark.parametrize("options", [{}, {"values": "low"}, {"low": "zero_copy", "order": "zigzag"}], ids=str)
def test_useful_bytes_are_those_of_the_definitions(options, run_scaph):
    graph, inputs = problem("sssp", "rmat", 1)
    engine = run_scaph(program("sssp"), graph, 1, window_mb=0.004, counters=True, **options)
    for _ in range(2):
        engine.reset(inputs)
        taken = engine.run(100)
        assert taken.settled
        assert taken.transfers.data == expected_data("sssp", graph, inputs, len(taken.supersteps), 8)
        assert sum(taken.transfers.data["useful"]) == taken.transfers.visited
    assert engine.planned.windows.extra_host_bytes == graph.num_vertices


@pytest.mark.short_run(rows=10**6)
@pytest.mark.parametrize("options", [{}, {"values": "low"}, {"low": "zero_copy", "order": "zigzag"}], ids=str)
def test_useful_bytes_of_a_run_in_several_parts(options, run_scaph):
    graph, inputs = problem("sssp", "rmat", 1)
    engine = run_scaph(program("sssp"), graph, 1, window_mb=0.004, counters=True, **options)
    for parts in PARTS:
        check_useful_bytes_in_parts(engine, "sssp", graph, inputs, 8, parts)


def test_parts_of_the_time_are_counted(run_scaph):
    graph, inputs = problem("sssp", "rmat", 1)
    engine = run_scaph(program("sssp"), graph, 1, window_mb=0.004, values="low")
    engine.reset(inputs)
    engine.run(1)
    seconds = engine.run(2).transfers.seconds
    assert set(seconds) == {"values", "flags", "packing"}
    assert all(one > 0 for one in seconds.values())


@pytest.mark.parametrize(("codes", "ahead"), [("plain", 4), ("packed", 7)])
def test_first_subgraphs_are_copied_before_they_are_chosen(codes, ahead, run_scaph, monkeypatch):
    """The host queues some copies before it waits for the device, at the beginning and after all have been copied."""
    graph, inputs = problem("pagerank", "rmat", 1)
    given = {"window_mb": 0.0007, "values": "low", "low": "stream", "codes": codes}
    engine, filled = run_scaph(program("pagerank"), graph, 1, **given), []
    fill, counts = SubgraphStreamer.fill, SubgraphCall.counts

    def noted_fill(streamer, slot, names, *edges):
        filled.append(edges)
        fill(streamer, slot, names, *edges)

    def noted_counts(call):
        filled.append("counts")
        return counts(call)

    monkeypatch.setattr(SubgraphStreamer, "fill", noted_fill)
    monkeypatch.setattr(SubgraphCall, "counts", noted_counts)
    found = []
    for _ in range(2):
        filled.clear()
        engine.reset(inputs)
        found.append(engine.run(3).transfers.moved)
        parts = [*filled[:ahead], *filled[ahead + 1 : filled.index("counts", ahead + 1) - ahead]]
        assert len(parts) > ahead + 1
        # The second count of a superstep is that of changes, of which there are none.
        step = ["counts", *parts[ahead:], *parts[:ahead], "counts"]
        assert filled == [*parts[:ahead], *step, *step, "counts", *parts[ahead:], "counts"]
    streamer = engine.executor.streamer
    assert found[0] == found[1]
    assert found[0]["copied"] == 3 * sum(streamer.stored(["out_neighbours"], *edges) for edges in parts)


def test_subgraphs_are_copied_ahead_after_two_sweeps_in_a_row(run_scaph, monkeypatch):
    """The counts are made up: all subgraphs, or only the first one, have an active vertex."""
    graph, inputs = problem("sssp", "rmat", 1)
    engine = run_scaph(program("sssp"), graph, 1, window_mb=0.002, values="high")
    made_up, filled, fill = [], [], SubgraphStreamer.fill

    def noted_fill(*given):
        filled.append("fill")
        fill(*given)

    def counts(call):
        filled.append("counts")
        sweeps, count = made_up.pop(0), len(call.parts)
        assert count > 4
        return [(int(sweeps or number == 0), 1, 1) for number in range(count)]

    monkeypatch.setattr(SubgraphStreamer, "fill", noted_fill)
    monkeypatch.setattr(SubgraphCall, "counts", counts)
    for _ in range(2):  # the second run begins as the first one
        engine.reset(inputs)
        made_up[:], ahead = [True, True, False, True, True, True], []
        for _ in range(6):
            filled.clear()
            engine.run(1)
            ahead.append(filled.index("counts"))
        assert ahead == [0, 0, 4, 0, 0, 4]
    engine.close()
