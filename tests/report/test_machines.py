"""Times of the same cells on several machines."""

from __future__ import annotations

from harness.records import write_json, write_record
from harness.report.__main__ import main
from harness.report.console import as_text
from harness.report.layout import Layout
from harness.report.layout_figure import write_layout_figure
from harness.report.layout_tables import notes_of, table_of
from harness.report.machines import machine_names
from tests.records.samples import accurate_record, record

COLUMNS = {"UVM": {"engine": "e", "edges": "managed"}, "EMOGI": {"engine": "e", "edges": None}}
LAYOUT = Layout.from_plain({"title": "Links", "kind": "machines", "columns": COLUMNS})


def cell(host, edges, median, gpu="A100", **changes):
    config = {"engine": "e", "algorithm": "bfs", "graph": "ring", "features": 1, "max_supersteps": None,
              "schedule": {"edges": edges}, "device": {"kind": "cuda"}}  # fmt: skip
    labels = {"engine": "e", "algorithm": "bfs", "graph": "ring"}
    times = None if median is None else (median, 0.99 * median, 1.01 * median)
    environment = {"host": host, "cpu": "a processor", **({"gpu": {"name": gpu}} if gpu else {})}
    given = {"config": config, "labels": labels, "features": 1, "environment": environment, "sweep": f"of {host}"}
    return record("e", times, **{**given, **changes})


def rows(records):
    lines = [line.split("│")[1:] for line in as_text(table_of(LAYOUT, records)).splitlines() if line.startswith("│")]
    return [[part.strip() for part in line if part.strip()] for line in lines]


def test_each_machine_is_compared_with_the_first(tmp_path):
    records = [
        cell("slow", "managed", 3.0), cell("slow", None, 1.9), cell("fast", "managed", 2.0), cell("fast", None, 1.0),
    ]  # fmt: skip
    assert machine_names(records) == ["A100 (1)", "A100 (2)"]
    headings = [column.header for column in table_of(LAYOUT, records).columns]
    assert headings == ["", "graph", "k", "engine", "A100 (1)", "A100 (2)"]
    assert rows(records) == [
        ["bfs", "ring", "1", "UVM", "3 s", "2 s, 1.5x"], ["bfs", "ring", "1", "EMOGI", "1.9 s", "1 s, 1.9x"],
    ]  # fmt: skip
    assert write_layout_figure(tmp_path / "x", LAYOUT, records) == []


def test_without_a_verdict_there_is_no_ratio():
    first = cell("slow", None, 2.0)
    for other, sign in (
        (cell("fast", None, 2.01), "~"),
        (cell("fast", None, 1.0, marks=["busy"]), "?"),
        (cell("fast", None, 1.0, settled=False), "n/c"),
    ):
        assert rows([first, other])[0][-1].endswith(f", {sign}")
    assert rows([first, cell("fast", None, None, outcome="unsupported", reason="no GPU")])[0][-1] == "unsupported"
    assert rows([first, cell("fast", "managed", 1.0)])[1][-2:] == ["-", "1 s"]


def test_the_command_lays_out_the_sweeps_of_several_machines(tmp_path):
    for host, median in (("slow", 2.0), ("fast", 1.0)):
        write_record(tmp_path / host / "0", cell(host, None, median))
        description = {"sweep": f"of {host}", "baseline": "e", "layout": LAYOUT.plain(), "cells": [{"cell": "0"}]}
        write_json(tmp_path / host / "sweep.json", description)
    assert main(["layout", str(tmp_path)]) == 0
    assert "2 s, 0.5x" in (tmp_path / "layout.txt").read_text()  # over the first folder by name


def test_one_machine_is_noted():
    alone = [cell("slow", None, 2.0, gpu=None)]
    assert machine_names(alone) == ["a processor"]
    assert any("harness.records merge" in note for note in notes_of(LAYOUT, alone))
    several = [*alone, cell("fast", None, 1.0)]
    assert not any("harness.records merge" in note for note in notes_of(LAYOUT, several))


def test_times_of_cells_that_are_not_ok_are_not_shown():
    """A cell may have been timed before its answer was checked."""
    first, wrong = cell("slow", None, 2.0), cell("fast", None, 1.0, outcome="wrong")
    assert rows([first, wrong])[0][-2:] == ["2 s", "wrong"]
    assert rows([{**first, "outcome": "wrong"}, cell("fast", None, 1.0)])[0][-2:] == ["wrong", "1 s"]


def test_machines_are_compared_by_complete_runs_although_times_to_accuracy_are_known():
    records = [cell("slow", None, 2.0), cell("fast", None, 1.0)]
    for one, seconds in zip(records, (8.0, 1.0), strict=True):
        one["accuracy"] = accurate_record("e", (1.0, 0.9, 1.1), 3, [seconds] * 7)["accuracy"]
    assert rows(records)[0][-2:] == ["2 s", "1 s, 2x"]
