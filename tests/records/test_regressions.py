"""Verdicts on changes at their exact boundaries: thresholds, intervals that touch 1, turns that end together."""

from __future__ import annotations

import datetime as dt

import pytest

from harness.records.regressions import Change, Turn, changes
from harness.records.statistics import Interval

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("low", "median", "high", "verdict"),
    [
        (1.0, 2.0, 3.0, "no difference"), (0.5, 0.5, 1.0, "no difference"), (1.0, 1.0, 1.0, "no difference"),
        (1.001, 1.25, 2.0, "within the threshold"), (1.001, 1.26, 2.0, "slower"), (1.001, 1.24, 2.0,
        "within the threshold"), (0.5, 0.8, 0.999, "within the threshold"), (0.5, 0.79, 0.999, "faster"),
        (0.5, 0.81, 0.999, "within the threshold"),
    ],
)  # fmt: skip
def test_a_change_of_exactly_the_threshold_is_within_it(low, median, high, verdict):
    """The threshold is a quarter: 1.25 times as long, or 0.8 times."""
    change = Change("a", Interval(median, low, high, 0.99), threshold=0.25)
    assert change.verdict == verdict
    assert Change("a", change.ratio, 0.25, doubt="of something").verdict == "cannot tell"


@pytest.mark.parametrize(
    ("later", "doubt"), [(0, "the measurements of the two sides were not interleaved"), (1, ""), (-1, "")]
)
def test_pairs_that_end_together_are_not_interleaved(later, doubt):
    """The second turn of a pair ends 2 minutes after the first; the next pair begins ``later`` minutes after that."""
    ends = [number * (2 + abs(later)) for number in range(7)]
    before, after = (
        [Turn((seconds,), START + dt.timedelta(minutes=end + shift)) for end in ends]
        for seconds, shift in ((1.0, 0 if later >= 0 else 2), (2.0, 2 if later >= 0 else 0))
    )
    [change] = changes({"a": before}, {"a": after})
    assert change.doubt == doubt
    assert change.verdict == ("cannot tell" if doubt else "slower")


def test_turns_without_a_partner_do_not_count():
    """The last turns of the longer side have none."""
    turns = [Turn((1.0,), START + dt.timedelta(minutes=minute)) for minute in range(20)]
    for before, after in ((turns[0:14:2], turns[1:20:2]), (turns[0:20:2], turns[1:14:2])):
        [change] = changes({"a": before}, {"a": after})
        assert (change.verdict, change.ratio.confidence) == ("no difference", 1 - 2.0**-6)
    assert changes({}, {"a": turns}) == changes({"a": turns}, {}) == changes({}, {}) == []
