"""The use of edges in every superstep, as a table, as a figure and on the page."""

from __future__ import annotations

import pytest

from harness.contract import Transfers
from harness.report.console import as_text
from harness.report.edge_use import edge_uses
from harness.report.layout import Layout
from harness.report.layout_figure import _uses, write_layout_figure
from harness.report.layout_tables import notes_of, table_of
from harness.report.page.laid_out import laid_out_table
from tests.report.test_layout import cell

COLUMNS = {"On": {"engine": "onyx"}}
LAYOUT = {"title": "Use", "kind": "use", "columns": COLUMNS, "names": {"flood": "FL"}}
DATA = {"useful": [60, 10], "potentially useful": [30, 0], "never used": [10, 90]}


def runs():
    """Return a run with data, one without, and one that failed."""
    counted, uncounted = cell("onyx", None, "flood", "ring", 1.0), cell("onyx", None, "drain", "ring", 1.0)
    counted["transfers"] = Transfers(70, {}, data=DATA).plain()
    uncounted["transfers"] = Transfers(70, {}).plain()
    return [counted, uncounted, cell("onyx", None, "wait", "ring", None, outcome="unsupported")]


def test_the_table_has_a_row_for_every_superstep():
    layout = Layout.from_plain(LAYOUT)
    lines = [
        [part.strip() for part in line.strip("│").split("│")]
        for line in as_text(table_of(layout, runs())).splitlines()
        if line.startswith("│")
    ]
    assert [column.header for column in table_of(layout, runs()).columns] == ["", "graph", "superstep", *DATA]
    assert lines == [
        ["FL", "ring (y=2)", "1", "60.0 %", "30.0 %", "10.0 %"],
        ["FL", "ring (y=2)", "2", "10.0 %", "0.0 %", "90.0 %"],
        ["drain (x=1)", "ring (y=2)", "not counted", "", "", ""],
        ["wait (x=1)", "ring (y=2)", "unsupported", "", "", ""],
    ]
    laid_out = laid_out_table(layout, runs())
    assert [name for name, _ in laid_out.headings] == ["", "graph", "superstep", *DATA]
    assert laid_out.notes == tuple(notes_of(layout, runs()))
    several = Layout.from_plain({**LAYOUT, "columns": {**COLUMNS, "Other": {"engine": "other"}}})
    assert str(table_of(several, runs()).columns[2].header) == "engine"


@pytest.mark.full(reason="drawing takes seconds")
def test_the_figure_is_written(tmp_path):
    paths = write_layout_figure(tmp_path / "layout", Layout.from_plain(LAYOUT), runs())
    assert [path.suffix for path in paths] == [".svg", ".png"]
    assert all(path.stat().st_size > 1000 for path in paths)


def test_the_figure_stacks_the_shares_of_each_run():
    layout = Layout.from_plain(LAYOUT)
    [axes] = _uses(layout, [run for run in edge_uses(layout, runs()) if run.data]).axes
    assert (axes.get_title(), axes.get_xlabel(), axes.get_ylabel()) == ("FL, ring (y=2)", "superstep", "% of edges")
    assert axes.get_ylim() == (0, 100)
    bars = [(round(bar.get_x() + 0.4), bar.get_y(), bar.get_height()) for bar in axes.patches]
    wanted = [(1, 0, 60), (2, 0, 10), (1, 60, 30), (2, 10, 0), (1, 90, 10), (2, 10, 90)]
    assert [pytest.approx(bar) for bar in wanted] == bars
