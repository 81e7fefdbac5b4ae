"""Shares of requests over the host link and bytes a second, as tables and as bars."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from harness.report.console import as_text
from harness.report.layout import Layout, rows_of
from harness.report.layout_figure import _rates, _requests, write_layout_figure
from harness.report.layout_tables import notes_of, table_of
from harness.report.requests import counted
from tests.records.samples import record

COLUMNS = {"naive": {"engine": "e", "access": "naive"}, "merged": {"engine": "e", "access": "merged"}}
LAYOUT = Layout.from_plain({"title": "Requests", "kind": "requests", "columns": COLUMNS, "first": "naive"})


def cell(access, requests, **changes):
    config = {"engine": "e", "algorithm": "bfs", "graph": "ring", "features": 1, "max_supersteps": None,
              "schedule": {"access": access}, "device": {"kind": "cuda"}}  # fmt: skip
    transfers = {"visited_bytes": 100, "moved_bytes": {"zero_copy": 100}, "amplification": 1.0, "requests": requests,
                 "subgraphs": {}, "seconds": {}, "data": {}}  # fmt: skip
    labels = {"engine": "e", "algorithm": "bfs", "graph": "ring"}
    return record(
        "e", **{"config": config, "labels": labels, "features": 1, "transfers": requests and transfers, **changes}
    )


RECORDS = [cell("naive", {"32": 400}), cell("merged", {"32": 25, "64": 0, "96": 25, "128": 50})]


def test_the_table_has_the_shares_and_the_number_over_the_first_column():
    lines = [line.split("│")[1:] for line in as_text(table_of(LAYOUT, RECORDS)).splitlines() if line.startswith("│")]
    shown = [[part.strip() for part in line if part.strip()] for line in lines]
    headings = [column.header for column in table_of(LAYOUT, RECORDS).columns]
    assert headings == ["", "graph", "access", "32 B", "64 B", "96 B", "128 B", "requests", "over naive"]
    assert shown == [
        ["bfs", "ring", "naive", "100.0 %", "0.0 %", "0.0 %", "0.0 %", "400", "-"],
        ["bfs", "ring", "merged", "25.0 %", "0.0 %", "25.0 %", "50.0 %", "100", "0.25x"],
    ]


def test_cells_without_requests_are_named():
    lost = cell("merged", None, outcome="unsupported", reason="no GPU", solve=None)
    assert [one.column for one in counted(LAYOUT, [RECORDS[0], lost])] == ["naive"]
    assert "bfs, ring, merged: unsupported" in notes_of(LAYOUT, [RECORDS[0], lost])
    wrong = {**RECORDS[1], "outcome": "wrong"}
    assert [one.column for one in counted(LAYOUT, [RECORDS[0], wrong])] == ["naive"]
    assert "bfs, ring, merged: wrong" in notes_of(LAYOUT, [RECORDS[0], wrong])
    assert "bfs, ring, merged: not counted" in notes_of(LAYOUT, [RECORDS[0], cell("merged", None)])


@pytest.mark.parametrize(("sizes", "total"), [({}, 0), ({"32": 0}, 0), ({"32": 0, "64": 0}, 0), ({"64": 2}, 2)])
def test_a_first_column_without_requests_has_no_ratio_over_it(sizes, total):
    records = [{**RECORDS[0], "transfers": {**RECORDS[0]["transfers"], "requests": sizes}}, RECORDS[1]]
    found = {one.column: (one.total, one.times) for one in counted(LAYOUT, records)}
    assert found == {**({"naive": (2, None)} if total else {}), "merged": (100, 50.0 if total else None)}
    assert "merged" in as_text(table_of(LAYOUT, records))
    reason = [] if total else ["bfs, ring, naive: no requests" if sizes else "bfs, ring, naive: not counted"]
    assert [note for note in notes_of(LAYOUT, records) if "naive:" in note] == reason


def test_the_figure_stacks_the_shares(tmp_path):
    pytest.importorskip("matplotlib", reason="figures need the extra 'figures'")
    [axes] = _requests(LAYOUT, list(counted(LAYOUT, RECORDS))).axes
    assert (axes.get_title(), axes.get_ylabel(), axes.get_ylim()) == ("bfs", "share of the requests in %", (0, 100))
    merged = [bars[1] for bars in axes.containers]
    assert [(bar.get_y(), bar.get_height()) for bar in merged] == [(0, 25), (25, 0), (25, 25), (50, 50)]
    paths = write_layout_figure(tmp_path / "layout", LAYOUT, RECORDS)
    assert [path.name for path in paths] == ["layout.svg", "layout.png"]
    text = " ".join(ET.parse(paths[0]).getroot().itertext())
    for word in ("ring, merged", "128 B", "Requests"):
        assert word in text


RATES = Layout.from_plain({"title": "Rates", "kind": "rates", "columns": COLUMNS})


def test_rates_are_bytes_over_the_median_time(tmp_path):
    fast = cell("naive", {"32": 4})
    fast["transfers"] = {**fast["transfers"], "moved_bytes": {"zero_copy": 3 * 10**9, "copied": 10**9}}
    records = [fast, cell("merged", None, outcome="unsupported", reason="no GPU", solve=None)]
    [line] = [line.split("│")[1:] for line in as_text(table_of(RATES, records)).splitlines() if line.startswith("│")]
    assert [part.strip() for part in line if part.strip()] == ["bfs", "ring", "4", "unsupported"]
    assert [column.header for column in table_of(RATES, records).columns] == ["", "graph", *COLUMNS]
    assert "not counted" in as_text(table_of(RATES, [fast, cell("merged", None)]))
    assert not any("the link" in note for note in notes_of(RATES, records))
    link = {
        "copy": 5e10,
        "in_place": {"128": 4e10, "96": 3e10, "32": 1.5e10, "64": 2e10},
        "read": None,
        "run_bytes": None,
    }
    link_notes = [note for note in notes_of(RATES, [{**fast, "link": link}]) if "the link" in note]
    assert link_notes == [
        "the link, medians of 1 cells: plain copies 50 GB/s, reads of 32 bytes 15 GB/s, reads of 64 bytes 20 GB/s, "
        "reads of 96 bytes 30 GB/s, reads of 128 bytes 40 GB/s"
    ]
    pytest.importorskip("matplotlib", reason="figures need the extra 'figures'")
    [axes] = _rates(RATES, rows_of(RATES, records)).axes
    assert [[bar.get_height() for bar in bars] for bars in axes.containers] == [[4.0], [0.0]]
    assert [text.get_text() for text in axes.texts] == ["4", ""]
    assert [[bar.get_x() for bar in bars] for bars in axes.containers] == [[pytest.approx(-0.4)], [pytest.approx(0.0)]]
    assert (axes.get_ylabel(), [tick.get_text() for tick in axes.get_xticklabels()]) == ("GB/s", ["ring"])
    paths = write_layout_figure(tmp_path / "layout", RATES, records)
    assert [path.name for path in paths] == ["layout.svg", "layout.png"]
