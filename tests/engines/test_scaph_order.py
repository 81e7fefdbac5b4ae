"""The Scaph style on the CPU: orders of subgraphs, those that stay in slots, and useful bytes of every superstep."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from engines.outofmemory.scaph.activity import KINDS, ActivityLog
from engines.outofmemory.scaph.order import Order, SlotTable
from engines.outofmemory.scaph.part_times import PartTimes
from harness.contract import RunStatistics, ScheduleError
from harness.graph.generators import rmat
from harness.language.reference import ReferenceRun
from tests.engines.problems import ALGORITHMS, new_engine, prepared, problem, program
from tests.engines.test_scaph import compared

SMALL = {"window_mb": 0.004}


def test_orders_by_hand():
    useful = {3: 10, 0: 5, 7: 10, 1: 20}
    assert Order("index").arranged(useful) == [0, 1, 3, 7]
    assert Order("value").arranged(useful) == [1, 3, 7, 0]
    zigzag = Order("zigzag")
    assert zigzag.arranged(useful, {3}) == [3, 0, 1, 7]
    assert zigzag.arranged(useful, {0, 1}) == [1, 0, 7, 3]
    zigzag.reset()
    assert zigzag.arranged(useful) == [0, 1, 3, 7]


def test_slots_by_hand():
    slots = SlotTable(3, keeps=True)
    for number in range(3):
        slots.put(slots.choose(), f"subgraph {number}")
    assert slots.of("subgraph 0") is not None
    slots.put(slots.choose(), None)  # parts of a subgraph
    assert slots.of("subgraph 0") is None, "it was used longest ago"
    parts = slots.choose(set(range(3)) - {slots.of("subgraph 1"), slots.of("subgraph 2")})
    slots.put(slots.of("subgraph 1"), "subgraph 1")
    assert slots.choose() == parts, "a slot without a whole subgraph comes first"
    slots.forget()
    assert slots.of("subgraph 2") is None
    forgetful = SlotTable(2)
    forgetful.put(0, "a")
    assert forgetful.of("a") is None


@given(st.lists(st.tuples(st.integers(0, 9), st.booleans()), max_size=40), st.integers(2, 5))
def test_a_slot_has_what_was_put_there_last(puts, count):
    slots, holds, latest = SlotTable(count, keeps=True), {}, None
    for number, whole in puts:
        slot = slots.of(number) if whole and slots.of(number) is not None else slots.choose()
        assert slot in (latest, *range(count))
        assert slot != latest or slots.of(number) == latest, "the slot used last is not overwritten"
        slots.put(slot, number if whole else None)
        holds[slot], latest = number if whole else None, slot
        for one in range(10):
            found = slots.of(one)
            assert found is None or holds[found] == one
            assert (found is not None) == (one in holds.values())


def test_inner_parts_do_not_count_for_outer_ones(monkeypatch):
    now = iter([0.0, 1.0, 3.0, 6.0, 7.0, 9.0])
    monkeypatch.setattr("engines.outofmemory.scaph.part_times.time.perf_counter", lambda: next(now))
    times = PartTimes()
    with times.part("queue"), times.part(""), times.part("values"):  # from 0 to 9, from 1 to 7, and from 3 to 6
        pass
    assert times.seconds == {"queue": 3.0, "values": 3.0}


@pytest.mark.short_run(rows=3)
@pytest.mark.parametrize(("name", "features"), [("sssp", 3), ("pagerank", 3)])
@pytest.mark.parametrize("order", ["value", "zigzag"])
@pytest.mark.parametrize("options", [{"slots": 2, "alpha": 0.3}, {"values": "high"}], ids=str)
def test_synchronous_supersteps_are_right(options, order, name, features):
    graph, inputs = problem(name, "rmat", features)
    engine = prepared("scaph", {**SMALL, **options, "order": order}, program(name), graph, features)
    first = None
    for _ in range(2):
        found, expected, taken = compared(engine, name, graph, inputs, features, 8)
        assert found.ok, found.detail
        assert len(taken.supersteps) == len(expected.supersteps)
        first = first or taken.transfers
        assert taken.transfers == first, "equal runs are equal: a run begins with empty slots"
        assert taken.transfers.seconds["values"] > 0
    assert first.subgraphs.get("resident", 0) >= 4 * (order == "zigzag")
    engine.close()


@pytest.mark.short_run(rows=3)
@pytest.mark.parametrize("name", ["sssp", "components"])
@pytest.mark.parametrize("order", ["value", "zigzag"])
@pytest.mark.parametrize("options", [{"rounds": 2}, {"rounds": 3, "values": "high", "slots": 3}], ids=str)
def test_queued_subgraphs_settle_at_the_answer(options, order, name):
    graph, inputs = problem(name, "rmat", 1)
    engine = prepared("scaph", {**SMALL, **options, "order": order}, program(name), graph, 1)
    first = None
    for _ in range(2):
        found, _, taken = compared(engine, name, graph, inputs, 1, 400)
        assert found.ok, found.detail
        first = first or taken.transfers
        assert taken.transfers == first
        assert taken.transfers.seconds["queue"] > 0
    if order == "zigzag":
        assert first.subgraphs["resident"] > 0
    engine.close()


@pytest.mark.parametrize("slots", [2, 3, 5])
def test_subgraphs_in_slots_are_not_read_again(slots):
    """All subgraphs have active vertices in these supersteps, so that each reads all but those in slots."""
    graph = rmat(scale=9, edge_factor=16, seed=5)
    inputs = ALGORITHMS["pagerank"].inputs(graph, 3)
    options = {"window_mb": 0.004, "low": "stream", "values": "low", "slots": slots}
    moved = {}
    for order in ("index", "zigzag"):
        engine = prepared("scaph", {**options, "order": order}, program("pagerank"), graph, 3)
        engine.reset(inputs)
        moved[order] = [engine.run(1).transfers for _ in range(4)]
        engine.close()
    whole = moved["index"][0]
    subgraphs = whole.subgraphs["low"]
    assert subgraphs > slots
    assert all(one.moved["copied"] == whole.moved["copied"] == 4 * graph.num_edges for one in moved["index"])
    assert moved["zigzag"][0].moved == whole.moved
    for one, same in zip(moved["zigzag"][1:], moved["index"][1:], strict=True):
        assert (one.subgraphs["resident"], one.subgraphs["low"]) == (slots, subgraphs - slots)
        assert one.visited == same.visited
        assert 0 < whole.moved["copied"] - one.moved["copied"] <= slots * 4000


def test_the_order_of_values_is_that_of_useful_bytes(monkeypatch):
    graph, inputs = problem("sssp", "rmat", 1)
    engine = prepared("scaph", {**SMALL, "order": "value", "values": "high"}, program("sssp"), graph, 1)
    arranged, orders = Order.arranged, []
    monkeypatch.setattr(Order, "arranged", lambda *given: orders.append((given[1], arranged(*given))) or orders[-1][1])
    engine.reset(inputs)
    engine.run(3)
    for useful, order in orders:
        assert sorted(useful.values(), reverse=True) == [useful[number] for number in order]
    assert any(order != sorted(order) for _, order in orders)
    engine.close()


# useful bytes ---------------------------------------------------------------------------------------------------------
def activity(name, graph, inputs, supersteps):
    """Return the active vertices of every superstep by the reference: those with a finite value, and then those that
    changed before."""
    (output,) = program(name).outputs
    run = ReferenceRun(program(name), graph, 1)
    run.reset(inputs)
    found = [np.isfinite(run.values(output)).ravel()]
    for _ in range(supersteps - 1):
        before = run.values(output)
        run.run(1)
        found.append(run.values(output).ravel() != before.ravel())
    return found


def expected_data(name, graph, inputs, supersteps, edge_bytes, first=0):
    """Return the bytes of each kind by their definitions, one superstep after the other, from the ``first`` one on."""
    active, degrees = activity(name, graph, inputs, supersteps)[first:], np.diff(graph.csr.offsets)
    found = {kind: [] for kind in KINDS}
    for number, now in enumerate(active):
        later = np.any([np.zeros_like(now), *active[number + 1 :]], axis=0)
        for kind, some in zip(KINDS, (now, later & ~now, ~later & ~now), strict=True):
            found[kind].append(edge_bytes * int(degrees[some].sum()))
    return found


@pytest.mark.parametrize(("name", "graph_name"), [("bfs", "rmat"), ("sssp", "grid"), ("components", "chain")])
def test_useful_bytes_are_those_of_the_definitions(name, graph_name):
    graph, inputs = problem(name, graph_name, 1)
    size = 0.004 if graph_name == "rmat" else 0.0002
    engine = prepared("scaph", {"window_mb": size, "counters": True}, program(name), graph, 1)
    for _ in range(2):
        engine.reset(inputs)
        taken = engine.run(100)
        assert taken.settled
        data, row = taken.transfers.data, engine.prepared.planned.windows.edge_bytes
        assert data == expected_data(name, graph, inputs, len(taken.supersteps), row)
        assert {sum(kinds) for kinds in zip(*data.values(), strict=True)} == {row * graph.num_edges}
        assert sum(data["useful"]) == taken.transfers.visited
    engine.close()


PARTS = [(1, 6), (2, 5), (3, 4), (1, 1, 1, 4), (2, 1, 3, 1)]
OPTIONS = [{}, {"values": "low"}, {"values": "high"}, {"order": "value"}, {"order": "zigzag", "slots": 2}]


def check_useful_bytes_in_parts(engine, name, graph, inputs, edge_bytes, parts):
    """Run in one part and in several: rows are read as often, and useful later if a superstep of the part reads them.

    ``engine``: prepared with counters.
    """
    engine.reset(inputs)
    whole = engine.run(sum(parts))
    assert len(whole.supersteps) > parts[0]
    for _ in range(2):
        engine.reset(inputs)
        together, done = RunStatistics(settled=False), 0
        for most in parts:
            found = engine.run(most)
            end = done + len(found.supersteps)
            assert found.transfers.data == expected_data(name, graph, inputs, end, edge_bytes, done)
            together, done = together.followed_by(found), end
        assert (together.settled, together.supersteps) == (whole.settled, whole.supersteps)
        for field in ("visited", "moved", "requests", "subgraphs"):
            assert getattr(together.transfers, field) == getattr(whole.transfers, field), field
        assert together.transfers.data["useful"] == whole.transfers.data["useful"]


@pytest.mark.short_run(rows=10**6)
@pytest.mark.parametrize("parts", PARTS, ids=str)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_useful_bytes_of_a_run_in_several_parts(options, parts):
    graph, inputs = problem("sssp", "rmat", 1)
    engine = prepared("scaph", {**SMALL, **options, "counters": True}, program("sssp"), graph, 1)
    row = engine.prepared.planned.windows.edge_bytes
    check_useful_bytes_in_parts(engine, "sssp", graph, inputs, row, parts)
    engine.close()


def test_rows_that_two_kernels_read_count_once():
    log = ActivityLog(np.array([0, 2, 5, 9]), 4)
    log.note(0, np.array([0, 1]))
    log.note(0, np.array([1, 2]))
    log.note(2, np.array([1]))
    assert log.data(3) == {
        "useful": [4 * 9, 0, 4 * 3], "potentially useful": [0, 4 * 3, 0], "never used": [0, 4 * 6, 4 * 6],
    }  # fmt: skip


def test_counters_of_supersteps_exclude_rounds():
    with pytest.raises(ScheduleError, match="counters=true counts by supersteps, and rounds=2"):
        new_engine("scaph", {"counters": True, "rounds": 2})


def test_counters_are_priced():
    graph, _ = problem("sssp", "rmat", 1)
    needed = []
    for counters in (False, True):
        engine = prepared("scaph", {**SMALL, "counters": counters}, program("sssp"), graph, 1)
        needed.append(engine.prepared.planned.bytes_needed)
        engine.close()
    assert needed[1] - needed[0] == 4 * graph.num_vertices
