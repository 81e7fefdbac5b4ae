"""What warps move, on addresses whose counts are known: by hand, and as an H100's counters had them."""

from __future__ import annotations

import numpy as np
import pytest

from harness.transactions import Atomics, Lanes, Loads, atomics, loads, repeated
from harness.transactions.lanes import drawn, warps

LANE = np.arange(32)
ALL = np.ones(32, bool)


def loaded(addresses, size=4, active=ALL):
    return loads(np.array([addresses]), np.array([active]), size, np.ones(1))


def reduced(addresses, active=ALL):
    return atomics(np.array([addresses]), np.array([active]), np.ones(1))


@pytest.mark.parametrize(
    ("addresses", "size", "sectors", "asked"),
    [
        (4 * LANE, 4, 4, 128),  # coalesced
        (0 * LANE, 4, 1, 4),  # all lanes one word
        (4 * (LANE // 2), 4, 2, 64),
        (16 * LANE, 4, 16, 128),  # a feature of rows of four
        (32 * LANE, 4, 32, 128),
        (16 + 4 * LANE, 4, 5, 128),  # across the border of a sector
        (16 * LANE, 16, 16, 512),
        (32 * LANE, 16, 32, 512),
        (16 * (LANE % 8), 16, 4, 128),
        (LANE, 1, 1, 32),
        (0 * LANE, 8, 1, 8),
    ],
)  # fmt: skip
def test_loads_move_each_sector_once(addresses, size, sectors, asked):
    assert loaded(addresses, size) == Loads(1, sectors, asked)


@pytest.mark.parametrize(
    ("addresses", "sectors", "transactions"),
    [
        (4 * LANE, 4, 1),
        (0 * LANE, 32, 32),  # 32 turns at one word
        (4 * (LANE // 2), 4, 2),  # two turns at two sectors of a line
        (4 * (LANE % 8), 4, 4),
        (16 * LANE, 16, 4),  # vector reductions side by side, or a feature of rows of four
        (32 * LANE, 32, 8),
        (128 * LANE, 32, 32),
        (16 * (LANE % 8), 16, 4),
        (16 * (LANE // 2), 16, 4),
    ],
)  # fmt: skip
def test_lanes_at_one_address_take_turns(addresses, sectors, transactions):
    assert reduced(addresses) == Atomics(1, sectors, transactions)


def test_lanes_that_take_no_part_ask_for_nothing():
    assert loaded(4 * LANE, active=LANE < 16) == Loads(1, 2, 64)
    assert loaded(4 * LANE, active=LANE < 0) == Loads(0, 0, 0)
    assert reduced(4 * LANE, active=LANE < 16) == Atomics(1, 2, 1)
    assert reduced(4 * LANE, active=LANE < 0) == Atomics(0, 0, 0)


def test_rows_count_as_often_as_they_stand_for():
    addresses = np.array([4 * LANE, 32 * LANE])
    counted = loads(addresses, np.ones((2, 32), bool), 4, np.array([1.0, 10.0]))
    assert counted == Loads(11, 4 + 320, 11 * 128)
    assert counted.efficiency == pytest.approx(11 * 128 / (324 * 32))
    assert Loads().efficiency is None


def test_a_loop_goes_on_while_any_lane_does():
    lanes = warps(np.array([7]), np.array([3.0])).where(LANE < 2)
    made = repeated(lanes, "e", np.where(LANE == 0, 10, 100), np.where(LANE == 0, 15, 102), 2)
    assert made["e"][:, 0].tolist() == [10, 12, 14]
    assert made["e"][0, 1] == 100
    assert made.active[:, :2].tolist() == [[True, True], [True, False], [True, False]]
    assert not made.active[:, 2:].any()
    assert made.weights.tolist() == [3, 3, 3]
    assert made["unit"][:, 0].tolist() == [7, 7, 7]


def test_a_loop_that_nobody_enters_has_no_steps():
    lanes = warps(np.arange(2), np.ones(2))
    assert len(repeated(lanes, "e", np.int64(5), np.int64(5)).weights) == 0


def test_some_steps_of_a_long_loop_stand_for_all():
    lanes: Lanes = warps(np.arange(3), np.array([1.0, 2.0, 4.0]))
    made = repeated(lanes, "e", np.int64(0), np.int64(100_000))
    assert len(made.weights) < 40_000
    assert made.weights.sum() == pytest.approx(700_000, rel=1e-3)
    assert (made.weights * made["e"][:, 0]).sum() == pytest.approx(7 * 5e9, rel=1e-3)


def test_what_is_drawn_lies_evenly():
    places, times = drawn(10_000, 100)
    assert times == 100
    assert (places // 100 == np.arange(100)).all()
    assert drawn(5, 100)[0].tolist() == [0, 1, 2, 3, 4]
