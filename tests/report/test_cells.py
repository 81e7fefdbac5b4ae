"""The page's table of cells and its heat map: the entries of a record, exactly."""

from __future__ import annotations

import math

import pytest

from harness.records import Mark
from harness.report.page.cells import COLUMNS, Entry, cell_row
from harness.report.page.heat import block_title, heat_map
from harness.report.page.links import Links
from harness.report.series import comparisons, engines_of
from tests.records.samples import accurate_record, record, solved

ABSENT = ("–", None, "", "absent")


def row(mine, *others, baseline="slow", links=None):
    """Return the entries of a record beside others: (text, value, aside, style) by column."""
    [group] = comparisons([mine, *others], baseline)
    made = cell_row(group, mine, links) if links else cell_row(group, mine)
    entries = {column.title: entry for column, entry in zip(COLUMNS, made["entries"], strict=True)}
    return {name: (entry.text, entry.value, entry.aside, entry.style) for name, entry in entries.items()}


SLOW = record("slow", (4.0, 3.9, 4.1))


def test_every_entry_of_a_correct_run():
    assert row(record("fast", (1.0, 0.98, 1.02)), SLOW) == {
        "graph": ("ring", None, "", ""),
        "algorithm": ("flood", None, "", ""),
        "k": ("8", 8.0, "", ""),
        "engine": ("fast", None, "", ""),
        "outcome": ("ok", None, "", "ok"),
        "solve": ("1 s", 1.0, "[0.98, 1.02]", ""),
        "to accuracy": ABSENT,
        "speed-up": ("4×", 4.0, "[3.82, 4.18]", "gain"),
        "supersteps": ("2", 2.0, "", ""),
        "a superstep": ("500 ms", 0.5, "", ""),
        "floor": ABSENT,
        "edges visited": ("20.1 k", 20_100.0, "", ""),
        "edges/s": ("20.1 k", 20_100.0, "", ""),
        "error": ("1.2e-07", 1.25e-7, "", ""),
        "quality": ("accuracy 0.975", None, "", ""),
        "whole cell": ("1.5 s", 1.5, "", ""),
        "files": ABSENT,
    }


def test_every_entry_of_a_failure():
    lost = record("fast", None, outcome="out_of_memory", supersteps=[], validation=None, metrics={}, settled=None)
    found = row(lost, SLOW)
    shown = {name: entry for name, entry in found.items() if entry != ABSENT}
    assert shown == {
        "graph": ("ring", None, "", ""), "algorithm": ("flood", None, "", ""), "k": ("8", 8.0, "", ""),
        "engine": ("fast", None, "", ""), "outcome": ("out_of_memory", None, "", "failed"),
        "whole cell": ("1.5 s", 1.5, "", ""),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("mine", "entry"),
    [
        (record("fast", (8.0, 7.9, 8.1)), ("0.5×", 0.5, "[0.481, 0.519]", "loss")),
        (record("fast", (3.95, 3.8, 4.05)), ("≈", pytest.approx(4 / 3.95), "[0.963, 1.08]", "")),
        (record("fast", (1.0, 0.98, 1.02), solve=solved([1.0] * 3)), ("?", None, "too few samples", "")),
        (record("fast", (1.0, 0.98, 1.02), marks=[Mark.BUSY]), ("?", None, "disturbed", "")),
        (record("fast", (1.0, 0.98, 1.02), settled=False), ("n/c", None, "not comparable: did not converge", "")),
        (record("fast", (1.0, 0.98, 1.02), sweep="f" * 12), ABSENT),
        (record("fast", (1.0, 0.98, 1.02), outcome="wrong"), ABSENT),
        (record("slow", (4.0, 3.9, 4.1)), ("1×", 1.0, "baseline", "")),
    ],
    ids=["slower", "equal", "few samples", "disturbed", "unsettled", "another sweep", "wrong", "baseline"],
)
def test_a_speed_up_or_the_reason_for_none(mine, entry):
    if mine["sweep"] == SLOW["sweep"]:
        others = [] if entry[2] == "baseline" else [SLOW]
        assert row(mine, *others)["speed-up"] == entry
    else:
        assert row(mine)["speed-up"] == entry


def test_times_that_are_marked_and_runs_to_equal_accuracy():
    fast = accurate_record("fast", (1.0, 0.98, 1.02), 7, [0.5] * 7, marks=[Mark.NOISY])
    found = row(fast, accurate_record("slow", (4.0, 3.9, 4.1), 9, [3.0] * 7))
    assert found["solve"] == ("1 s", 1.0, "[0.98, 1.02] *", "")
    assert found["to accuracy"] == ("500 ms", 0.5, "superstep 7, [500, 500]", "")
    assert found["speed-up"] == ("6×", 6.0, "[6, 6]", "gain")
    by_tolerance = {**fast, "accuracy": {**fast["accuracy"], "superstep": None, "tolerance": 1e-5}}
    assert row(by_tolerance, SLOW)["to accuracy"] == ("500 ms", 0.5, "tolerance 1.0e-05, [500, 500]", "")
    untimed = {**fast, "accuracy": {**fast["accuracy"], "solve": None, "error": 2.0, "bound": 1.0}}
    assert row(untimed, SLOW)["to accuracy"] == ("not reached", None, "", "")
    exact = {**fast, "accuracy": {**fast["accuracy"], "solve": None, "error": 1.0, "bound": 1.0}}
    assert row(exact, SLOW)["to accuracy"] == ("not timed", None, "", "")


def test_work_that_was_not_counted_and_runs_that_did_not_settle():
    found = row(record("fast", (1.0, 0.98, 1.02), supersteps=[]), SLOW)
    assert found["supersteps"] == ("not counted", None, "", "absent")
    assert found["a superstep"] == found["edges visited"] == found["edges/s"] == ABSENT
    assert row(record("fast", settled=False), SLOW)["supersteps"] == ("2", 2.0, "not settled", "")


@pytest.mark.parametrize(
    ("error", "entry"),
    [(0.0, ("0", 0.0)), (math.inf, ("inf", math.inf)), (math.nan, ("nan", None)), (3e-5, ("3.0e-05", 3e-5))],
)
def test_errors_have_a_value_to_sort_by_unless_they_are_no_number(error, entry):
    validation = {"ok": error == 0, "error": error, "bound": 1e-4, "detail": "", "against": "a plain loop"}
    assert row(record("fast", validation=validation), SLOW)["error"][:2] == entry


def test_limits_unknown_features_and_files():
    limited = record("fast", config={**record()["config"], "max_supersteps": 5}, features=None)
    found = row(limited, links=Links(files={"c" * 24: (("output", "a/output.txt"),)}))
    assert found["algorithm"] == ("flood", None, "at most 5 supersteps", "")
    assert found["k"] == ("auto", None, "", "")
    assert found["files"] == ("", None, "", "")
    [group] = comparisons([limited], None)
    made = cell_row(group, limited, Links(files={"c" * 24: (("output", "a/output.txt"),)}))
    assert made["entries"][-1].links == (("output", "a/output.txt"),)
    assert (made["graph"], made["algorithm"], made["outcome"]) == ("ring", "flood", "ok")


def test_values_are_sorted_as_numbers_of_the_script():
    assert Entry("x", 0.123456789).sorted_by == "0.123457"
    assert Entry("x", math.inf).sorted_by == "Infinity"


@pytest.mark.parametrize(
    ("mine", "text", "style", "title"),
    [
        (record("fast", (1.0, 0.98, 1.02)), "4×", "faster6", "1 s, 3.82 to 4.18"),
        (record("fast", (3.0, 2.98, 3.02)), "1.33×", "faster1", "3 s, 1.29 to 1.38"),
        (record("fast", (2.0, 1.98, 2.02)), "2×", "faster3", "2 s, 1.93 to 2.07"),
        (record("fast", (3.88, 3.87, 3.89)), "1.03×", "faster1", "3.88 s, 1 to 1.06"),
        (record("fast", (8.0, 7.9, 8.1)), "0.5×", "slower3", "8 s, 0.481 to 0.519"),
        (record("fast", (40.0, 39.0, 41.0)), "0.1×", "slower6", "40 s, 0.0951 to 0.105"),
        (record("fast", (3.95, 3.8, 4.05)), "≈ 1.01×", "same", "no difference; 3.95 s, 0.963 to 1.08"),
        (record("fast", marks=[Mark.SHARED]), "?", "same", "disturbed; 1 s"),
        (record("fast", settled=False), "1 s", "plain", "not comparable: did not converge"),
        (record("fast", None, outcome="unsupported", reason="no GPU"), "unsupported", "none unsupported", "no GPU"),
        (record("fast", None, outcome="out_of_memory", reason="too large"), "out of memory", "none", "too large"),
        (record("fast", outcome="wrong", reason="off by 3"), "wrong", "none", "off by 3"),
    ],
)  # fmt: skip
def test_the_heat_map_shows_the_speed_up_or_the_reason_for_none(mine, text, style, title):
    [block] = heat_map(comparisons([SLOW, mine], "slow"), ["slow", "fast", "absent"], several=False)
    assert block["title"] == "ring · flood"
    [(k, [base, [found], absent])] = block["comparisons"]
    assert (k, absent) == ("k = 8", [])
    assert [(one.text, one.style, one.title) for one in base] == [("4 s", "base", "the baseline")]
    assert (found.text, found.style, found.title) == (text, style, title)


def test_without_a_baseline_only_times_are_shown():
    groups = comparisons([SLOW], None)
    [(_, [[found]])] = heat_map(groups, engines_of([SLOW]), several=True)[0]["comparisons"]
    assert (found.text, found.style, found.title) == ("4 s", "plain", "nothing to compare it with")
    assert heat_map(groups, ["slow"], several=True)[0]["title"] == "ring · flood · 0123456789ab"
    assert block_title(("s", "ring", "flood", "7"), several=False) == "ring · flood, at most 7 supersteps"


def test_columns_with_values_are_sorted_by_number_and_aligned_to_the_right():
    """The others are texts."""
    rates = {"levels": [(0, 900.0)], "on_chip": 0, "adds": None, "wide_adds": None, "launch": None}
    floor = {"seconds": 0.1, "largest": "bytes", "terms": {}, "bytes": 1, "adds": 0, "launches": 0, "rates": rates}
    full = accurate_record("fast", (1.0, 0.98, 1.02), 7, [0.5] * 7, floor=floor)
    entries = row(full, accurate_record("slow", (4.0, 3.9, 4.1), 9, [3.0] * 7))
    numeric = [name for name, (_, value, _, _) in entries.items() if value is not None]
    assert numeric == [column.title for column in COLUMNS if column.numeric]
    assert len(numeric) == 11
