"""The commands of the report: their files, their output and their status, without a browser."""

from __future__ import annotations

import json
import re
from html import unescape

import pytest

from harness.records import write_json, write_record
from harness.report.__main__ import main
from harness.report.page import write_page
from harness.report.page.inlined import script
from tests.report.node import SCRIPTS
from tests.report.sweeps import cell

COLUMNS = {"Fast": {"engine": "fast"}, "Slow": {"engine": "slow"}}
LAYOUT = {"title": "A layout", "kind": "table", "columns": COLUMNS, "first": None, "names": {}}


def written(folder, records, *, name="demo", baseline="slow", layout=None, cells=None):
    """Write a sweep as a run leaves it; return its folder."""
    for place, made in enumerate(records):
        write_record(folder / name / str(place), made)
    listed = [{"cell": str(place)} for place in range(cells or len(records))]
    write_json(folder / name / "sweep.json", {"sweep": name, "baseline": baseline, "layout": layout, "cells": listed})
    return folder / name


def at(commit, day, seconds, engine="fast"):
    made = cell(engine, "ring", "flood", 8, seconds)
    environment = {**made["environment"], "commit": commit, "host": "alpha"}
    return {**made, "environment": environment, "started": f"2026-05-{day:02}T00:00:00+00:00"}


@pytest.fixture
def sweep(tmp_path):
    records = [cell("slow", "ring", "flood", 8, 4.0), cell("fast", "ring", "flood", 8, 1.0)]
    return written(tmp_path, records, cells=3)


@pytest.mark.parametrize("arguments", [[], ["pages"], ["page"], ["publish", "--nowhere"]])
def test_a_command_and_its_folder_are_needed(arguments, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    assert "usage: python -m harness.report" in capsys.readouterr().err


@pytest.mark.parametrize(("engine", "speed_up"), [("slow", ("fast", "4×")), ("fast", ("slow", "0.25×"))])
def test_a_page_is_written_with_the_speed_ups_over_a_baseline(sweep, tmp_path, engine, speed_up, capsys):
    """Without ``--baseline`` it is the sweep's, and without ``--to`` the file is in the folder."""
    given = [] if engine == "slow" else ["--baseline", engine, "--to", str(tmp_path / "other.html")]
    assert main(["page", str(sweep), *given]) == 0
    path = tmp_path / "other.html" if given else sweep / "report.html"
    assert capsys.readouterr().out == f"{path}\n"
    assert {one.name for one in (*sweep.glob("*.html"), *tmp_path.glob("*.html"))} == {path.name}
    text = unescape(path.read_text())
    assert f"over {engine}" in text
    assert speed_up[1] in text
    assert "<b>1</b> not run yet" in text


@pytest.mark.parametrize("command", ["page", "figures"])
def test_a_baseline_without_records_is_refused_with_the_engines(sweep, command, capsys):
    assert main([command, str(sweep), "--baseline", "nobody"]) == 2
    assert (
        capsys.readouterr().err
        == "harness.report: error: no record is of the engine 'nobody' (there are: fast, slow)\n"
    )
    assert not list(sweep.glob("*.html"))


def test_records_of_several_sweeps_are_compared_on_request(tmp_path, capsys):
    one = {**cell("slow", "ring", "flood", 8, 4.0), "sweep": "a" * 12}
    two = {**cell("fast", "ring", "flood", 8, 1.0), "sweep": "b" * 12}
    written(tmp_path, [one], name="one")
    written(tmp_path, [two], name="two")
    pages = {}
    for option in ([], ["--across"]):
        assert main(["page", str(tmp_path), "--baseline", "slow", *option]) == 0
        pages[bool(option)] = (tmp_path / "report.html").read_text()
    assert ("4×" in pages[False], "4×" in pages[True]) == (False, True)
    alone = write_page(tmp_path / "alone.html", [one, two], "slow").read_text()
    assert "4×" not in alone
    assert "4×" in write_page(tmp_path / "forced.html", [one, two], "slow", across=True).read_text()


def test_figures_are_listed_with_their_titles(tmp_path, capsys):
    """They are in the folder's figures, as SVG, unless told otherwise."""
    pytest.importorskip("matplotlib", reason="figures need the extra 'figures'")
    bare = {"supersteps": [], "phases": {}}
    records = [cell(name, "ring", "flood", 8, time, **bare) for name, time in (("slow", 4.0), ("fast", 1.0))]
    folder = written(tmp_path, records)
    assert main(["figures", str(folder)]) == 0
    assert capsys.readouterr().out == f"{folder / 'figures' / 'speed-ups-01.svg'}  speed-ups over slow\n"
    assert [path.name for path in (folder / "figures").iterdir()] == ["speed-ups-01.svg"]


def test_trends_are_written_for_cells_with_two_commits(tmp_path, capsys):
    records = [at("a" * 9, 1, 1.0), at("b" * 9, 2, 2.0), at("a" * 9, 1, 3.0, "slow"), at("b" * 9, 2, 3.0, "slow")]
    folder = written(tmp_path, records)
    assert main(["trends", str(folder)]) == 0
    assert capsys.readouterr().out == f"{folder / 'trends.html'}\n"
    assert main(["trends", str(folder), "--to", str(tmp_path / "t.html")]) == 0
    text = (tmp_path / "t.html").read_text()
    assert text == (folder / "trends.html").read_text()
    [plot] = [json.loads(unescape(data)) for data in re.findall(r"data-plot='(.*?)'", text)]
    assert plot["x"]["names"] == ["aaaaaaa", "bbbbbbb"]
    assert [one["y"] for one in plot["series"]] == [[1, 2], [3, 3]]
    assert all(name in plot["title"] for name in ("flood", "ring", "commits"))


def test_a_sweep_without_layout_has_none_to_show(sweep, tmp_path, capsys):
    assert main(["layout", str(sweep)]) == 2
    assert "holds no sweep with a layout; name the folder of one that has it" in capsys.readouterr().err
    records = [cell("slow", "ring", "flood", 8, 4.0), cell("fast", "ring", "flood", 8, 1.0)]
    records = [
        {**one, "config": {**one["config"], "algorithm": "flood", "graph": "ring", "schedule": {}}} for one in records
    ]
    records[1] = {**records[1], "graph": {**records[1]["graph"], "content_hash": "other"}}
    folder = written(tmp_path, records, name="laid", layout=LAYOUT)
    assert main(["layout", str(folder)]) == 0
    shown = " ".join((folder / "layout.txt").read_text().split())
    for text in ("A layout", "Fast", "Slow", "1 s", "4 s", "graph 'ring' had 2 different contents (h, other)"):
        assert text in shown


def test_a_page_has_every_script_in_the_order_of_their_use():
    own = script("table")
    places = {name: own.find((SCRIPTS / f"{name}.js").read_text(encoding="utf-8")) for name in
              ("format", "look", "readout", "plot", "legend", "table", "start")}  # fmt: skip
    assert list(places.values()) == sorted(places.values())
    assert -1 not in places.values()
    assert set(places) == {path.stem for path in SCRIPTS.glob("*.js")}
    assert own.index("uPlot=") < places["format"], "the library comes first"
