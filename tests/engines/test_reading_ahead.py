"""Scaph on the CPU reads the next subgraph while one is processed, in the order of the schedule."""

from concurrent.futures import Future
from types import SimpleNamespace

import pytest

from engines.outofmemory.scaph import cpu_calls
from engines.outofmemory.scaph.order import Order, SlotTable

SPANS = [(0, 10, None), (10, 30, None), (30, 60, None), (60, 61, None)]
USEFUL = (3, 9, 1, 9)


def fetched(kind, resident=()):
    """Yield the number of each subgraph that is processed, and those whose reading has begun with their slots."""
    calls, begun = cpu_calls.SubgraphCalls.__new__(cpu_calls.SubgraphCalls), []
    slots = SlotTable(3, keeps=True)
    for number in resident:
        slots.put(number % 3, cpu_calls.key_of({}, *SPANS[number][:2]))
    calls.readings = SimpleNamespace(order=Order(kind), slots=slots)
    calls._chosen = [SimpleNamespace(useful=one, resident=n in resident) for n, one in enumerate(USEFUL)]

    def begin(slot, streamed, num_edges, edges, choice):
        number = [one[:2] for one in SPANS].index(edges)
        assert choice is calls._chosen[number]
        assert num_edges == 61
        begun.append((number, slot))
        slots.put(slot, cpu_calls.key_of({}, *edges))
        found = Future()
        found.set_result({"of": number})
        return found

    calls.begin = begin
    for number, arrays in calls._fetched({}, SPANS, 61):
        assert arrays == {"of": number}
        yield number, [one for one, _ in begun], dict(begun)


@pytest.mark.parametrize(
    ("kind", "resident", "order"),
    [("index", (), [0, 1, 2, 3]), ("value", (), [1, 3, 0, 2]), ("zigzag", (2,), [2, 0, 1, 3])],
)
def test_the_next_subgraph_is_read_while_one_is_processed(kind, resident, order):
    found = list(fetched(kind, resident))
    assert [number for number, _, _ in found] == order
    assert [begun for _, begun, _ in found] == [order[:2], order[:3], order, order]
    slots = found[-1][2]
    assert all(slots[number] == number % 3 for number in resident)
    assert set(slots.values()) == {0, 1, 2}
