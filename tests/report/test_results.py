"""Records of a folder of results: their order, the number of cells, and what several sweeps have in common."""

from __future__ import annotations

import json

import pytest

from harness.records import write_json, write_record
from harness.report.layout import Layout
from harness.report.page.links import Links
from harness.report.results import NothingFound, read_results
from tests.records.samples import record

LAYOUT = {"title": "A layout", "kind": "table", "columns": {"Fast": {"engine": "fast"}}, "first": None, "names": {}}


def write_sweep(folder, name, listed, ran, baseline="slow", layout=None, days=()):
    """Write a sweep that lists some cells, and the records of others."""
    for place, cell in enumerate(ran):
        started = f"2026-01-{days[place] if days else 1:02}T00:00:00+00:00"
        write_record(folder / name / cell, record(cell=cell, sweep=name, started=started))
    cells = [{"cell": cell} for cell in listed]
    write_json(folder / name / "sweep.json", {"sweep": name, "baseline": baseline, "layout": layout, "cells": cells})


def found(folder):
    results = read_results(folder)
    return [f"{one['sweep']}/{one['cell']}" for one in results.records], results.cells


def test_records_are_in_the_order_of_their_sweeps_and_cells_and_those_not_listed_by_their_time(tmp_path):
    write_sweep(tmp_path, "b", ["z", "y"], ["y", "z"])
    write_sweep(tmp_path, "a", ["n", "m", "l"], ["l", "x", "w", "n"], days=(1, 9, 8, 1))
    assert found(tmp_path) == (["a/n", "a/l", "b/z", "b/y", "a/w", "a/x"], 7)
    assert found(tmp_path / "a") == (["a/n", "a/l", "a/w", "a/x"], 5)
    (tmp_path / "a" / "sweep.json").unlink()
    assert found(tmp_path) == (["b/z", "b/y", "a/l", "a/n", "a/w", "a/x"], 6)


def test_records_that_no_sweep_lists_are_sorted_by_sweep_and_then_by_time(tmp_path):
    for place, (name, day) in enumerate((("b", 1), ("a", 9), ("b", 2), ("a", 3))):
        started = f"2026-01-0{day}T00:00:00+00:00"
        write_record(tmp_path / f"folder-{place}", record(cell=str(day), sweep=name, started=started))
    assert found(tmp_path) == (["a/3", "a/9", "b/1", "b/2"], 4)


@pytest.mark.parametrize(
    ("baselines", "baseline"), [(("slow", "slow"), "slow"), (("slow", "fast"), None), ((None, "slow"), None)]
)
def test_the_baseline_is_that_of_all_sweeps(tmp_path, baselines, baseline):
    for name, own in zip("ab", baselines, strict=True):
        write_sweep(tmp_path, name, ["c"], ["c"], baseline=own)
    assert read_results(tmp_path).baseline == baseline
    assert read_results(tmp_path / "b").baseline == baselines[1]


@pytest.mark.parametrize(("other", "same"), [(LAYOUT, True), ({**LAYOUT, "title": "Another"}, False), (None, False)])
def test_the_layout_is_that_of_all_sweeps(tmp_path, other, same):
    for name, own in (("a", LAYOUT), ("b", other)):
        write_sweep(tmp_path, name, ["c"], ["c"], layout=own)
    assert read_results(tmp_path).layout == (Layout.from_plain(LAYOUT) if same else None)
    assert read_results(tmp_path / "a").layout == Layout.from_plain(LAYOUT)


@pytest.mark.parametrize("description", [[], {}, {"cells": 3}, {"cells": None}])
def test_a_description_without_cells_lists_none(tmp_path, description):
    write_sweep(tmp_path, "a", ["c"], ["c"])
    (tmp_path / "a" / "sweep.json").write_text(json.dumps(description))
    assert found(tmp_path) == (["a/c"], 1)


def test_folders_without_records_are_refused_by_name(tmp_path):
    write_sweep(tmp_path, "a", ["c", "d"], [])
    for folder in (tmp_path, tmp_path / "a"):
        with pytest.raises(NothingFound, match=f"{folder.name} has no records"):
            read_results(folder)


@pytest.mark.parametrize("above", [True, False], ids=["of several sweeps", "of one sweep"])
def test_a_page_links_the_files_of_its_cells_that_exist(tmp_path, above):
    """The page lies beside the cells, or beside the folders of their sweeps; names are quoted."""
    one = record(cell="a cell", sweep="demo", artefacts=["explain.txt", "lost.txt"])
    other = record(cell="not here", sweep="demo", artefacts=["explain.txt"])
    for name in ("record.json", "explain.txt"):
        (tmp_path / "demo" / "a cell").mkdir(parents=True, exist_ok=True)
        (tmp_path / "demo" / "a cell" / name).write_text("{}")
    folder, place = (tmp_path, "demo/a%20cell") if above else (tmp_path / "demo", "a%20cell")
    links = Links.beside(folder, [one, other])
    assert links.files == {"a cell": (("record", f"{place}/record.json"), ("explain", f"{place}/explain.txt"))}
    assert links.picture == ""
    (folder / "layout.svg").write_text("<svg/>")
    assert Links.beside(folder, []) == Links({}, "data:image/svg+xml;base64,PHN2Zy8+")
