"""Tables of papers beside the records of a published sweep."""

from __future__ import annotations

import pytest

from harness.records.outcome import Outcome
from harness.records.published import PublishedSweep, write_published
from harness.report.paper_table import PaperTableError, read_paper_table, render_paper_table
from tests.records.samples import accurate_record, record, solved

pytest.importorskip("duckdb", reason="published records need the extra 'query'")

TABLE = """
title = "Paper 2020, table 1"
sweep = "demo"
features = 4
unit = "ms"
columns = ["Slow", "Fast"]
ours = ["Slow", "Fast"]
first = "Slow"
shows = "speed-ups"

[rows.FL]
RU = [100.5, 2.0]
HW = [200.0, "X"]

[rows.AL]
RU = [50.0, 3.0]
"""
COLUMNS = {"Slow": {"engine": "slow"}, "Fast": {"engine": "fast"}}
NAMES = {"flood": "FL", "road_usa": "RU", "like_road_usa": "RU (stand-in)", "like_hollywood": "HW (stand-in)"}
LAYOUT = {"title": "T", "kind": "table", "columns": COLUMNS, "first": None, "names": NAMES}


def cell(engine, graph, times, **changes):
    config = {"engine": engine, "algorithm": "flood", "graph": graph, "features": 4, "max_supersteps": None,
              "schedule": {}, "device": {"kind": "cpu"}}  # fmt: skip
    labels = {"engine": engine, "algorithm": "flood", "graph": graph}
    return record(engine, times, config=config, labels=labels, features=4, **changes)


@pytest.fixture
def figures(tmp_path):
    """Return a function that publishes records as the sweep and returns the folder."""

    def publish(*records, layout=LAYOUT):
        write_published(
            tmp_path / "demo.parquet", PublishedSweep("demo", "onyx-harness", len(records), "slow", layout, records)
        )
        return tmp_path

    return publish


def table(tmp_path, text=TABLE):
    path = tmp_path / "paper.toml"
    path.write_text(text)
    return read_paper_table(path)


def rows(text):
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in text.splitlines() if line[:1] == "|"]


def test_without_records_nothing_is_measured(tmp_path):
    text = render_paper_table(table(tmp_path), tmp_path)
    assert rows(text)[0] == ["", "graph", "Slow, paper", "Slow, here", "Fast, paper", "Fast, here"]
    assert rows(text)[2:] == [
        ["FL", "RU", "100.5 ms", "-", "2.0x", "-"],
        ["", "HW", "200.0 ms", "-", "X", "-"],
        ["AL", "RU", "50.0 ms", "-", "3.0x", "-"],
    ]
    assert "- -: not measured yet" in text
    assert "- X: out of memory" in text


def test_columns_of_one_side_stand_alone(tmp_path):
    own = table(tmp_path, TABLE.replace('ours = ["Slow", "Fast"]', 'ours = ["Other", "Slow"]'))
    assert rows(render_paper_table(own, tmp_path))[0] == [
        "", "graph", "Slow, paper", "Slow, here", "Fast, paper", "Other, here",
    ]  # fmt: skip


def test_our_times_and_speed_ups_are_beside_those_of_the_paper(tmp_path, figures):
    folder = figures(
        cell("slow", "like_road_usa", (0.04, 0.039, 0.041)),
        cell("fast", "like_road_usa", (0.01, 0.0099, 0.0101)),
        cell("slow", "like_hollywood", (0.04, 0.039, 0.041)),
        cell("fast", "like_hollywood", None, outcome="out_of_memory"),
    )
    text = render_paper_table(table(tmp_path), folder)
    assert [line for line in text.splitlines() if line.startswith("- ")] == [
        "- -: not measured yet",
        "- X: out of memory",
    ]
    assert text.startswith("**Paper 2020, table 1, and the sweep `demo`, k = 4; factors: speed-up over Slow**")
    assert rows(text)[2:] == [
        ["FL", "RU", "100.5 ms", "40 ms", "2.0x", "4x"],
        ["", "HW", "200.0 ms", "40 ms", "X", "X"],
        ["AL", "RU", "50.0 ms", "-", "3.0x", "-"],
    ]


def test_times_are_shown_with_their_factor_over_the_first_column(tmp_path, figures):
    folder = figures(
        cell("slow", "road_usa", (0.01, 0.0099, 0.0101)), cell("fast", "road_usa", (0.04, 0.039, 0.041))
    )  # fmt: skip
    text = render_paper_table(
        table(tmp_path, TABLE.replace('"speed-ups"', '"times"').replace("2.0]", "402.0]")), folder
    )
    assert "factors: time over that of Slow" in text
    assert rows(text)[2] == ["FL", "RU", "100.5 ms", "10 ms", "402.0 ms, 4x", "40 ms, 4x"]


def test_factors_are_those_of_whole_runs(tmp_path, figures):
    """Times to equal accuracy would give a factor of 30."""
    to_accuracy = [
        accurate_record(name, (1.0, 0.9, 1.1), 1, [seconds] * 7)["accuracy"]
        for name, seconds in (("s", 0.03), ("f", 0.001))
    ]
    folder = figures(
        cell("slow", "road_usa", (0.04, 0.039, 0.041), accuracy=to_accuracy[0]),
        cell("fast", "road_usa", (0.01, 0.0099, 0.0101), accuracy=to_accuracy[1]),
    )
    assert rows(render_paper_table(table(tmp_path), folder))[2][-1] == "4x"


def test_doubtful_factors_are_marked(tmp_path, figures):
    once = {"solve": solved([0.02])}
    folder = figures(
        cell("slow", "road_usa", (0.01, 0.009, 0.011)),
        cell("fast", "road_usa", (0.0101, 0.009, 0.011)),
        cell("slow", "like_hollywood", (0.04, 0.039, 0.041)),
        cell("fast", "like_hollywood", (0.02, 0.02, 0.02), **once),
    )
    text = render_paper_table(table(tmp_path), folder)
    assert rows(text)[2][-1] == "~"
    assert rows(text)[3][-1] == "2x ?"
    assert "- ?: a ratio of medians without a verdict: too few samples, or other work disturbed a time" in text
    assert r"- ~: no difference shown" in text


@pytest.mark.parametrize("outcome", [Outcome.WRONG, Outcome.IMPLAUSIBLE, Outcome.OUT_OF_MEMORY])
def test_times_of_cells_that_are_not_ok_are_neither_shown_nor_compared(outcome, tmp_path, figures):
    """A cell may have been timed before its answer was checked."""
    folder = figures(
        cell("slow", "road_usa", (0.04, 0.039, 0.041), outcome=outcome),
        cell("fast", "road_usa", (0.01, 0.0099, 0.0101)),
        cell("slow", "like_hollywood", (0.04, 0.039, 0.041)),
        cell("fast", "like_hollywood", (0.01, 0.0099, 0.0101), outcome=outcome),
    )
    shown = rows(render_paper_table(table(tmp_path), folder))[2:]
    sign = "X" if outcome is Outcome.OUT_OF_MEMORY else outcome.replace("_", r"\_")
    assert [row[3:6:2] for row in shown[:2]] == [[sign, "10 ms"], ["40 ms", sign]]


def test_an_original_graph_wins_over_its_stand_in(tmp_path, figures):
    folder = figures(
        cell("slow", "road_usa", (0.01, 0.0099, 0.0101)), cell("slow", "like_road_usa", (0.04, 0.039, 0.041))
    )  # fmt: skip
    assert rows(render_paper_table(table(tmp_path), folder))[2][3] == "10 ms"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('unit = "ms"\n', "", "has no key 'unit'"),
        ('"ms"', '"hours"', "unit is 'hours'; it is one of ms, s"),
        ('first = "Slow"', 'first = "Other"', "first is 'Other'; it is one of None, Slow, Fast"),
        ("[100.5, 2.0]", "[100.5]", "FL.RU has 1 cells, not 2"),
    ],
)
def test_an_invalid_table_is_refused(tmp_path, old, new, message):
    with pytest.raises(PaperTableError, match=message):
        table(tmp_path, TABLE.replace(old, new))


def test_a_sweep_without_a_layout_is_refused(tmp_path, figures):
    with pytest.raises(PaperTableError, match="has no layout"):
        render_paper_table(table(tmp_path), figures(cell("slow", "road_usa", (0.01, 0.0099, 0.0101)), layout=None))


def test_times_with_another_number_of_features_are_not_shown(tmp_path, figures):
    other = cell("slow", "road_usa", (0.07, 0.069, 0.071))
    other = {**other, "cell": "other", "features": 8, "config": {**other["config"], "features": 8}}
    folder = figures(cell("slow", "road_usa", (0.04, 0.039, 0.041)), other)
    assert rows(render_paper_table(table(tmp_path), folder))[2][3] == "40 ms"
