"""Tables of published sweeps: from the records of a sweep through one Parquet file to the text of a page."""

from __future__ import annotations

import pytest

from harness.records import RecordError, write_json, write_record
from harness.records.published import read_published
from harness.report.__main__ import main
from harness.report.publication import named_sweeps, rendered
from harness.report.warm import HEADINGS, NOTE
from tests.records.samples import record, warm_record

pytest.importorskip("duckdb", reason="published records need the extra 'query'")

PAGE = "# A page\n\n<!-- sweep: demo -->\nan old table\n<!-- end of sweep -->\n\nThe end.\n"
LAYOUT = {
    "title": "Fast | slow", "kind": "table", "first": None, "names": {},
    "columns": {"Fast": {"engine": "fast"}, "Slow": {"engine": "slow"}},
}  # fmt: skip
CELLS = {"a": "fast", "b": "slow", "c": "slow", "d": "fast"}
GPU = {"name": "A GPU", "driver": "580.1", "cuda": "13.0"}
FACTS = {"python": "3.12.3", "harness": "0.1.0", "packages": {"numpy": "2.5.2"}, "commit": "c0ffee"}


def cell(engine, graph, median, **changes):
    """Return a record of an engine on a graph, with the facts about its machine."""
    config = {"engine": engine, "algorithm": "flood", "graph": graph, "features": 8, "max_supersteps": None,
              "schedule": {}, "device": {"kind": "cuda"}}  # fmt: skip
    labels = {"engine": engine, "algorithm": "flood", "graph": graph}
    times = None if median is None else (median, 0.95 * median, 1.05 * median)
    return record(engine, times, config=config, labels=labels, environment={**FACTS, "gpu": GPU}, **changes)


@pytest.fixture
def sweep(tmp_path):
    """Write a folder with a sweep of four cells, one of which has not run."""
    cells = {
        "a": cell("fast", "ring", 0.001),
        "b": cell("slow", "ring", 0.004, marks=["busy"]),
        "c": cell("slow", "line", None, outcome="unsupported", reason="stage 'x|y' has no form"),
    }
    for name, made in cells.items():
        write_record(tmp_path / "results" / "demo" / name, made)
    listed = [
        {"cell": name, "overrides": ["device=cuda", "+experiment=demo", f"engine={engine}"]}
        for name, engine in CELLS.items()
    ]
    description = {"sweep": "demo", "baseline": "fast", "layout": LAYOUT, "cells": listed}
    write_json(tmp_path / "results" / "demo" / "sweep.json", description)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "page.md").write_text(PAGE)
    return tmp_path


def test_one_command_publishes_a_sweep_and_renders_its_page(sweep, capsys):
    docs = sweep / "docs"
    assert main(["publish", str(sweep / "results"), "--docs", str(docs)]) == 0
    assert capsys.readouterr().out.split() == [str(docs / "figures" / "demo.parquet"), str(docs / "page.md")]
    lines = (docs / "page.md").read_text().splitlines()
    for line in (
        r"**Fast \| slow**",
        "| | graph | Fast | Slow |",
        "| --- | --- | ---: | ---: |",
        "| flood | ring | 1 ms | 4 ms |",  # no fastest: a time is disturbed
        "| | line | - | unsupported |",
        r"- unsupported: stage 'x\|y' has no form (flood by slow; 1 cell)",
        "| command | `onyx-harness +experiment=demo device=cuda` |",
        "| device | A GPU, driver 580.1, CUDA 13.0 |",
        "| date | 2026-01-01 00:00 to 2026-01-01 00:00 UTC |",
        "| commit | c0ffee |",
        "| versions | numpy 2.5.2, onyx-harness 0.1.0, Python 3.12.3 |",
        "| graphs | ring: 1,000 vertices, 20,000 edges |",
        "| cells | 4, of which 2 ok, 1 unsupported, 1 not run |",
    ):
        assert line in lines
    assert any(line.startswith("- busy (1 of 2 times)") for line in lines)
    assert "an old table" not in lines
    assert lines[-1] == "The end."


def test_rendering_twice_changes_nothing_and_a_new_record_does(sweep, capsys):
    command = ["publish", "--docs", str(sweep / "docs")]
    main([*command, str(sweep / "results")])
    capsys.readouterr()
    assert main(command) == 0
    assert not capsys.readouterr().out
    write_record(sweep / "results" / "demo" / "d", cell("fast", "line", 0.5))
    main([*command, str(sweep / "results")])
    assert "| | line | 500 ms | unsupported |" in (sweep / "docs" / "page.md").read_text()


def test_a_sweep_without_preset_and_layout_shows_its_whole_command_and_the_comparison(sweep):
    description = sweep / "results" / "demo" / "sweep.json"
    cells = [{"cell": name, "overrides": ["features=8", f"engine={engine}"]} for name, engine in CELLS.items()]
    write_json(description, {"sweep": "demo", "baseline": "fast", "layout": None, "cells": cells})
    assert main(["publish", str(sweep / "results"), "--docs", str(sweep / "docs")]) == 0
    page = (sweep / "docs" / "page.md").read_text()
    assert "| command | `onyx-harness features=8 engine=fast,slow` |" in page
    assert "speed-up over fast |" in page
    assert "| ring<br>1,000 vertices<br>20 k edges | flood | 8 | fast on cuda | ok | 1 ms |" in page


def test_a_sweep_of_warm_runs_shows_their_table(sweep):
    made = cell("fast", "ring", 0.001)
    warm = warm_record()
    write_record(sweep / "results" / "demo" / "a", {**made, **{name: warm[name] for name in ("warm", "solve")}})
    description = sweep / "results" / "demo" / "sweep.json"
    cells = [{"cell": name, "overrides": ["features=8", f"engine={engine}"]} for name, engine in CELLS.items()]
    write_json(description, {"sweep": "demo", "baseline": None, "layout": None, "cells": cells})
    assert main(["publish", str(sweep / "results"), "--docs", str(sweep / "docs")]) == 0
    page = (sweep / "docs" / "page.md").read_text()
    assert f"| {' | '.join(HEADINGS[:3])} |" in page
    assert NOTE[:40] in page


def test_records_are_published_unchanged(sweep):
    main(["publish", str(sweep / "results"), "--docs", str(sweep / "docs")])
    found = read_published(sweep / "docs" / "figures" / "demo.parquet")
    assert found.records[1] == cell("slow", "ring", 0.004, marks=["busy"])
    assert (found.sweep, found.cells, found.baseline, found.layout) == ("demo", 4, "fast", LAYOUT)


def test_a_sweep_without_records_shows_no_figures(tmp_path):
    assert named_sweeps(PAGE) == ["demo"]
    assert "an old table" not in rendered(PAGE, tmp_path)
    assert "*No records of this sweep are published.*" in rendered(PAGE, tmp_path)


@pytest.mark.parametrize("end", ["", "<!-- end of the sweep -->\n"])
def test_a_place_that_does_not_end_is_refused_and_nothing_after_it_is_lost(tmp_path, end):
    with pytest.raises(ValueError, match="<!-- sweep: first --> of the page does not end"):
        rendered(f"<!-- sweep: first -->\n{end}text\n\n{PAGE}", tmp_path)


def test_other_files_are_refused_by_name(tmp_path, capsys):
    path = tmp_path / "demo.parquet"
    path.write_text("no Parquet")
    with pytest.raises(RecordError, match=r"demo\.parquet is not a published sweep"):
        read_published(path)
    assert main(["publish", str(tmp_path)]) == 2
    assert "has no sweep" in capsys.readouterr().err
