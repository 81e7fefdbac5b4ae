"""Cells with several rounds in every report: one failed round fails a cell, and replaced records are counted."""

from __future__ import annotations

import json

import pytest

from harness.records import RecordError, write_json, write_record
from harness.records.benchmarks import exported, read_benchmarks
from harness.records.published import PublishedSweep, write_published
from harness.records.regressions import changes, read_turns
from harness.report.figures import figures_of, settings
from harness.report.page.model import page_model
from harness.report.publication import rendered
from tests.records.samples import record

FACTS = {"python": "3.12.3", "harness": "0.1.0", "packages": {}, "commit": "c0ffee", "cpu": "a processor", "cores": 2,
         "threads": 2}  # fmt: skip
OTHER_GRAPH = {"graph": {"name": "ring", "vertices": 3, "edges": 3, "content_hash": "another"}}
NO_TIME = [
    {"outcome": "wrong", "reason": "off by 3"},
    {"outcome": "crashed", "reason": "died by SIGSEGV", "solve": None},
    {"outcome": "unsupported", "reason": "no form", "solve": None},
]
PAGE = "<!-- sweep: demo -->\n<!-- end of sweep -->\n"


def in_round(number, engine="fast", seconds=1.0, hour=None, **changed):
    """Return the record of a round, which ran at an hour; later rounds ran later."""
    started = f"2026-01-01T{number if hour is None else hour:02}:00:00+00:00"
    made = record(engine, (seconds, 0.95 * seconds, 1.05 * seconds), round=number, started=started, environment=FACTS)
    config = {**made["config"], "algorithm": "flood", "graph": "ring", "round": number}
    return {**made, "cell": f"{engine}-{number}", "config": config, **changed}


def rounds(engine, seconds, **failed):
    """Return three rounds of an engine; the changes of some by their number: ``_2={...}``."""
    return [in_round(number, engine, seconds, **failed.get(f"_{number}", {})) for number in (1, 2, 3)]


def sweep_with(failed, number):
    """Return three rounds of two engines; that of the fast one with the given number failed."""
    return [*rounds("fast", 1.0, **{f"_{number}": failed}), *rounds("slow", 4.0)]


def published(folder, records, cells):
    """Return the text of a page that shows the table of a published sweep."""
    pytest.importorskip("duckdb", reason="published records need the extra 'query'")
    (folder / "figures").mkdir()
    sweep = PublishedSweep("demo", "onyx-harness", cells, "slow", None, tuple(records))
    write_published(folder / "figures" / "demo.parquet", sweep)
    return rendered(PAGE, folder / "figures")


FAILED = pytest.mark.parametrize(
    ("failed", "number"), [(NO_TIME[0], 1), (NO_TIME[0], 3), (NO_TIME[1], 2), (NO_TIME[2], 3)]
)


@FAILED
def test_a_cell_that_failed_in_one_round_is_not_exported(failed, number, tmp_path):
    records = sweep_with(failed, number)
    assert [one["params"]["engine"] for one in exported(records)["benchmarks"]] == ["slow"]
    assert [one["params"]["engine"] for one in exported(records[::-1])["benchmarks"]] == ["slow"]
    assert len(exported([one for one in records if one["outcome"] == "ok"])["benchmarks"]) == 2
    for one in records:
        write_record(tmp_path / "one" / one["cell"], one)
    found, _ = read_turns([tmp_path / "one"])
    assert [name.rpartition("-")[2] for name in found] == ["slow]"]
    assert [one.name for one in changes(found, found)] == list(found)
    with pytest.raises(RecordError, match="there is no ok record to export"):
        exported(records[:3])


@FAILED
def test_a_cell_that_failed_in_one_round_has_no_time_on_the_page(failed, number):
    model = page_model(sweep_with(failed, number), "slow", 6)
    assert (model["cells"], model["missing"], model["ok"]) == (2, 0, 1)
    assert model["failed"] + model["unsupported"] == 1
    assert [(one["engine"], one["ok"]) for one in model["standings"]] in (
        [("slow", "1 of 1"), ("fast", "0 of 1")],
        [("fast", "0 of 1"), ("slow", "1 of 1")],
    )
    [failure] = model["failures"]
    assert failure["reason"] == f"in round {number} of 3: {failed['reason']}"
    assert page_model(sweep_with({}, number), "slow", 6)["ok"] == 2


@FAILED
def test_a_cell_that_failed_in_one_round_has_no_time_in_published_tables(failed, number, tmp_path):
    shown = published(tmp_path, sweep_with(failed, number), 6)
    assert f"- {failed['outcome']}: in round {number} of 3: {failed['reason']} (flood by fast; 1 cell)" in shown
    [row] = [line for line in shown.splitlines() if "| fast" in line]
    assert "1 s" not in row
    assert f"| cells | 2, of which 1 {failed['outcome']}, 1 ok |" in shown


@pytest.mark.parametrize(("wanted", "missing"), [(6, ""), (7, ", 1 not run"), (12, ", 6 not run")])
def test_rounds_that_ran_are_not_counted_as_missing(wanted, missing, tmp_path):
    """Two cells of three rounds; the rest of the rounds that were wanted have not run."""
    shown = published(tmp_path, sweep_with({}, 1), wanted)
    assert f"| cells | {2 + wanted - 6}, of which 2 ok{missing} |" in shown
    assert page_model(sweep_with({}, 1), "slow", wanted)["missing"] == wanted - 6


def test_a_cell_that_failed_in_one_round_is_not_drawn_with_a_speed_up():
    pytest.importorskip("matplotlib", reason="figures need the extra 'figures'")
    bare = {"supersteps": [], "phases": {}}
    with settings():
        for failed, number, kinds in (({}, 1, ["speed-ups"]), (NO_TIME[0], 2, [])):
            records = [{**one, **bare} for one in (*rounds("slow", 4.0, **{f"_{number}": failed}), in_round(1))]
            assert [kind for kind, _, _ in figures_of(records, "slow")] == kinds


REPLACED = {
    "none": (0, rounds("fast", 1.0)),
    "other code": (2, [in_round(1, sources="o" * 32), in_round(2, sources="o" * 32), in_round(3)]),
    "another graph": (1, [in_round(1, **OTHER_GRAPH), in_round(2), in_round(3)]),
    "the same round": (1, [in_round(1, hour=1), in_round(1, hour=5), in_round(2)]),
    "of two cells": (2, [*(in_round(1, engine, hour=hour) for engine in ("fast", "slow") for hour in (1, 2))]),
    "only one record": (0, [in_round(1)]),
    "no record": (0, []),
}


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("why", REPLACED)
def test_the_page_tells_how_many_records_newer_ones_replaced(why, order):
    number, records = REPLACED[why]
    notes = [mark for mark in page_model(records[::order], None, len(records))["marks"] if "Omitted" in mark]
    told = f"Omitted, because newer records of the same cells are of other code or another graph: {number}."
    assert notes == ([told] if number else [])


def test_records_of_a_folder_and_of_a_list_are_exported_alike(tmp_path):
    records = sweep_with({}, 1)
    for one in records:
        write_record(tmp_path / one["cell"], one)
    write_json(tmp_path / "sweep.json", {"sweep": "demo", "cells": []})
    listed, read = (json.loads(json.dumps(data)) for data in (exported(records), read_benchmarks(tmp_path)))
    assert listed == read
    assert [one["extra_info"]["rounds"] for one in read["benchmarks"]] == [
        [one["solve"]["samples"] for one in records[first : first + 3]] for first in (0, 3)
    ]
