"""The lower bound of a time: the largest of its terms."""

from __future__ import annotations

import pytest

from harness.records import RECORD_FILE, RecordError, read_record, validate, write_record
from harness.records.floor import Rates, Work, faster, floor_of, share_of_floor
from tests.records.samples import record

# A cache of 1,000 bytes at 1e6 B/s, memory at 1e3 B/s.
RATES = Rates(levels=[(0, 1e6), (1000, 1e3)], on_chip=100, adds=1e2, wide_adds=4e2, launch=0.5)


def work(moved=(), adds=0, wide=False, launches=0):
    return Work(bytes=list(moved), adds=adds, wide=wide, launches=launches)


@pytest.mark.parametrize(
    ("done", "largest", "seconds"),
    [
        (work([500], launches=1), "launches", 0.5),  # the bytes stay in the cache: 0.5 ms
        (work([5000, 3000], launches=2), "bytes", 4.0 + 2.0),  # all but 1,000 in each superstep come from memory
        (work([5000, 3000], launches=1), "bytes", 3.9 + 1.9),  # one kernel keeps 100 more on the chip
        (work([5000, 3000], launches=20), "launches", 10.0),
        (work([5000], adds=1000, launches=1), "atomics", 10.0),
        (work([5000], adds=1000, wide=True, launches=1), "bytes", 4.0),  # the additions take 2.5 s
    ],
)
def test_a_floor_is_the_largest_of_its_terms(done, largest, seconds):
    floor = floor_of(done, RATES)
    assert (floor["largest"], floor["seconds"]) == (largest, pytest.approx(seconds))
    assert floor["seconds"] == max(floor["terms"].values())


def test_a_floor_says_how_it_was_computed():
    assert floor_of(work([1500, 500], adds=300, launches=2), RATES) == {
        "seconds": 3.0, "largest": "atomics", "terms": {"bytes": 0.5 + 5e-4, "atomics": 3.0, "launches": 1.0},
        "bytes": 2000, "adds": 300, "launches": 2, "rates": RATES,
    }  # fmt: skip


def test_there_is_no_floor_where_nothing_takes_time():
    assert floor_of(work([50]), RATES) is None
    on_a_cpu = Rates(levels=[(1000, 1e3)], on_chip=0, adds=None, wide_adds=None, launch=None)
    assert floor_of(work([900], adds=7, launches=3), on_a_cpu) is None
    assert floor_of(work([1900], adds=7, launches=3), on_a_cpu)["terms"] == {
        "bytes": pytest.approx(0.9), "atomics": 0.0, "launches": 0.0,
    }  # fmt: skip


def test_wide_additions_are_never_slower_than_single_ones():
    floor = floor_of(work([0], adds=1000, wide=True, launches=1), {**RATES, "wide_adds": 10.0})
    assert floor["terms"]["atomics"] == 10.0


def test_the_higher_rate_of_two_measurements_is_kept():
    other = Rates(levels=[(0, 2e6), (1000, 5e2)], on_chip=100, adds=5e1, wide_adds=None, launch=0.25)
    assert faster(RATES, other) == {
        "levels": [(0, 2e6), (1000, 1e3)], "on_chip": 100, "adds": 1e2, "wide_adds": 4e2, "launch": 0.25,
    }  # fmt: skip


ONE: Rates = {"levels": [(10, 5.0), (20, 7.0)], "on_chip": 3, "adds": 1.0, "wide_adds": 9.0, "launch": 2.0}


@pytest.mark.parametrize(
    ("other", "found"),
    [
        ({}, {}),
        ({"levels": [(11, 4.0), (19, 8.0)]}, {"levels": [(11, 5.0), (20, 8.0)]}),
        ({"adds": 2.0, "wide_adds": 8.0}, {"adds": 2.0}),
        ({"adds": 0.5, "wide_adds": 10.0}, {"wide_adds": 10.0}),
        ({"adds": None, "wide_adds": None, "launch": None}, {}),
        ({"launch": 1.0}, {"launch": 1.0}),
        ({"launch": 3.0}, {}),
    ],
)
def test_the_higher_of_two_measurements_of_each_rate_counts_in_either_order(other, found):
    both = {**ONE, **found}
    assert faster(ONE, {**ONE, **other}) == faster({**ONE, **other}, ONE) == both
    nothing = {**ONE, "adds": None, "wide_adds": None, "launch": None}
    assert faster(nothing, nothing) == nothing


def test_a_record_carries_a_floor(tmp_path):
    floor = floor_of(work([1250], launches=1), RATES)
    write_record(tmp_path, record(floor=floor))
    read = read_record(tmp_path / RECORD_FILE)
    assert read["floor"]["rates"]["levels"] == [[0, 1e6], [1000, 1e3]]
    assert share_of_floor(read) == pytest.approx(0.5)  # the median is a second
    assert share_of_floor(record(floor=floor, outcome="wrong")) is None
    with pytest.raises(RecordError, match="floor"):
        validate({**record(), "floor": {**floor, "largest": "luck"}})
