"""The index of a folder of results: its sweeps, their outcomes, and links to their pages."""

from __future__ import annotations

import re

import pytest

from harness.records import write_json, write_record
from harness.report.__main__ import main
from harness.report.page.index import write_index
from harness.report.results import NothingFound
from tests.report.conftest import LAPTOP, PHONE
from tests.report.geometry import FAULTS
from tests.report.sweeps import SCRIPT, cell, failed


def write_sweep(folder, name, records, planned, layout=None, page=True):
    for number, record in enumerate(records):
        write_record(folder / name / f"cell-{number}", record)
    cells = [{"cell": f"cell-{number}", "overrides": []} for number in range(planned)]
    write_json(folder / name / "sweep.json", {"sweep": name, "baseline": None, "layout": layout, "cells": cells})
    if page:
        (folder / name / "report.html").write_text("<title>its page</title>")


@pytest.fixture
def folder(tmp_path):
    early = [cell("slow", SCRIPT, "flood", 8, 0.1, started="2026-01-01T10:00:00+00:00")]
    late = [
        cell("slow", "ring", "flood", 8, 0.1, started="2026-03-01T10:00:00+00:00"),
        {**failed("fast", "ring", "flood", 8, "crashed", "SIGSEGV"), "started": "2026-03-02T10:00:00+00:00"},
        {**failed("close", "ring", "flood", 8, "unsupported", "no form"), "started": "2026-03-01T10:00:00+00:00"},
    ]
    write_sweep(tmp_path, "early", early, 1, page=False)
    write_sweep(tmp_path, "late one", late, 5, {"title": "Figure 7.3"})
    return tmp_path


@pytest.mark.short_run(rows=1)
def test_the_index_lists_the_latest_sweep_first_with_its_outcomes(folder, opened):
    page = opened(write_index(folder), LAPTOP)
    rows = page.eval_on_selector_all("tbody tr", "all => all.map(row => [...row.cells].map(one => one.textContent))")
    assert rows == [
        ["late one", "Figure 7.3", "2026-03-02", "1", "1", "1", "2"],
        ["early", f"flood · {SCRIPT} · slow", "2026-01-01", "1", "0", "0", "0"],
    ]
    assert page.title() == "Sweeps"
    page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
    assert page.evaluate(FAULTS) == []


def listed(folder):
    """Return the texts of every row of the index."""
    body = write_index(folder).read_text().partition("<tbody>")[2].partition("</tbody>")[0]
    return [re.findall(r"<t[dh][^>]*>(?:<a [^>]*>)?(.*?)(?:</a>)?</t[dh]>", row) for row in body.splitlines() if row]


def test_rows_have_the_latest_sweep_first_and_count_every_cell_once(folder):
    many = [
        cell(f"e{number}", f"g{number // 2}", "flood", 8, 0.1, started="2026-02-01T00:00:00+00:00")
        for number in range(6)
    ]
    write_sweep(folder, "middle", many[:4], 3)  # more records than the sweep has planned
    write_sweep(folder, "another", many[:5:2], 3)
    assert listed(folder) == [
        ["late one", "Figure 7.3", "2026-03-02", "1", "1", "1", "2"],
        ["middle", "flood · g0, g1 · 4 engines", "2026-02-01", "4", "0", "0", "0"],
        ["another", "flood · g0, g1, g2 · e0, e2, e4", "2026-02-01", "3", "0", "0", "0"],
        ["early", "flood · &lt;script&gt;document.title=&#39;taken&#39;&lt;/script&gt; · slow", "2026-01-01", "1", "0",
         "0", "0"],
    ]  # fmt: skip


def test_a_sweep_with_a_page_is_linked(folder):
    text = write_index(folder).read_text()
    assert 'href="late%20one/report.html"' in text
    assert text.count("<a href") == 1


def test_the_command_writes_the_index_or_says_what_is_missing(folder, tmp_path_factory, capsys):
    assert main(["index", str(folder)]) == 0
    assert capsys.readouterr().out.strip() == str(folder / "index.html")
    with pytest.raises(NothingFound, match="has no sweep"):
        write_index(tmp_path_factory.mktemp("empty"))


def test_a_damaged_record_counts_as_failed(folder):
    (folder / "early" / "cell-0" / "record.json").write_text("{")
    text = write_index(folder).read_text()
    for heading, number in (("ok", 0), ("unsupported", 0), ("failed", 1)):
        assert f'data-title="{heading}">{number}</td>' in text
