"""What a sweep prints besides its table: progress, dry runs, layouts and pages that cannot be written."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from harness.records import Mark, write_json
from harness.report import progress
from harness.report.failures import failures
from harness.report.layout import Layout
from harness.report.page.environment import environment, machine
from harness.report.progress import Progress, in_flight, outcome_text, say_begin, say_more_rounds, time_left
from harness.report.summary import DryRunCell, mark_notes, show_dry_run, show_layout, show_page
from harness.report.table import comparison_table
from tests.records.samples import record

LABELS = {"graph": "ring", "algorithm": "flood", "engine": "fast"}


@pytest.mark.parametrize(
    ("done", "total", "elapsed", "text"),
    [
        (1, 2, 10.0, ", about 10 s left"),
        (2, 3, 10.0, ", about 5 s left"),
        (1, 11, 9.9, ", about 99 s left"),
        (1, 11, 10.0, ", about 2 min left"),
        (1, 11, 599.0, ", about 100 min left"),
        (1, 11, 720.0, ", about 2.0 h left"),
        (3, 3, 10.0, ""),
    ],
)
def test_the_time_left_is_extrapolated(done, total, elapsed, text):
    assert time_left(done, total, elapsed) == text


def test_the_number_of_cells(capsys):
    for cells, recorded in ((1, 0), (2, 0), (3, 2)):
        say_begin("mine", cells, recorded)
    for disturbed in (1, 2):
        say_more_rounds(disturbed)
    assert capsys.readouterr().out.splitlines() == [
        "sweep mine: 1 cell",
        "sweep mine: 2 cells",
        "sweep mine: 3 cells, 2 on record (rerun=all measures them again)",
        "other work disturbed 1 time: all cells are measured in further rounds, in turn, which it affects alike",
        "other work disturbed 2 times: all cells are measured in further rounds, in turn, which it affects alike",
    ]


def test_lines_of_progress_without_a_terminal(capsys, monkeypatch):
    monkeypatch.delenv(progress.BEGINS_VARIABLE, raising=False)
    with Progress(3) as shown:
        shown.begun("a", LABELS, None, 1)
        shown.ended("a", record(features=8), 10.0)
        monkeypatch.setenv(progress.BEGINS_VARIABLE, "1")
        shown.begun("b", LABELS, 4, 2)
        shown.ended("b", record("fast", None, outcome="out_of_memory", features=None, round=2), 20.0)
        shown.ended("c", record(outcome="wrong", round=1), 30.0)
    assert capsys.readouterr().out.splitlines() == [
        "[1/3] ring · flood · k=8 · fast  ok 1 s, about 20 s left",
        "begins: ring · flood · k=4 · fast · round 2",
        "[2/3] ring · flood · k=auto · fast · round 2  out_of_memory, about 10 s left",
        "[3/3] ring · flood · k=8 · fast  wrong",
    ]


def test_a_cell_that_failed_early_has_the_features_of_its_configuration(capsys):
    lost = record("fast", None, outcome="crashed", features=None)
    with Progress(1) as shown:
        shown.ended("a", {**lost, "config": {**lost["config"], "features": 16}}, 10.0)
    assert capsys.readouterr().out.splitlines() == ["[1/1] ring · flood · k=16 · fast  crashed"]


@pytest.mark.parametrize(
    ("outcome", "style"), [("ok", "green"), ("unsupported", "yellow"), ("wrong", "bold red"), ("crashed", "bold red")]
)
def test_outcomes_have_colours(outcome, style):
    assert (outcome_text(outcome).plain, outcome_text(outcome).style) == (outcome, style)


def test_without_a_terminal_a_long_wait_is_printed_once(capsys, monkeypatch):
    monkeypatch.delenv(progress.BEGINS_VARIABLE, raising=False)
    with Progress(2) as shown:
        shown.begun("a", LABELS, 8, 1)
        for seconds, behind in ((9.9, "x"), (10.0, "process 7"), (20.0, "process 7"), (0.0, ""), (11.0, "")):
            shown.waiting("a", seconds, behind)
        shown.waiting("unknown", 30.0, "process 7")
    assert capsys.readouterr().out.splitlines() == [
        "ring · flood · k=8 · fast waits for its device behind process 7",
        "ring · flood · k=8 · fast waits for its device behind another cell",
    ]


def test_a_terminal_shows_the_running_cells(monkeypatch):
    seen = []
    console = Console(file=io.StringIO(), force_terminal=True, width=200)
    monkeypatch.setattr(progress, "console", lambda: console)
    with Progress(2) as shown:
        assert shown._status._live.is_started
        monkeypatch.setattr(shown._status, "update", lambda text: seen.append(text.plain))
        shown.begun("a", LABELS, 1, 1)
        shown.begun("b", {**LABELS, "engine": "slow"}, 1, 1)
        shown.waiting("a", 9.9, "process 7")
        shown.waiting("a", 12.4, "process 7")
        shown.waiting("b", 30.0, "")
        shown.waiting("gone", 30.0, "")
        shown.waiting("a", 0.0, "")
        shown.ended("b", record("slow"), 10.0)
        shown.ended("a", record(), 12.0)
    assert not shown._status._live.is_started
    first, second = "ring · flood · k=1 · fast", "ring · flood · k=1 · slow"
    waits = f"{first} waits for its device behind process 7 for 12 s"
    other = f"{second} waits for its device behind another cell for 30 s"
    assert seen == [
        f"running {first}",
        f"running {first}, {second}",
        f"running {first}, {second}",
        f"running {waits}, {second}",
        f"running {waits}, {other}",
        f"running {waits}, {other}",
        f"running {first}, {other}",
        f"running {first}, about 10 s left",
        "the next cell",
    ]
    assert in_flight([], ", about 3 s left").plain == "the next cell, about 3 s left"


def test_a_dry_run_lists_the_cells(capsys):
    cells = [
        DryRunCell(LABELS, None, 1, True, ""),
        DryRunCell({**LABELS, "engine": "[slow]"}, 8, 2, False, "ok is on record"),
    ]
    show_dry_run("mine", cells)
    shown = capsys.readouterr().out.splitlines()
    rows = [[part.strip() for part in line.split("│")[1:-1]] for line in shown if line.startswith("│")]
    assert rows == [
        ["ring", "flood", "auto", "fast", "1", "run", ""],
        ["ring", "flood", "8", "[slow]", "2", "skip", "ok is on record"],
    ]
    assert shown[-1] == "sweep mine: 1 of 2 cells would be run"


COLUMNS = {"A": {"engine": "fast"}}


def of_layout(**changes):
    made = record(**changes)
    return {**made, "config": {**made["config"], "algorithm": "flood", "graph": "ring", "schedule": {}}}


def test_a_layout_is_printed_and_written(tmp_path, capsys):
    layout = Layout.from_plain({"title": "Table [1]", "columns": COLUMNS})
    show_layout([of_layout(marks=[Mark.BUSY])], layout, tmp_path)
    shown = capsys.readouterr().out
    assert shown.splitlines()[0] == "Table [1]"
    assert "busy (1 of 1 times): other work used a part of the machine" in shown
    assert shown.splitlines()[-1] == f"laid out: {tmp_path / 'layout.txt'}"
    assert (tmp_path / "layout.txt").read_text() == shown[: shown.index("laid out")]


def test_files_that_cannot_be_written_are_named(tmp_path, capsys):
    (tmp_path / "file").touch()
    folder = tmp_path / "file" / "below"
    show_layout([of_layout()], Layout.from_plain({"title": "T", "columns": COLUMNS}), folder)
    show_page([record()], 1, None, folder)
    shown = " ".join(capsys.readouterr().out.split())
    met = f"([Errno 20] Not a directory: '{folder}')"
    drawn, page = shown.index("not drawn ("), shown.index("the page could not be written (")
    assert shown[drawn:page].endswith(f"); python -m harness.report layout {folder} does it later ")
    assert (
        shown[page:] == f"the page could not be written {met}; python -m harness.report page {folder} writes it again"
    )
    show_page([], 0, None, folder)
    assert capsys.readouterr().out == ""


def test_a_page_names_its_index(tmp_path, capsys):
    cells = [{"cell": "c" * 24, "overrides": []}]
    write_json(tmp_path / "mine" / "sweep.json", {"sweep": "mine", "baseline": None, "layout": None, "cells": cells})
    show_page([record()], 1, None, tmp_path / "mine")
    shown = " ".join(capsys.readouterr().out.split())
    assert shown == f"page: {tmp_path / 'mine' / 'report.html'} (all sweeps: {tmp_path / 'index.html'})"
    assert "Table of a preset" not in (tmp_path / "mine" / "report.html").read_text()
    layout = Layout.from_plain({"title": "Table of a preset", "columns": COLUMNS})
    show_page([of_layout()], 1, None, tmp_path / "mine", layout)
    assert "Table of a preset" in (tmp_path / "mine" / "report.html").read_text()


def test_marks_are_counted_among_the_correct_times():
    records = [
        record(marks=[Mark.BUSY, Mark.NOISY]),
        record(marks=[Mark.NOISY]),
        record(outcome="wrong", marks=[Mark.SHARED]),
        record(),
    ]
    notes = mark_notes(records)
    assert [note.partition(":")[0] for note in notes] == [
        "busy (1 of 3 times)",
        "noisy (2 of 3 times)",
        "disturbed (1 times)",
    ]
    assert mark_notes([record()]) == []


def test_failures_are_grouped_by_reason_with_their_last_lines():
    output = "\n".join(f"line {number}" for number in range(20))
    crash = {"outcome": "crashed", "reason": "it died", "solve": None}
    records = [
        record(),
        record("a", None, **{**crash, "output": output}),
        record("b", None, **{**crash, "output": "other"}),
        record("c", None, outcome="unsupported", reason="it died", output=output),
        record(
            "d", None, outcome="crashed", reason="a fault", output="x\nFatal Python error: one\n" + "y" * 500 + "\nz"
        ),
    ]
    crashed, refused, fault = failures(records)
    assert [len(one.records) for one in (crashed, refused, fault)] == [2, 1, 1]
    assert [one.outcome.value for one in (crashed, refused, fault)] == ["crashed", "unsupported", "crashed"]
    assert crashed.telling(2) == ("line 18", "line 19")
    assert refused.telling(2) == ()
    assert fault.telling(2) == ("Fatal Python error: one", "y" * 400)


@pytest.mark.parametrize("outcome", ["unsupported", "invalid_input", "timeout", "wrong", "implausible", "interrupted"])
def test_reasons_that_explain_themselves_have_no_output(outcome):
    [one] = failures([record("a", None, outcome=outcome, reason="r", output="line")])
    assert one.telling(8) == ()


@pytest.mark.parametrize("outcome", ["crashed", "engine_error", "out_of_memory", "diverged"])
def test_other_failures_show_their_output(outcome):
    [one] = failures([record("a", None, outcome=outcome, reason="r", output="line")])
    assert one.telling(8) == ("line",)


def environments(*given):
    return [{**record(), "environment": one} for one in given]


def test_the_environment_of_all_cells():
    records = environments(
        {
            "cpu": "A",
            "cores": 4,
            "memory": 8 * 10**9,
            "load": 0.25,
            "gpu": None,
            "peak_bytes": 5_000_000,
            "on": True,
            "versions": {"numpy": "2", "scipy": "1"},
            "list": [1, 2.5],
            "unknown": None,
        },
        {
            "cpu": "A",
            "cores": 4,
            "memory": 16 * 10**9,
            "load": 0.5,
            "gpu": "H100",
            "peak_bytes": 5_000_000,
            "on": False,
            "versions": {"numpy": "2", "scipy": "1"},
            "list": [1, 2.5],
        },
    )
    assert environment(records) == [
        ("cpu", "A"),
        ("cores", "4"),
        ("memory", "8 GB to 16 GB"),
        ("load", "0.25 to 0.5"),
        ("gpu", "not known (1 cells); H100 (1 cells)"),
        ("peak bytes", "5 MB"),
        ("on", "True (1 cells); False (1 cells)"),
        ("versions", "numpy 2, scipy 1"),
        ("list", "1, 2.5"),
    ]
    assert machine(records) == "A, 4 cores"
    assert machine(environments({"cpu": "A", "cores": 4}, {"cpu": "A", "cores": 8})) == "2 kinds of machine"
    assert machine([]) == ""
    many = environments(*({"host": name} for name in "aabcdefg"))
    assert environment(many) == [("host", "a (2 cells); b (1 cells); c (1 cells); d (1 cells); and 3 others")]


def test_every_text_of_the_rows_of_the_comparison():
    """The failed cell was timed before its answer was checked; the last engine counts no supersteps."""
    slow, fast = record("slow", (4.0, 3.9, 4.1)), record("fast", (1.0, 0.98, 1.02), marks=[Mark.NOISY], settled=False)
    slow = {**slow, "settled": None}
    wrong = record("wrong", (1.0, 0.98, 1.02), outcome="wrong", supersteps=[], metrics={})
    lost = record("lost", None, supersteps=[], validation=None, metrics={}, settled=None)
    whole = record("whole", (2.0, 1.9, 2.1), supersteps=[], metrics={"a": 0.5, "b": 1e-6})
    table = comparison_table([slow, fast, wrong, lost, whole], "slow")
    names = [str(column.header) for column in table.columns][3:]
    assert names == [
        "engine", "outcome", "solve (median)", "interval", "supersteps", "a superstep", "edges visited", "error",
        "quality", "speed-up over slow",
    ]  # fmt: skip
    first, *rows = zip(*([str(cell) for cell in column.cells] for column in table.columns), strict=True)
    assert first[:3] == ("ring\n1,000 vertices\n20 k edges", "flood", "8")
    assert [row[:3] for row in rows] == [("", "", "")] * 4
    assert [row[3:] for row in (first, *rows)] == [
        ("slow", "ok", "4 s", "[3.9, 4.1]", "2", "2 s", "20.1 k", "1.2e-07", "accuracy 0.975", "1 (baseline)"),
        ("fast", "ok", "1 s", "[0.98, 1.02] *", "2, not settled", "500 ms", "20.1 k", "1.2e-07", "accuracy 0.975",
         "4x [3.82, 4.18]"),
        ("wrong", "wrong", "-", "-", "-", "-", "-", "1.2e-07", "-", "-"),
        ("lost", "crashed", "-", "-", "-", "-", "-", "-", "-", "-"),
        ("whole", "ok", "2 s", "[1.9, 2.1]", "not counted", "-", "-", "1.2e-07", "a 0.500\nb 1.0e-06",
         "2x [1.86, 2.16]"),
    ]  # fmt: skip
