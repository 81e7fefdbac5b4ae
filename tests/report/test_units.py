"""Numbers as people read them."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from harness.report import memory
from harness.report.page.environment import environment
from harness.report.units import count, percent, quality, seconds, seconds_range, times


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0 us"), (3e-9, "0.003 us"), (9.994e-4, "999 us"), (1e-3, "1 ms"), (0.012345, "12.3 ms"),
        (0.999, "999 ms"), (0.9994, "999 ms"), (0.9996, "1 s"), (9.996e-4, "1 ms"), (1.0, "1 s"), (59.96, "60 s"),
        (1234.0, "1.23e+03 s"),
    ],
)  # fmt: skip
def test_a_time_has_three_digits_and_a_unit(value, text):
    assert seconds(value) == text


@pytest.mark.parametrize(
    ("low", "high", "value", "text"),
    [
        (0.0121, 0.01294, 0.0125, "[12.1, 12.9]"), (0.9, 1.1, 0.95, "[900, 1100]"), (0.9, 1.1, 1.0, "[0.9, 1.1]"),
        (9e-7, 2e-6, 1e-6, "[0.9, 2]"), (1e-8, 2e-8, 1.5e-8, "[0.01, 0.02]"), (900.0, 1234.56, 1000.0, "[900, 1235]"),
        (998.6, 1000.0, 999.4, "[999, 1000]"), (0.98, 1.02, 0.9996, "[0.98, 1.02]"),
    ],
)  # fmt: skip
def test_an_interval_has_the_unit_of_the_value_beside_it(low, high, value, text):
    assert seconds_range(low, high, value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"), (999, "999"), (1000, "1,000"), (9999, "9,999"), (10_000, "10 k"), (20_049, "20 k"),
        (999_000, "999 k"), (999_499, "999 k"), (999_600, "1 M"), (1_000_000, "1 M"), (1_234_567, "1.23 M"),
        (10**9, "1 G"), (999_600_000, "1 G"),
        (117_200_000, "117 M"), (5 * 10**12, "5e+03 G"),
    ],
)  # fmt: skip
def test_a_count_has_all_digits_up_to_9999(value, text):
    assert count(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.000"), (0.9571, "0.957"), (5e-4, "0.001"), (4.99e-4, "5.0e-04"), (-3.7e-6, "-3.7e-06"),
        (-2.5, "-2.500"), (123.4567, "123.457"), (9.9e11, "990000000000.000"), (1e12, "1.0e+12"), (-1e12, "-1.0e+12"),
    ],
)  # fmt: skip
def test_a_metric_has_three_decimals(value, text):
    assert quality(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.994, "99 %"), (0.995, "100 %"), (0.0, "0 %"), (0.1, "10 %"), (0.055, "5.5 %"), (2.0, "200 %")],
)
def test_a_share_has_two_digits_below_one(value, text):
    assert percent(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"), (0.5, "0.5"), (999.4, "999"), (999.6, "1 k"), (1000, "1 k"), (999_499, "999 k"), (999_600, "1 M"),
        (999_600_000, "1 G"), (1_234_567, "1.23 M"),
    ],
)  # fmt: skip
def test_a_count_of_transactions_has_three_digits(value, text):
    assert memory.count(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(999_400_000, "999 MB"), (999_600_000, "1 GB"), (10**9, "1 GB"), (5_000_000, "5 MB")]
)
def test_bytes_of_the_environment_have_three_digits(value, text):
    assert environment([{"environment": {"peak_bytes": value}}]) == [("peak bytes", text)]


def test_a_speed_up_has_three_digits():
    assert [times(value) for value in (3.2749, 1.0, 0.05, 123.4)] == ["3.27×", "1×", "0.05×", "123×"]


SCALES = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "G": 1e9, "M": 1e6, "k": 1e3}


@given(st.floats(1e-6, 999.0))
@example(0.9995)
@example(0.0009995)
@example(0.99951)
@example(9.9951e-4)
def test_a_time_of_any_size_is_between_1_and_1000_of_its_unit_and_right_to_three_digits(value):
    number, unit = seconds(value).split()
    assert "e" not in number
    assert 1 <= float(number) < 1000
    assert float(number) * SCALES[unit] == pytest.approx(value, rel=5.01e-3)
    low, high = seconds_range(0.9 * value, 1.1 * value, value)[1:-1].split(", ")
    assert (float(low) * SCALES[unit], float(high) * SCALES[unit]) == pytest.approx(
        (0.9 * value, 1.1 * value), rel=6e-3
    )


@given(st.integers(10_000, 999 * 10**9))
@example(999_500)
@example(999_501)
@example(999_499_999)
def test_a_count_of_any_size_is_between_1_and_1000_of_its_unit_and_right_to_three_digits(value):
    number, unit = count(value).split()
    assert "e" not in number
    assert 1 <= float(number) < 1000
    assert float(number) * SCALES[unit] == pytest.approx(value, rel=5.01e-3)
