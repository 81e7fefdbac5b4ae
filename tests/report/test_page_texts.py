"""All texts of a small page, section by section, without a browser: the numbers are computed by hand."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

from harness.contract import Transfers
from harness.report.page import render_page
from harness.report.warm import HEADINGS
from tests.records.samples import record, warm_record
from tests.report.sweeps import cell, failed


class Sections(HTMLParser):
    """The rows of the tables, the items of the lists and the paragraphs of every section, as texts."""

    def __init__(self, page):
        super().__init__()
        self.rows, self.texts, self.values = {}, {}, {}
        self._section, self._open = "header", []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        if tag == "section":
            self._section = given["id"]
        if tag == "tr":
            self.rows.setdefault(self._section, []).append([])
            self.values.setdefault(self._section, []).append([])
        if tag in ("td", "th"):
            self.rows[self._section][-1].append("")
            self.values[self._section][-1].append(given.get("data-value"))
        if tag in ("p", "li", "h2", "h3", "summary", "pre", "dd", "dt"):
            self.texts.setdefault(self._section, []).append("")
        if tag not in ("meta", "input", "br"):
            self._open.append(tag)

    def handle_endtag(self, tag):
        if tag in self._open:
            while self._open.pop() != tag:
                pass

    def handle_data(self, data):
        if {"script", "style", "svg", "title"} & set(self._open):
            return
        if {"td", "th"} & set(self._open):
            self.rows[self._section][-1][-1] += data
        elif {"p", "li", "h2", "h3", "summary", "pre", "dd", "dt"} & set(self._open):
            self.texts[self._section][-1] += data


def small():
    """Return eight of nine cells: two engines, one of them four times as fast, a tie and two failures."""
    found = []
    for k in (1, 8):
        marks = ["noisy"] if k == 1 else []
        found += [cell("slow", "ring", "flood", k, 0.004 * k, marks=marks), cell("fast", "ring", "flood", k, 0.001 * k)]
    found += [cell("slow", "path", "drain", 8, 0.02), cell("fast", "path", "drain", 8, 0.0201)]
    lost = [("fast", "unsupported", "no form"), ("slow", "crashed", "died")]
    return [*found, *(failed(name, "star", "flood", 8, outcome, reason, "out\nmore") for name, outcome, reason in lost)]


@pytest.fixture(scope="module")
def page():
    return Sections(render_page(small(), "slow", 9))


def test_the_head_of_the_page_counts_the_cells(page):
    assert page.texts["header"] == [
        "sweep 0123456789ab · 2026-01-01 · 8 cells · speed-ups over slow · a processor, 2 cores",
        "Of 4 comparisons, fast is fastest in 2.",
        "6 ok", "1 unsupported", "1 failed", "1 not run yet",
        "1 of 6 times are noisy: the time budget ended before the interval was as narrow as requested.",
    ]  # fmt: skip


def test_the_standing_has_the_geometric_mean_of_the_speed_ups(page):
    """Of 4, 4 and 0.995."""
    assert page.rows["standing"] == [
        ["engine", "cells ok", "fastest", "mean speed-up", "of speed-ups", "lowest to highest"],
        ["fast", "3 of 4", "2", "2.52×", "3 (1 undecided)", "0.995× to 4×"],
        ["slow", "3 of 4", "0", "1×", "3", "1× to 1×"],
    ]


def test_the_heat_map_has_a_row_for_each_comparison_below_its_title(page):
    assert page.rows["speed-ups"] == [
        ["", "slow", "fast", ""],
        ["ring · flood"], ["k = 1", "4 ms", "4×"], ["k = 8", "32 ms", "4×"],
        ["path · drain"], ["k = 8", "20 ms", "≈ 0.995×"],
        ["star · flood"], ["k = 8", "crashed", "unsupported"],
    ]  # fmt: skip


def test_the_table_of_cells_has_all_values_and_their_numbers(page):
    """An engine visits 20,000 edges in the first superstep, and a fifth less in each of the next 11 or 29."""
    visited = sum(step[1] for step in small()[0]["supersteps"])
    assert visited == pytest.approx(20_000 * (1 - 0.8**30) / 0.2, abs=30)
    head, *rows = page.rows["cells"]
    assert head == [
        "graph", "algorithm", "k", "engine", "outcome", "solve", "speed-up", "supersteps", "a superstep",
        "edges visited", "edges/s", "error", "quality", "whole cell",
    ]  # fmt: skip
    same = ["1.2e-07", "accuracy 0.975", "1.5 s"]
    slow, fast = ["30", "99.9 k"], ["12", "93.1 k"]
    assert rows == [
        [*begin, "ok", time, over, count[0], each, count[1], rate, *same]
        for begin, time, over, count, each, rate in (
            (["ring", "flood", "1", "slow"], "4 ms [3.8, 4.2] *", "1× baseline", slow, "133 us", "25 M"),
            (["ring", "flood", "1", "fast"], "1 ms [0.95, 1.05]", "4× [3.62, 4.42]", fast, "83.3 us", "93.1 M"),
            (["ring", "flood", "8", "slow"], "32 ms [30.4, 33.6]", "1× baseline", slow, "1.07 ms", "3.12 M"),
            (["ring", "flood", "8", "fast"], "8 ms [7.6, 8.4]", "4× [3.62, 4.42]", fast, "667 us", "11.6 M"),
            (["path", "drain", "8", "slow"], "20 ms [19, 21]", "1× baseline", slow, "667 us", "4.99 M"),
            (["path", "drain", "8", "fast"], "20.1 ms [19.1, 21.1]", "≈ [0.9, 1.1]", fast, "1.68 ms", "4.63 M"),
        )
    ] + [["star", "flood", "8", name, outcome, *["–"] * 8, "1.5 s"]
         for name, outcome in (("fast", "unsupported"), ("slow", "crashed"))]  # fmt: skip
    _, first, *_, last = page.values["cells"]
    assert [place for place, one in enumerate(first) if one is None] == [0, 1, 3, 4, 12], "texts"
    assert first[2] == "1"
    assert [float(one) for one in first[5:] if one is not None] == pytest.approx(
        [0.004, 1.0, 30, 0.004 / 30, visited, visited / 0.004, 1.25e-7, 1.5], rel=1e-5
    )
    assert last == [None, None, "8", *[None] * 10, "1.5"]


def test_comparisons_name_the_fastest_and_failures_their_cells(page):
    assert [" ".join(text.split()) for text in page.texts["close"] if "k =" in text] == [
        "ring · flood · k = 1 fastest: fast, 4× over the baseline",
        "ring · flood · k = 8 fastest: fast, 4× over the baseline",
        "path · drain · k = 8 no single fastest engine", "star · flood · k = 8 no single fastest engine",
    ]  # fmt: skip
    assert page.texts["failures"] == [
        "Cells that are not ok, and why", "unsupported no form", "star · flood · k = 8 · fast",
        "crashed died", "star · flood · k = 8 · slow", "out\nmore",
    ]  # fmt: skip
    assert page.texts["environment"] == ["Environment", "cpu", "a processor", "cores", "2"]


def test_sections_without_content_are_left_out(page):
    assert list(page.texts) == [
        "header", "standing", "speed-ups", "features", "cells", "close", "failures", "environment",
    ]  # fmt: skip
    alone = Sections(render_page([record()], None, 1))
    assert list(alone.texts) == ["header", "standing", "speed-ups", "cells", "close", "environment"]
    assert alone.texts["header"][:2] == [
        "sweep 0123456789ab · 2026-01-01 · 1 cell · a processor, 2 cores",
        "1 comparison; in none is one engine faster than all others beyond doubt.",
    ]
    assert "No baseline was given, so times are shown instead of speed-ups." in alone.texts["speed-ups"]


def test_transfers_and_warm_runs_have_their_tables():
    moved = Transfers(400, {"zero_copy": 600, "copied": 200}, {32: 3, 128: 5}, seconds={"queue": 0.5}).plain()
    made = Sections(render_page([record("moving", (2.0, 1.9, 2.1), transfers=moved), warm_record("warm")], None, 2))
    assert made.rows["transfers"] == [
        ["graph", "algorithm", "k", "engine", "visited", "moved", "amplification", "moved/s", "32 B", "64 B", "96 B",
         "128 B", "subgraphs", "parts of the time"],
        ["ring", "flood", "8", "moving", "400", "600 zero_copy, 200 copied", "2", "400", "3", "-", "-", "5", "-",
         "25 % queue"],
    ]  # fmt: skip
    assert made.rows["warm"] == [
        list(HEADINGS),
        ["ring", "flood", "8", "warm", "warm, 7 vertices reset", "500 ms", "4 s", "8x", "2 / 3", "150 / 29.1 k", "31"],
    ]
