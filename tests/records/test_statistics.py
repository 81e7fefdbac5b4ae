from __future__ import annotations

import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.records.statistics import Interval, median_interval

TIMES = st.lists(st.floats(1e-6, 1e3), min_size=1, max_size=40)


@given(TIMES)
def test_the_interval_holds_the_median_and_stays_within_the_samples(samples):
    found = median_interval(samples)
    assert found.median == statistics.median(samples)
    assert min(samples) <= found.low <= found.median <= found.high <= max(samples)


@given(TIMES)
def test_the_same_samples_give_the_same_interval(samples):
    assert median_interval(samples) == median_interval(samples)


@given(TIMES, st.floats(0.1, 10))
def test_the_interval_scales_with_the_times(samples, factor):
    found, scaled = median_interval(samples), median_interval([factor * sample for sample in samples])
    assert scaled.low == pytest.approx(factor * found.low)
    assert scaled.high == pytest.approx(factor * found.high)


@pytest.mark.parametrize(("count", "confidence"), [(1, 0.0), (2, 0.5), (3, 0.75), (5, 0.9375)])
def test_few_samples_give_their_range_and_what_it_is_worth(count, confidence):
    samples = [float(value) for value in range(1, count + 1)]
    assert median_interval(samples) == Interval(statistics.median(samples), 1.0, float(count), confidence)


def test_the_interval_covers_the_true_median_about_as_often_as_it_says():
    draw = random.Random(7)
    covered = 0
    for _ in range(200):
        found = median_interval([draw.lognormvariate(0.0, 0.5) for _ in range(15)])
        covered += found.low <= 1.0 <= found.high
    assert 0.88 <= covered / 200 <= 1.0


def test_one_sample_tells_no_difference():
    assert median_interval([1.0]).overlaps(median_interval([5.0] * 9))


def test_the_median_of_nothing_is_refused():
    with pytest.raises(ValueError, match="at least one repetition"):
        median_interval([])


def test_overlap_and_width():
    one = Interval(1.0, 0.9, 1.1, 0.95)
    assert one.width == pytest.approx(0.2)
    assert one.overlaps(Interval(1.2, 1.1, 1.3, 0.95))
    assert not one.overlaps(Interval(1.3, 1.2, 1.4, 0.95))
