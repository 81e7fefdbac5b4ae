"""The parts of the Scaph style that need no device: values, the queue of levels, extraction."""

from __future__ import annotations

import itertools
from collections import Counter
from types import SimpleNamespace

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from engines.outofmemory.scaph import packing
from engines.outofmemory.scaph.extraction import groups_of, runs_of_rows, useful_edges
from engines.outofmemory.scaph.levels import LevelQueue
from engines.outofmemory.scaph.order import Order
from engines.outofmemory.scaph.part_times import PartTimes
from engines.outofmemory.scaph.queued import QueuedSuperstep
from engines.outofmemory.scaph.reading import Choice, Readings
from engines.outofmemory.scaph.traffic import Traffic
from engines.outofmemory.scaph.values import LeastTime, Rates, Rule, Values
from engines.outofmemory.schedules import ScaphSchedule

# useful bytes before and now, of 1,000
BY_HAND = [
    (0, 501, True), (501, 501, True), (500, 500, False), (400, 500, True), (600, 500, False), (300, 301, True),
    (301, 301, False), (0, 300, False), (0, 1, False), (0, 1000, True),
]  # fmt: skip


@pytest.mark.parametrize(("before", "useful", "high"), BY_HAND)
def test_the_rule_of_the_paper_by_hand(before, useful, high):
    assert Rule().high(useful, 1000, before) is high
    assert Rule(fixed="high").high(useful, 1000, before)
    assert not Rule(fixed="low").high(useful, 1000, before)


@pytest.mark.parametrize(("useful", "high"), [(499, False), (500, True), (501, True), (0, False)])
def test_the_least_time_by_hand(useful, high):
    """1,000 bytes are copied in 10 seconds, at a rate that is twice that of reading useful ones."""
    assert LeastTime(Rates(100.0, 50.0)).high(useful, 1000, before=0) is high
    assert not LeastTime(Rates(100.0, 100.0)).high(999, 1000, before=0)


def test_values_remember_what_was_useful():
    values = Values(Rule())
    assert not values.high("a", 400, 1000), "it has not grown"
    assert not values.high("a", 400, 1000)
    assert values.high("a", 401, 1000), "it has grown, and exceeds beta"
    assert not values.high("b", 401, 1000), "another subgraph"
    values.reset()
    assert not values.high("a", 402, 1000)


def test_readings_are_chosen_and_counted_by_hand():
    """1,000 bytes are whole; 600 are useful, later 100, of which 180 are read with gaps."""
    readings = Readings(ScaphSchedule(low="extract", alpha=0.5, beta=0.3, slots=4))
    assert readings.choose("a", 600, 1000) == Choice(True, "copied")
    assert readings.choose("a", 100, 1000, 180, stored=400) == Choice(False, "extracted")
    assert readings.choose("b", 600, 1000, stored=400) == Choice(True, "copied")
    assert readings.counted() == {
        "visited": 0, "moved": {"copied": 1400, "extracted": 0}, "subgraphs": {"high": 2, "low": 1, "again": 0},
        "seconds": {},
    }  # fmt: skip
    readings.begin()
    assert readings.counted()["subgraphs"] == {"high": 0, "low": 0, "again": 0}
    assert readings.choose("a", 400, 1000) == Choice(True, "copied"), "it has grown since the last count"
    readings.reset()
    assert readings.choose("a", 400, 1000) == Choice(False, "extracted"), "values are forgotten between runs"


def test_readings_by_time_compare_what_is_read():
    readings = Readings(ScaphSchedule(low="extract", slots=4))
    readings.chosen_by(Rates(100.0, 50.0))
    assert readings.choose("a", 400, 1000, 500) == Choice(True, "copied"), "500 bytes take as long as a copy"
    assert readings.choose("a", 400, 1000, 499) == Choice(False, "extracted")
    assert readings.choose("a", 500, 1000) == Choice(True, "copied"), "the useful bytes are read"


@pytest.mark.parametrize(("low", "means"), [("extract", "extracted"), ("stream", "copied"), ("zero_copy", "zero_copy")])
def test_subgraphs_of_low_value_are_read_by_the_given_means(low, means):
    readings = Readings(ScaphSchedule(low=low, values="low", order="zigzag", slots=5))
    assert readings.choose("a", 999, 1000) == Choice(False, means)
    assert readings.traffic.moved["copied"] == (1000 if means == "copied" else 0)
    assert readings.choose("a", 999, 1000, resident=True) == Choice(False, "resident")
    assert readings.traffic.subgraphs == {"high": 0, "low": 1, "again": 0, "resident": 1}
    assert (Choice(False, means).whole, Choice(False, "resident").whole) == (means == "copied", True)
    assert (readings.slots.keeps, readings.slots.count) == (True, 5)


def test_the_queue_by_hand():
    queue = LevelQueue(3)
    queue.enter(5)
    queue.enter(7)
    assert queue.take() == (5, 1)
    assert queue.drop(5, 1)
    queue.enter(9)
    assert queue.take() == (7, 1)
    assert queue.drop(7, 1)
    assert queue.take() == (9, 1), "what has been read comes before what has been processed"
    assert queue.take() == (5, 2)
    assert queue.drop(5, 2)
    assert queue.evict() == 5, "processed most often"
    assert queue.take() == (7, 2)
    assert queue.drop(7, 2)
    assert queue.take() == (7, 3)
    assert not queue.drop(7, 3)
    assert (queue.take(), len(queue), queue.evict()) == (None, 0, None)


@given(st.integers(1, 4), st.lists(st.integers(0, 2), max_size=60))
def test_a_subgraph_is_processed_at_most_as_often_as_there_are_rounds(rounds, acts):
    queue, processed, number = LevelQueue(rounds), {}, 0
    for act in acts:
        if act == 0:
            queue.enter(number)
            processed[number] = 0
            number += 1
        elif act == 1 and (found := queue.take()) is not None:
            subgraph, level = found
            processed[subgraph] += 1
            assert level == processed[subgraph] <= rounds
            assert queue.drop(subgraph, level) == (level < rounds)
        elif act == 2 and (evicted := queue.evict()) is not None:
            assert processed[evicted] > 0, "one that was never processed is not evicted"
            assert evicted not in queue


degrees = st.lists(st.integers(0, 6), min_size=1, max_size=40)


@pytest.mark.parametrize(("vertices", "groups"), [(0, 0), (1, 1), (31, 1), (32, 1), (33, 2), (64, 2), (65, 3)])
def test_a_table_has_an_entry_for_32_vertices(vertices, groups):
    assert groups_of(vertices) == groups


@given(degrees, st.data(), st.integers(0, 5))
def test_runs_contain_exactly_the_active_rows_and_small_gaps(rows, data, gap):
    offsets = np.concatenate([[0], np.cumsum(rows)])
    flags = np.array(data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows))))
    active = np.flatnonzero(flags)
    wanted = np.repeat(flags, rows)
    found = np.zeros(len(wanted), bool)
    runs = runs_of_rows(offsets, active, gap)
    for first, last in runs:
        assert first < last
        assert not found[first:last].any()
        found[first:last] = True
    assert (found >= wanted).all(), "the last row included"
    assert useful_edges(offsets, active) == wanted.sum()
    between = [int(first - last) for (_, last), (first, _) in itertools.pairwise(runs)]
    assert all(apart > gap for apart in between)
    extra = np.flatnonzero(found & ~wanted)
    if gap == 0:
        assert not len(extra)
    longest = max((len(part) for part in np.split(extra, np.flatnonzero(np.diff(extra) > 1) + 1)), default=0)
    assert longest <= gap


@pytest.mark.short_run(rows=4)
@pytest.mark.parametrize("threads", [1, 2, 3, 7])
@pytest.mark.parametrize(("width", "kind"), [(1, np.uint32), (3, np.uint32), (5, np.uint8)])
def test_packed_rows_are_slices(width, kind, threads, monkeypatch):
    """For any number of threads: rows of all lengths, empty ones, and the last of the subgraph included."""
    monkeypatch.setattr(packing, "FEW", 10)
    packer, rng = packing.Packer(threads), np.random.default_rng(threads)
    for vertices in (1, 31, 32, 33, 300):
        offsets = np.concatenate([[0], np.cumsum(rng.choice([0, 0, 1, 2, 40, 700], 7 + vertices))]).astype(np.int64)
        first, source = 7, rng.integers(0, np.iinfo(kind).max, offsets[-1] * width, kind, endpoint=True)
        for share, whole in ((0.0, 0.0), (0.3, 0.0), (0.3, 0.5), (1.0, 0.0)):
            flags = rng.random(vertices) < share
            flags[-1] |= share > 0
            for group in range(vertices // 32):  # all rows of some groups, after some of the group before
                flags[32 * group : 32 * group + 32] |= rng.random() < whole
            table = np.full((groups_of(vertices), 2), 7, np.uint32)
            edges = packer.mark(flags, offsets, first, table)
            rows = [source[offsets[v] * width : offsets[v + 1] * width] for v in first + np.flatnonzero(flags)]
            wanted = np.concatenate([*rows, np.zeros(0, kind)])
            assert edges * width == len(wanted)
            packed = np.full(len(wanted) + 1, 9, kind)
            packer.copy(table, offsets, first, edges, width, source, packed)
            np.testing.assert_array_equal(packed, [*wanted, 9])
            found = (table[:, :1] >> np.arange(32, dtype=np.uint32)) & 1
            np.testing.assert_array_equal(found.ravel()[:vertices], flags)
            degrees = np.where(flags, np.diff(offsets)[first:], 0)
            before = [degrees[: 32 * group].sum() for group in range(len(table))]
            np.testing.assert_array_equal(table[:, 1], before)


def test_rows_are_packed_on_all_threads_after_a_launch_on_one(monkeypatch):
    """Numba's number of threads for this one is 1 then."""
    packer = packing.Packer()
    packer.compile(np.zeros(2, np.int64))
    given = []
    monkeypatch.setattr(packing, "_mark", lambda parts, threads, *rest: given.append((parts, threads)) or 0)
    pool = int(packing.numba.config.NUMBA_NUM_THREADS)
    for vertices in (packing.FEW * pool, packing.FEW * pool - 1, packing.FEW, 1):
        table = np.zeros((-(-vertices // 32), 2))
        packer.mark(np.ones(vertices, np.bool_), np.zeros(vertices + 1, np.int64), 0, table)
    assert given == [(pool, pool), (pool - 1 or 1,) * 2, (1, 1), (1, 1)], "threads with FEW vertices or more each"


def test_of_those_processed_as_often_the_one_that_has_waited_longest_is_evicted():
    queue = LevelQueue(3)
    for number in (8, 3, 5):
        queue.enter(number)
        queue.take()
        assert queue.drop(number, 1)
    assert [queue.evict() for _ in range(4)] == [8, 3, 5, None]


class Superstep(QueuedSuperstep):
    """A superstep over subgraphs that stay active; ``low``: those of low value."""

    def __init__(self, rounds, slots, numbers, low=(), low_rounds=1):
        place = SimpleNamespace(count=slots, of=lambda key: None, choose=min)
        readings = SimpleNamespace(traffic=Traffic(), slots=place, times=PartTimes(), order=Order())
        super().__init__(SimpleNamespace(rounds=rounds, low_rounds=low_rounds), readings)
        self.numbers, self.low, self.held, self.pushed = numbers, low, {}, []

    def pending(self):
        return dict.fromkeys(self.numbers, 1)

    def key(self, number):
        return number

    def active(self, number):
        return True

    def fetch(self, number, slot):
        assert slot not in self.held, "the slot of another subgraph"
        self.held[slot] = number
        return number not in self.low

    def still(self, number):
        assert number in self.low
        assert self.held[self._loaded[number][0]] == number
        return False

    def released(self, number, slot):
        assert self.held.pop(slot) == number

    def push(self, number, slot, *, again):
        assert self.held[slot] == number
        self.pushed.append((number, again))
        assert len(self.pushed) <= len(self.numbers) * max(self.queue.rounds, self.low_rounds), "it does not end"


@given(st.integers(1, 4), st.integers(3, 6), st.integers(0, 9), st.sets(st.integers(0, 8)), st.integers(1, 3))
def test_a_superstep_processes_each_subgraph_once_and_those_in_memory_up_to_the_rounds(
    rounds, slots, count, low, low_rounds
):
    step = Superstep(rounds, slots, range(count), low, low_rounds)
    step.process()
    first = [number for number, again in step.pushed if not again]
    assert first == list(range(count))
    times = Counter(number for number, _ in step.pushed)
    assert all(number in low or times[number] <= rounds for number in first)
    assert all(times[number] == low_rounds for number in first if number in low)
    assert sum(times.values()) - count == step.traffic.subgraphs["again"]
    assert (len(step.queue), step.held, len(step.free)) == (0, {}, slots)
    if count and count - 1 not in low:
        assert times[count - 1] == rounds, "nothing is read that could take its place"


def test_rows_of_low_value_are_processed_in_a_row_until_they_are_still():
    class Stills(Superstep):
        def still(self, number):
            return self.pushed.count((number, True)) == number

    step = Stills(2, 3, range(4), low=(0, 1, 3), low_rounds=3)
    step.process()
    again = [number for number, again in step.pushed if again and number != 2]
    assert again == [1, 3, 3], "never again, once, and as often as there are rounds"
    assert [number for number, _ in step.pushed if number != 2] == [0, 1, 1, 3, 3, 3]


def test_subgraphs_without_active_vertices_wait_and_leave_at_the_end():
    class Waiting(Superstep):
        def active(self, number):
            return number != 0

    step = Waiting(2, 3, [0, 1, 2])
    step.process()
    assert step.pushed == [(0, False), (1, False), (2, False), (1, True), (2, True)]
    assert (step.traffic.subgraphs["again"], len(step.queue), step.held, len(step.free)) == (2, 0, {}, 3)


@pytest.mark.parametrize("threads", [1, 2, 1000])
def test_rows_are_packed_by_no_more_threads_than_the_pool_has(threads):
    pool = int(packing.numba.config.NUMBA_NUM_THREADS)
    packer = packing.Packer(threads)
    assert (packer.parts, packer.threads) == (threads, min(threads, pool))


def test_a_copy_takes_no_less_time_than_queueing_it():
    """1,000 bytes are copied in 10 seconds; 1,000 or 1,500 are read in place in 20 or 30."""
    least = LeastTime(Rates(100.0, 50.0, queued=25.0))
    assert not least.high(1000, 1000, before=0)
    assert least.high(1500, 1000, before=0)
    assert LeastTime(Rates(100.0, 50.0, queued=5.0)).high(600, 1000, before=0)
    assert LeastTime(Rates(0.0, 0.0)).high(0, 0, before=0)
