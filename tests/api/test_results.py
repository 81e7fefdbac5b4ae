"""Results of a comparison read from records: rows, tables, HTML, kept answers."""

from __future__ import annotations

import re

import numpy as np
import pytest

from harness.campaign.answers import ARRAYS_FILE
from harness.records import Mark, write_json, write_record
from harness.records.outcome import Outcome
from onyx_harness.results import Results
from tests.records.samples import record, solved

CPU = {
    "engine": "slow",
    "features": None,
    "max_supersteps": None,
    "device": {"kind": "cpu"},
    "measure": {"width": 0.05},
}
SLOW = record("slow", (4.0, 3.9, 4.1), cell="a", config=CPU)
FAST = record("fast", (1.0, 0.98, 1.02), cell="b", marks=[Mark.NOISY], settled=False, config={**CPU, "engine": "fast"})
LOST = record(
    "lost",
    None,
    cell="c",
    outcome="unsupported",
    reason="no <GPU>",
    features=None,
    supersteps=[],
    validation=None,
    metrics={"share": 0.5},
    settled=None,
    config={**CPU, "engine": "lost", "features": 4},
)


@pytest.fixture
def folder(tmp_path):
    """Return the folder of a sweep of four cells, of which three have records."""
    for one in (SLOW, FAST, LOST):
        write_record(tmp_path / one["cell"], one)
    cells = [{"cell": name, "overrides": []} for name in "abcd"]
    write_json(tmp_path / "sweep.json", {"sweep": "0123456789ab", "baseline": "slow", "layout": None, "cells": cells})
    return tmp_path


def test_a_row_for_every_cell(folder):
    results = Results.read(folder)
    assert (results.baseline, results.folder, results.cells, len(results)) == ("slow", folder, 4, 3)
    assert [one["cell"] for one in results] == ["a", "b", "c"]
    assert repr(results) == f"<Results: 3 of 4 cells, 2 ok, in {folder}>"
    slow, fast, lost = results.rows()
    assert slow == {
        "graph": "ring",
        "algorithm": "flood",
        "features": 8,
        "engine": "slow",
        "device": "cpu",
        "outcome": "ok",
        "reason": "",
        "solve_s": 4.0,
        "low_s": 3.9,
        "high_s": 4.1,
        "samples": 7,
        "speed_up": None,
        "speed_up_low": None,
        "speed_up_high": None,
        "faster": None,
        "supersteps": 2,
        "settled": True,
        "edges_visited": 20_100,
        "error": 1.25e-7,
        "marks": [],
        "metric_accuracy": 0.975,
        "metric_share": None,
    }
    assert list(slow) == list(fast) == list(lost)
    assert {name: fast[name] for name in ("speed_up", "faster", "settled", "marks")} == {
        "speed_up": None,
        "faster": None,
        "settled": False,
        "marks": ["noisy"],
    }
    assert {name: value for name, value in lost.items() if value not in (None, [])} == {
        "graph": "ring",
        "algorithm": "flood",
        "features": 4,
        "engine": "lost",
        "device": "cpu",
        "outcome": "unsupported",
        "reason": "no <GPU>",
        "samples": 0,
        "metric_share": 0.5,
    }


@pytest.mark.parametrize(
    ("changes", "speed_up", "faster"),
    [
        ({}, (4.0, 3.9 / 1.02, 4.1 / 0.98), True),
        ({"solve": solved([8.0] * 7)}, (0.5, 3.9 / 8, 4.1 / 8), False),
        ({"solve": solved([4.0] * 7)}, (1.0, 3.9 / 4, 4.1 / 4), None),
        ({"solve": solved([1.0] * 3)}, (4.0, 3.9, 4.1), None),
        ({"marks": [Mark.BUSY]}, (4.0, 3.9 / 1.02, 4.1 / 0.98), None),
        ({"outcome": "wrong"}, (None, None, None), None),
    ],
    ids=["faster", "slower", "equal", "few samples", "disturbed", "wrong"],
)
def test_speed_ups_over_the_baseline(changes, speed_up, faster):
    fast = record("fast", (1.0, 0.98, 1.02), config={**CPU, "engine": "fast"}, **changes)
    row = Results((SLOW, fast), "slow", None, 2).rows()[1]
    met = tuple(row[name] for name in ("speed_up", "speed_up_low", "speed_up_high"))
    assert met == (speed_up if speed_up[0] is None else pytest.approx(speed_up))
    assert row["faster"] is faster
    assert row["solve_s"] == fast["solve"]["median"] if fast["outcome"] == Outcome.OK else row["solve_s"] is None


def test_rounds_of_a_cell_are_one_cell_and_none_is_missing(tmp_path):
    cells = []
    for number in range(3):
        for one in (SLOW, FAST):
            key = f"{one['cell']}-{number}"
            write_record(tmp_path / key, {**one, "cell": key, "round": number + 1})
            cells.append({"cell": key, "overrides": []})
    write_json(tmp_path / "sweep.json", {"sweep": "0123456789ab", "baseline": "slow", "layout": None, "cells": cells})
    results = Results.read(tmp_path)
    assert (len(results), results.cells) == (2, 2)
    assert "have not been run" not in results.table()


def test_nothing_has_no_rows(tmp_path):
    empty = Results.read(tmp_path)
    assert (empty.rows(), empty.records, empty.baseline, empty.cells, len(empty)) == ([], (), None, 0, 0)


def test_the_table_has_the_notes_and_what_is_missing(folder):
    table = Results.read(folder).table()
    assert "speed-up over slow" in table
    assert "unsupported: no <GPU>" in table
    assert "1 of 4 cells have not been run" in table
    assert table.splitlines()[-1] == f"records: {folder}"
    assert not any(line.endswith(" ") for line in table.splitlines())
    narrow = Results.read(folder).table(width=90)
    assert max(len(line) for line in narrow.splitlines() if line[0] in "┏┃┡│└") <= 90
    assert "not shown at this width: " in narrow
    assert "not shown" not in table


def test_html_is_escaped_and_has_every_row(folder):
    shown = Results.read(folder)._repr_html_()
    assert shown.count("<tr>") >= 4
    assert "no &lt;GPU&gt;" in shown
    assert "<GPU>" not in shown
    assert re.search(r"slow.*fast.*lost", shown, re.DOTALL)


def test_kept_answers_are_found_in_the_folder_of_a_sweep_or_of_several(folder, tmp_path):
    results = Results.read(folder)
    with pytest.raises(
        FileNotFoundError, match=r"slow \(ok\) kept no answer below .*; right answers are kept with over"
    ):
        results.answers(SLOW)
    np.savez(folder / "a" / ARRAYS_FILE, level=np.arange(3.0))
    assert {name: one.tolist() for name, one in results.answers(SLOW).items()} == {"level": [0, 1, 2]}
    several = Results(results.records, "slow", tmp_path / "all", 3)
    place = tmp_path / "all" / SLOW["sweep"] / "a"
    place.mkdir(parents=True)
    np.savez(place / ARRAYS_FILE, rank=np.ones(2))
    assert list(several.answers(SLOW)) == ["rank"]
