"""The script of a page in Node.js: how numbers are written, which ticks axes have, and which values a plot shows."""

from __future__ import annotations

import json

import pytest

from harness.report.page.ticks import round_values
from harness.report.units import count, percent, seconds, seconds_range
from tests.report.node import evaluated

TIMES = [0.0, 4.2e-9, 9.996e-7, 1e-6, 9.994e-4, 1e-3, 1.0204e-3, 0.012345, 0.999, 1.0, 59.96, 999.0]
COUNTS = [0, 1, 999, 1000, 9999, 10_000, 20_049, 999_000, 1_000_000, 1_234_567, 10**9, 117_200_000_000]


def texts(unit, values, digits, **axis):
    """Return values of an axis as the script writes them with a number of digits."""
    axis = json.dumps({"unit": unit, **axis})
    return evaluated(["format"], [f"valueText({axis}, {value!r}, {digits})" for value in values])


def test_ticks_are_written_as_in_the_tables():
    assert texts("seconds", TIMES, 3) == ["0 s", *map(seconds, TIMES[1:])]
    assert texts("count", COUNTS, 3) == list(map(count, COUNTS))
    assert texts("percent", [0.1, 0.25, 1.0], 3) == list(map(percent, (0.1, 0.25, 1.0)))
    assert texts("number", [0.0, -2.5, 1234.5678, 1e-7], 3) == ["0", "-2.5", "1230", "1e-7"]
    assert texts("name", [0.0, 0.9, 2.0], 3, names=["a", "b"]) == ["a", "b", ""]


@pytest.mark.parametrize(
    ("unit", "value", "text"),
    [
        ("seconds", 1.23456e-3, "1.235 ms"), ("seconds", 0.0, "0 s"), ("seconds", 9.9e-7, "0.99 us"),
        ("seconds", 61.239, "61.24 s"), ("count", 1_234_567, "1,234,567"), ("count", 9.6, "10"),
        ("percent", 0.123456, "12.35 %"), ("number", 0.123456, "0.1235"),
    ],
)  # fmt: skip
def test_a_value_that_is_read_has_four_digits(unit, value, text):
    assert texts(unit, [value], "EXACT") == [text]


@pytest.mark.parametrize(
    ("low", "high", "value"),
    [(0.98e-3, 1.05e-3, 1.02e-3), (0.98e-3, 1.05e-3, 0.99e-3), (0.9, 1.1, 0.95), (0.9, 1.1, 1.0), (9e-7, 2e-6, 1e-6)],
)
def test_an_interval_has_the_unit_of_the_value_beside_it(low, high, value):
    [text] = evaluated(["format"], [f"intervalText({{unit: 'seconds'}}, {low!r}, {high!r}, {value!r})"])
    assert text == seconds_range(low, high, value)
    assert evaluated(["format"], ["intervalText({unit: 'number'}, 0.0012, 12.34567, 0.5)"]) == ["[0.0012, 12.35]"]


@pytest.mark.parametrize(
    ("low", "high", "log", "unit"),
    [
        (0.0, 1.0, False, "number"), (0.3, 41.0, False, "seconds"), (1, 6, False, "count"), (1, 2, False, "count"),
        (1e-3, 0.2, True, "seconds"), (1e-6, 30.0, True, "seconds"), (0.5, 13.0, True, "count"),
        (0.5, 4000.0, True, "count"), (1.1e-3, 1.3e-3, True, "seconds"), (0, 3, False, "name"), (-7.0, 7.0, False, "number"),
    ],
)  # fmt: skip
def test_interactive_plots_have_the_ticks_of_the_drawings(low, high, log, unit):
    axis = json.dumps({"unit": unit, "log": log})
    [found] = evaluated(["format"], [f"ticksOf({axis}, [{low!r}, {high!r}])"])
    assert found == pytest.approx(list(round_values(low, high, logarithmic=log, whole=unit in ("count", "name"))))


def test_an_axis_has_its_own_ticks_where_one_is_in_the_range():
    axis = "{unit: 'count', ticks: [1, 4, 16, 64]}"
    assert evaluated(["format"], [f"ticksOf({axis}, [4, 16])", f"ticksOf({axis}, [5, 15])"]) == [
        [4, 16], [6, 8, 10, 12, 14],
    ]  # fmt: skip
