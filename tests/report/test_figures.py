"""Figures as files, and the command that makes page and figures of a folder."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from xml.etree import ElementTree as ET

import pytest
from PIL import Image

from harness.records import write_json, write_record
from harness.report.__main__ import main
from harness.report.figures import _speed_up, write_figures
from harness.report.results import NothingFound, read_results
from harness.report.series import comparisons
from tests.records.samples import record
from tests.report.sweeps import SCRIPT, cell, sweep


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    return write_figures(tmp_path_factory.mktemp("figures"), sweep(), "slow")


def few():
    """Return the cells of an algorithm on a graph: drawing takes 0.3 s for a figure."""
    return [one for one in sweep() if (one["labels"]["graph"], one["labels"]["algorithm"]) == ("ring", "drain")]


def text_of(path):
    return " ".join(ET.parse(path).getroot().itertext())


@pytest.mark.short_run(rows=1)
def test_every_kind_is_drawn(drawn):
    kinds = [path.name for path, _ in drawn if path.suffix == ".svg"]
    assert kinds[:3] == ["speed-ups-01.svg", "features-01.svg", "features-02.svg"]
    assert sum(name.startswith("supersteps") for name in kinds) == sum(name.startswith("phases") for name in kinds) == 7


def test_they_name_their_contents(drawn):
    texts = {path.name: (text_of(path), title) for path, title in drawn if path.suffix == ".svg"}
    text, title = texts["features-01.svg"]
    assert title == "ring · flood"
    for word in ("ring · flood", "features k", "solve (s)", "fast", "middling (width=2, direction=push)"):
        assert word in text
    for word in ("4", "~", "crashed", f"{SCRIPT} · flood, k = 8"):
        assert word in texts["speed-ups-01.svg"][0]
    assert "my own" in texts["phases-01.svg"][0]


def test_pictures_are_large_enough_for_print(tmp_path):
    pictures = [path for path, _ in write_figures(tmp_path, few(), "slow", ("png",))]
    assert {path.name.partition("-")[0] for path in pictures} == {"features", "phases", "supersteps", "speed"}
    for path in pictures:
        with Image.open(path) as picture:
            assert min(picture.size) > 200
            assert len(picture.convert("RGB").getcolors(maxcolors=1 << 24)) > 10


def test_the_same_records_give_the_same_file(tmp_path):
    first, again = (write_figures(tmp_path / name, few(), "slow") for name in ("first", "again"))
    assert len(first) > 3
    assert [one.read_bytes() for one, _ in again] == [one.read_bytes() for one, _ in first]


def test_a_dollar_sign_is_a_dollar_sign(tmp_path):
    records = [cell(engine, "a $x_ b$ graph", "flood", k, k * 1e-3) for engine in ("slow", "fa$t") for k in (1, 8)]
    drawn = write_figures(tmp_path, records, "slow")
    assert "a $x_ b$ graph · flood" in text_of(next(path for path, _ in drawn if path.name == "features-01.svg"))


def test_an_unknown_format_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"figure format 'bmp' is unknown; choose one of svg, pdf, png"):
        write_figures(tmp_path, sweep(), "slow", ("svg", "bmp"))


@pytest.fixture
def results(tmp_path):
    """Write a folder of results whose cells have another order than their names."""
    records = sweep()
    names = [f"{len(records) - place:024d}" for place in range(len(records))]
    for name, one in zip(names, records, strict=True):
        write_record(tmp_path / "results" / "0123456789ab" / name, one)
    description = {"sweep": "0123456789ab", "baseline": "slow", "cells": [{"cell": name} for name in [*names, "lost"]]}
    write_json(tmp_path / "results" / "0123456789ab" / "sweep.json", description)
    return tmp_path / "results"


def test_records_come_in_the_order_of_their_sweep(results):
    found = read_results(results)
    assert [one["labels"] for one in found.records] == [one["labels"] for one in sweep()]
    assert found.cells == 29
    assert found.baseline == "slow"
    assert read_results(results / "0123456789ab") == found


@pytest.mark.parametrize("other", ["Second", "First"])
def test_sweeps_of_one_layout_and_one_baseline_keep_them(tmp_path, other):
    for name, title in (("one", "First"), ("two", "Second"), ("three", other)):
        layout = {"title": "First" if other == "First" else title, "columns": {"A": {"engine": "fast"}}}
        description = {"sweep": name, "baseline": layout["title"], "layout": layout, "cells": [{"cell": name}]}
        write_json(tmp_path / name / "sweep.json", description)
        write_record(tmp_path / name / name, record())
    found = read_results(tmp_path)
    same = other == "First"
    assert (found.baseline, found.layout and found.layout.title) == (("First", "First") if same else (None, None))
    assert found.cells == 3


def test_records_without_a_sweep_are_read_too(tmp_path):
    write_record(tmp_path / "x", record("late", started="2026-02-01T00:00:00+00:00"))
    write_record(tmp_path / "y", record("early", started="2026-01-01T00:00:00+00:00"))
    found = read_results(tmp_path)
    assert [one["labels"]["engine"] for one in found.records] == ["early", "late"]
    assert (found.cells, found.baseline) == (2, None)


@pytest.mark.parametrize("description", ["[]", '{"cells": 3}', '{"cells": null}', "3"])
def test_a_sweep_that_lists_no_cells_has_those_of_its_records(tmp_path, description):
    write_record(tmp_path / "x", record())
    (tmp_path / "sweep.json").write_text(description)
    assert read_results(tmp_path).cells == 1


def test_an_empty_folder_is_named(tmp_path):
    with pytest.raises(NothingFound, match=str(tmp_path)):
        read_results(tmp_path)


def test_the_command_makes_a_page_and_figures(results, capsys):
    assert main(["page", str(results)]) == 0
    assert capsys.readouterr().out.strip() == str(results / "report.html")
    assert "speed-ups over slow" in (results / "report.html").read_text()
    for folder in (path for path in [*(results / "0123456789ab").iterdir()] if path.is_dir()):  # fewer figures
        one = json.loads((folder / "record.json").read_text())
        if one["features"] == 32 or one["labels"]["algorithm"] == "drain":
            shutil.rmtree(folder)
    assert main(["figures", str(results), "--to", str(results / "f"), "--format", "pdf"]) == 0
    assert (results / "f" / "features-01.pdf").read_bytes().startswith(b"%PDF")
    assert "features-01.pdf  ring · flood" in capsys.readouterr().out


def test_the_command_explains_its_errors(tmp_path, results, capsys):
    assert main(["page", str(tmp_path / "nothing")]) == 2
    assert "has no records" in capsys.readouterr().err
    assert main(["figures", str(results), "--format", "bmp"]) == 2
    assert "figure format 'bmp' is unknown" in capsys.readouterr().err


def test_reports_load_neither_engines_nor_compilers():
    heavy = ("numba", "cupy", "engines", "harness.api", "harness.lowering", "matplotlib", "jinja2", "hydra")
    modules = ", ".join(f"harness.report.{name}" for name in ("__main__", "summary", "figures", "page"))
    code = f"import sys, {modules}; print([m for m in {heavy!r} if m in sys.modules])"
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert finished.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("times", "shade"), [(8, 0.86), (4, 0.86), (2, 0.68), (1 / 2, 0.32), (1 / 4, 0.14), (1 / 9, 0.14)]
)
def test_a_speed_up_of_two_has_half_the_colour_of_one_of_four(times, shade):
    seconds = 1 / times
    [group] = comparisons([record("fast", (seconds, seconds, seconds)), record("slow", (1.0, 1.0, 1.0))], "slow")
    assert _speed_up(group, group.records[0]) == (f"{times:.3g}", pytest.approx(shade))
    assert _speed_up(group, group.records[1]) == ("1", 0.5)
