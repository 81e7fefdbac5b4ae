from __future__ import annotations

import random
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest_benchmark.stats import Stats
from scipy.stats import binom

from harness.campaign.cell import Measure
from harness.records.benchmarks import exported
from harness.records.statistics import CONFIDENCE, Interval, median_interval
from tests.records.samples import record

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


@pytest.mark.parametrize(
    ("count", "confidence"), [(1, 0.0), (2, 0.5), (3, 0.75), (5, 0.9375), (6, 0.96875), (7, 0.984375)]
)
def test_few_samples_give_their_range_with_its_real_confidence(count, confidence):
    samples = [float(value) for value in range(1, count + 1)]
    found = median_interval(samples)
    assert found == Interval(statistics.median(samples), 1.0, float(count), confidence)
    assert found.sufficient is (count >= 6)


@pytest.mark.parametrize("count", [10, 15, 40, 300])
def test_the_confidence_is_the_share_of_signs_that_the_interval_covers(count):
    """The interval misses the median if too few samples are on one side of it: a binomial tail, from SciPy."""
    samples = [float(value) for value in range(count)]
    found = median_interval(samples)
    left_out = int(found.low)
    assert found.high == count - 1 - left_out
    assert found.confidence == pytest.approx(1 - 2 * binom.cdf(left_out, count, 0.5))
    assert 1 - 2 * binom.cdf(left_out + 1, count, 0.5) < 0.975 <= found.confidence


@pytest.mark.parametrize("spread", [0.02, 0.5])
@pytest.mark.parametrize("count", [3, 6, 7, 12])
def test_the_interval_covers_the_true_median_as_often_as_it_says(count, spread):
    draw = random.Random(7)
    trials = 2000
    covered = 0
    for _ in range(trials):
        found = median_interval([draw.lognormvariate(0.0, spread) for _ in range(count)])
        covered += found.low <= 1.0 <= found.high
    deviation = (found.confidence * (1 - found.confidence) / trials) ** 0.5
    assert covered / trials == pytest.approx(found.confidence, abs=4 * deviation)


def test_the_confidence_of_the_default_number_of_samples_holds_for_a_ratio():
    assert median_interval([1.0] * Measure().repetitions).confidence ** 2 >= CONFIDENCE


def test_the_median_of_nothing_is_refused():
    with pytest.raises(ValueError, match="at least one repetition"):
        median_interval([])


def test_the_width_is_relative_to_the_median():
    assert Interval(1.0, 0.9, 1.1, 0.95).width == pytest.approx(0.2)
    assert Interval(0.0, 0.0, 0.0, 0.95).width == 0.0


@given(st.lists(st.floats(0.5, 2.0), min_size=1, max_size=9))
def test_statistics_are_those_of_pytest_benchmark(samples):
    wanted = Stats()
    for sample in samples:
        wanted.update(sample)
    names = ("min", "max", "mean", "stddev", "rounds", "median", "ops", "total", "stddev_outliers")
    made = record()
    made["solve"]["samples"] = samples
    [benchmark] = exported([made])["benchmarks"]
    found = benchmark["stats"]
    assert {name: found[name] for name in names} == pytest.approx({name: getattr(wanted, name) for name in names})
    ordered = sorted(samples)
    lower, upper = (half[: -(-len(samples) // 2)] for half in (ordered, ordered[::-1]))  # with the one in the middle
    q1, q3 = np.median(lower), np.median(upper)
    assert [found[name] for name in ("q1", "q3", "iqr")] == pytest.approx([q1, q3, q3 - q1])
    near = [one for one in ordered if found["q1"] - 1.5 * found["iqr"] <= one <= found["q3"] + 1.5 * found["iqr"]]
    assert (found["ld15iqr"], found["hd15iqr"]) == (near[0], near[-1])
    assert found["iqr_outliers"] == len(samples) - len(near)
    assert found["outliers"] == f"{found['stddev_outliers']};{found['iqr_outliers']}"
    assert (found["data"], found["iterations"]) == (samples, 1)
