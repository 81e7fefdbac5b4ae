"""Results in the layout of a paper's table or figure, from records only."""

from __future__ import annotations

import copy
from xml.etree import ElementTree as ET

import pytest
from PIL import Image

from harness.records import write_json, write_record
from harness.report.__main__ import main
from harness.report.console import as_text
from harness.report.layout import Layout, LayoutError, layout_table, legend, named, rows_of
from harness.report.layout_figure import _dots, _memory, write_layout_figure
from harness.report.layout_tables import table_of
from harness.report.memory import memory_legend, memory_table, pairs_of
from tests.records.samples import accurate_record, record, solved

COLUMNS = {
    "NFA": {"engine": "onyx", "aware": False},
    "FA": {"engine": "onyx", "aware": True},
    "Other": {"engine": "other"},
}
SPEED_UPS = {"title": "Table 1", "columns": COLUMNS, "first": "NFA", "names": {"flood": "FL", "road_usa": "RU"}}
TIMES = {**SPEED_UPS, "first": None}
TIMED = (1.0, 0.9, 1.1)


def cell(engine, aware, algorithm, graph, median, k=4, outcome="ok"):
    config = {"engine": engine, "algorithm": algorithm, "graph": graph, "features": k, "max_supersteps": None,
              "schedule": {} if aware is None else {"aware": aware}, "device": {"kind": "cpu"}}  # fmt: skip
    labels = {"engine": engine, "algorithm": f"{algorithm} (x=1)", "graph": f"{graph} (y=2)"}
    times = None if median is None else (median, 0.95 * median, 1.05 * median)
    return record(engine, times, config=config, labels=labels, outcome=outcome, features=k if median else None)


def records():
    return [
        cell("onyx", False, "flood", "road_usa", 0.8),
        cell("onyx", True, "flood", "road_usa", 0.2),
        cell("other", None, "flood", "road_usa", 0.41),
        cell("onyx", False, "drain", "road_usa", 0.1),
        cell("onyx", True, "drain", "road_usa", 0.102),
        cell("other", None, "drain", "road_usa", None, outcome="out_of_memory"),
        cell("onyx", False, "flood", "ring", 0.3),
        cell("onyx", True, "flood", "ring", None, outcome="unsupported"),
        cell("someone", None, "flood", "ring", 0.1),
    ]


def lines_of(layout):
    table = layout_table(Layout.from_plain(layout), records())
    shown = [[part.strip() for part in line.split("│")] for line in as_text(table).splitlines() if "│" in line]
    return [[part for part in line if part] for line in shown], table


def test_the_first_column_has_times_and_the_others_speed_ups():
    lines, _ = lines_of(SPEED_UPS)
    assert lines == [
        ["FL", "RU", "800 ms", "4x", "1.95x"],
        ["ring (y=2)", "300 ms", "unsupported", "-"],
        ["drain (x=1)", "RU", "100 ms", "~", "X"],
    ]


@pytest.mark.parametrize("kind", ["table", "rates", "requests", "use", "machines"])
def test_numbers_are_aligned_to_the_right(kind):
    table = table_of(Layout.from_plain({**SPEED_UPS, "kind": kind}), records())
    names = {"", "graph", "k", "access", "engine"}
    assert {column.justify for column in table.columns if column.header not in names} <= {"right"}
    assert {column.justify for column in table.columns if column.header in names} == {"left"}


def test_all_columns_have_times_where_none_is_first():
    lines, _ = lines_of(TIMES)
    assert lines[0] == ["FL", "RU", "800 ms", "200 ms", "410 ms"]
    assert lines[2] == ["drain (x=1)", "RU", "100 ms", "102 ms", "X"]


def test_the_fastest_is_bold_where_it_is_the_fastest():
    _, table = lines_of(SPEED_UPS)
    bold = [[str(c) for c in column._cells if any(s.style == "bold" for s in c.spans)] for column in table.columns]
    assert [found for found in bold if found] == [["4x"]]


@pytest.mark.parametrize(
    ("times", "accurate", "best"), [((0.8, 0.2), (0.3, 0.3), "FA"), ((0.8, 0.81), (0.3, 0.1), None)]
)
def test_the_fastest_is_that_of_the_times_that_are_shown(times, accurate, best):
    """Times to equal accuracy would give another one."""
    rows = [
        {**cell("onyx", aware, "flood", "ring", time), "accuracy": accurate_record("x", TIMED, 1, [to] * 7)["accuracy"]}
        for aware, time, to in zip((False, True), times, accurate, strict=True)
    ]
    table = layout_table(Layout.from_plain(TIMES), rows)
    bold = [any(span.style == "bold" for span in next(iter(column._cells)).spans) for column in table.columns]
    found = [column.header for column, strong in zip(table.columns, bold, strict=True) if strong]
    assert found == ([best] if best else [])


@pytest.mark.parametrize("outcome", ["wrong", "implausible", "out_of_memory"])
def test_times_of_cells_that_are_not_ok_are_neither_shown_nor_compared(outcome):
    """A cell may have been timed before its answer was checked."""
    sign, layout = "X" if outcome == "out_of_memory" else outcome, Layout.from_plain(TIMES)
    rows = [
        cell("onyx", False, "flood", "road_usa", 0.8), cell("onyx", True, "flood", "road_usa", 0.2),
        cell("other", None, "flood", "road_usa", 0.1, outcome=outcome),
    ]  # fmt: skip
    table = layout_table(layout, rows)
    assert [next(iter(column._cells)).plain for column in table.columns][2:] == ["800 ms", "200 ms", sign]
    bold = [any(span.style == "bold" for span in next(iter(column._cells)).spans) for column in table.columns]
    assert bold[2:] == [False, True, False]
    (axes,) = _dots(layout, rows_of(layout, rows)).axes
    assert len(axes.collections) == 2
    assert [text.get_text() for text in axes.texts] == [sign]


def test_signs_are_explained_where_they_stand():
    assert legend(Layout.from_plain(SPEED_UPS), records()) == [
        "X: out of memory", "~: no difference shown", "-: not run",
    ]  # fmt: skip
    assert legend(Layout.from_plain(TIMES), records()[:3]) == []


def test_numbers_of_features_are_distinguished():
    many = [cell("onyx", True, "flood", "ring", 0.1 * k, k) for k in (1, 8)]
    text = as_text(layout_table(Layout.from_plain(TIMES), many))
    assert "100 ms" in text
    assert "800 ms" in text
    assert " k" in text


@pytest.mark.parametrize("kind", ["lines", "dots"])
def test_figures_show_failed_cells(tmp_path, kind):
    many = [cell("onyx", aware, "flood", "ring", 0.01 * k * (1 + aware), k) for k in (1, 8) for aware in (False, True)]
    lost = cell("other", None, "flood", "ring", None, outcome="out_of_memory")
    paths = write_layout_figure(tmp_path / "layout", Layout.from_plain({**TIMES, "kind": kind}), [*many, lost])
    assert [path.name for path in paths] == ["layout.svg", "layout.png"]
    text = " ".join(ET.parse(paths[0]).getroot().itertext())
    for word in ("Table 1", "FL", "ring (y=2)", "NFA", "FA", "ms"):
        assert word in text
    assert "$" not in text  # formulas are not rendered
    assert " X " in text or kind == "lines"
    with Image.open(paths[1]) as picture:
        assert min(picture.size) > 200


def test_atomic_transactions_stand_on_the_right_where_there_are_any(tmp_path):
    layout = Layout.from_plain({**TIMES, "kind": "lines"})
    times = [cell("onyx", aware, "flood", "ring", 0.01 * k * (1 + aware), k) for k in (1, 8) for aware in (False, True)]

    def drawn(name, *found):
        models = [None if count is None else {"atomics": {"transactions": count}} for count in found]
        memory = [{"counters": None, "model": model} for model in models]
        counted = [{**made, "memory": had} for made, had in zip(times, memory, strict=True)]
        path, _ = write_layout_figure(tmp_path / name, layout, counted)
        return " ".join(ET.parse(path).getroot().itertext())

    expected = "atomic transactions (dashed)"
    assert expected in drawn("counted", 100.0, 40.0, 900.0, None)
    assert expected not in drawn("none", 0.0, 0.0, 0.0, None)
    assert expected not in drawn("not counted", None, None, None, None)


def test_the_figure_shows_the_table_with_intervals_and_without_bars(tmp_path):
    layout = Layout.from_plain({**SPEED_UPS, "kind": "dots"})
    rows = [
        cell("onyx", False, "flood", "road_usa", 0.695), cell("onyx", True, "flood", "road_usa", 0.130),
        cell("onyx", False, "drain", "road_usa", 0.1), cell("onyx", True, "drain", "road_usa", 0.102),
        cell("onyx", False, "drain", "ring", 0.695),
        {**cell("onyx", True, "drain", "ring", 0.130), "solve": solved([0.130] * 3)},
    ]  # fmt: skip
    path, _ = write_layout_figure(tmp_path / "layout", layout, rows)
    text = [part.strip() for part in ET.parse(path).getroot().itertext() if part.strip()]
    signs = [part for part in text if part in ("5.35x", "~", "?")]
    assert sorted(signs) == ["5.35x", "?", "~"]
    assert "~: no difference shown; ?: too few samples for a verdict, or other work disturbed a time" in " ".join(text)
    table = as_text(layout_table(layout, rows))
    assert all(sign in table for sign in signs)
    figure = _dots(layout, rows_of(layout, rows))
    assert all(not axes.patches for axes in figure.axes)  # a bar would start at the arbitrary lower limit of the axis
    spreads = [whiskers.get_segments() for axes in figure.axes for whiskers in axes.collections]
    assert len(spreads) == len(rows)
    heights = [abs(ends[1][1] - ends[0][1]) for [ends] in spreads]
    assert sum(height > 0 for height in heights) == len(rows) - 1  # none for the time of three samples
    tops = [ends[1][1] for [ends] in spreads]
    assert all(text.xy[1] in tops for axes in figure.axes for text in axes.texts)  # above the interval, not across it


def test_a_layout_of_an_earlier_sweep_keeps_its_figure():
    assert Layout.from_plain({**TIMES, "kind": "bars"}).kind == "dots"


def test_a_name_may_belong_to_a_label():
    layout = Layout.from_plain({**TIMES, "names": {"ring": "R", "ring (y=2)": "a ring"}})
    assert {row.graph for row in rows_of(layout, records())} == {"road_usa (y=2)", "a ring"}


@pytest.mark.parametrize("backwards", [False, True])
def test_in_a_row_of_two_algorithms_a_cell_that_ran_precedes_a_refused_one(backwards):
    layout = Layout.from_plain({**TIMES, "names": {"flood": "both", "drain": "both"}})
    given = [
        cell("onyx", True, "flood", "ring", 0.2), cell("other", None, "flood", "ring", None, outcome="unsupported"),
        cell("onyx", True, "drain", "ring", None, outcome="unsupported"), cell("other", None, "drain", "ring", 0.4),
    ]  # fmt: skip
    [row] = rows_of(layout, given[::-1] if backwards else given)
    assert {name: one["outcome"] for name, one in row.cells.items()} == {"FA": "ok", "Other": "ok"}


def test_contents_of_a_graph_have_separate_rows():
    rows = [cell("onyx", False, "flood", "ring", 0.8), cell("onyx", True, "flood", "ring", 0.2)]
    rows[1]["graph"] = {**rows[1]["graph"], "content_hash": "another1"}
    text = as_text(layout_table(Layout.from_plain(SPEED_UPS), rows))
    assert "4x" not in text
    assert "(contents another1)" in text


def test_a_figure_of_only_failures_is_drawn(tmp_path):
    layout = Layout.from_plain({**TIMES, "kind": "dots"})
    paths = write_layout_figure(
        tmp_path / "layout", layout, [cell("onyx", True, "flood", "ring", None, outcome="wrong")]
    )
    assert "wrong" in " ".join(ET.parse(paths[0]).getroot().itertext())


def test_a_table_has_no_figure(tmp_path):
    assert write_layout_figure(tmp_path / "layout", Layout.from_plain(TIMES), records()) == []
    assert not list(tmp_path.iterdir())


def test_it_is_rebuilt_from_the_records(tmp_path, capsys):
    for number, made in enumerate(records()):
        marks = ["busy"] if number < 2 else []
        write_record(tmp_path / f"{number:024d}", {**made, "cell": f"{number:024d}", "marks": marks})
    cells = [{"cell": f"{number:024d}", "overrides": []} for number in range(len(records()))]
    layout = Layout.from_plain(SPEED_UPS).plain()
    write_json(tmp_path / "sweep.json", {"sweep": "0123456789ab", "baseline": None, "layout": layout, "cells": cells})
    assert main(["layout", str(tmp_path)]) == 0
    output = capsys.readouterr().out
    assert output.startswith("Table 1\n")
    assert "busy (2 of 7 times): other work used" in output
    assert (tmp_path / "layout.txt").read_text().splitlines() == output.splitlines()[:-1]


def test_a_sweep_without_a_layout_says_so(tmp_path, capsys):
    write_record(tmp_path / ("0" * 24), {**records()[0], "cell": "0" * 24})
    assert main(["layout", str(tmp_path)]) == 2
    assert "holds no sweep with a layout" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"kind": "pie"}, "layout.kind is 'pie'"),
        ({"columns": {}}, "layout.columns names no column"),
        ({"columns": {"A": {"aware": True}}}, "layout.columns.A is"),
        ({"first": "B"}, "layout.first is 'B', not one of the columns"),
        ({"colour": "red"}, "it must have the keys"),
        ({"names": ["FL"]}, "layout.names is"),
    ],
)
def test_an_invalid_layout_is_refused(changes, expected):
    with pytest.raises(LayoutError, match=expected.replace("(", r"\(")):
        Layout.from_plain({**SPEED_UPS, **changes})


def counted(efficiency, transactions, by="model"):
    loads = {"requests": 10.0, "sectors": 100.0, "bytes": 3200 * efficiency}
    atomics = {"requests": 10.0, "sectors": 2 * transactions, "transactions": transactions}
    whole = {"load_efficiency": efficiency, "loads": loads, "atomics": atomics}
    return {**whole, "source": by, "share": 1.0, "kernels": {"spread": whole}}


def of_memory(aware, graph, model, counters=None, reason=""):
    made = cell("onyx", aware, "flood", graph, 0.1)
    return {**made, "memory": {"model": model, "counters": counters, "reason": reason}}


MEMORY = {**SPEED_UPS, "kind": "memory", "columns": {name: COLUMNS[name] for name in ("NFA", "FA")}}
TRANSACTIONS = [
    of_memory(False, "road_usa", counted(0.2, 4e6), counted(0.25, 4.4e6, "counters")),
    of_memory(True, "road_usa", counted(0.5, 1e6), counted(0.5, 1.1e6, "counters")),
    of_memory(False, "ring", counted(0.2, 0.0)),
    of_memory(True, "ring", counted(0.8, 0.0), reason="no counters: ncu is not on the PATH"),
    of_memory(False, "star", None, reason="no model: of sums alone"),
    of_memory(True, "star", None, reason="no model: of sums alone"),
]


def test_memory_transactions_stand_over_those_of_the_first_column():
    table = memory_table(Layout.from_plain(MEMORY), TRANSACTIONS)
    shown = [[part.strip() for part in line.split("│")] for line in as_text(table).splitlines() if "│" in line]
    lines = [[part for part in line if part] for line in shown]
    assert lines == [
        ["FL", "RU", "4", "FA", "model", "20.0 %", "2.5x", "1 M", "0.25x"],
        ["FL", "RU", "4", "FA", "counters", "25.0 %", "2x", "1.1 M", "0.25x"],
        ["FL", "ring (y=2)", "4", "FA", "model", "20.0 %", "4x", "0", "-"],
    ]
    legend = memory_legend(Layout.from_plain(MEMORY), TRANSACTIONS)
    assert "FL, ring (y=2), FA: no counters: ncu is not on the PATH" in legend
    assert "FL, star (y=2), NFA: no model: of sums alone" in legend


def test_runs_without_a_count_in_the_first_column_have_no_row():
    rows = [of_memory(False, "ring", None), of_memory(True, "ring", counted(0.8, 0.0))]
    assert memory_table(Layout.from_plain(MEMORY), rows).row_count == 0


def test_bars_of_memory_transactions_stand_side_by_side():
    """A group has two bars for the model and two for the counters, in pairs around the place of its graph."""
    layout = Layout.from_plain(MEMORY)
    [axes] = _memory(layout, list(pairs_of(layout, TRANSACTIONS))).axes
    bars = {
        group.get_label(): [(round(float(bar.get_x() + bar.get_width() / 2), 3), bar.get_height()) for bar in group]
        for group in axes.containers
    }
    assert bars == {
        "load efficiency, FA (model)": [(-0.3, pytest.approx(2.5)), (0.7, pytest.approx(4))],
        "atomic transactions, FA (model)": [(-0.1, pytest.approx(0.25))],
        "load efficiency, FA (counters)": [(0.1, pytest.approx(2))],
        "atomic transactions, FA (counters)": [(0.3, pytest.approx(0.25))],
    }
    assert [text.get_text() for text in axes.texts] == ["20 %", "20 %", "1 M", "25 %", "1.1 M"]
    assert (axes.get_ylabel(), axes.get_title()) == ("over NFA", "FL, k = 4")
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["RU", "ring (y=2)"]


def test_columns_keep_their_colours_in_all_panels_and_all_are_in_the_legend():
    """The first algorithm has the model only, and the second also counters of one column."""
    columns = {**COLUMNS, "Other": {"engine": "other"}}
    layout = Layout.from_plain({**MEMORY, "columns": columns})
    model, counters = counted(0.5, 1e6), counted(0.25, 2e6, "counters")
    rows = []
    for algorithm, own in (("drain", None), ("flood", counters)):
        for engine, aware, source in (("onyx", False, own), ("onyx", True, own), ("other", None, None)):
            made = cell(engine, aware, algorithm, "ring", 0.1)
            rows.append({**made, "memory": {"model": model, "counters": source, "reason": ""}})
    figure = _memory(layout, list(pairs_of(layout, rows)))
    colours = {}
    for axes in figure.axes:
        for bars in axes.containers:
            column = bars.get_label().rpartition(" (")[0]
            colours.setdefault(column, set()).update(bar.get_facecolor() for bar in bars)
    assert {column: len(found) for column, found in colours.items()} == dict.fromkeys(colours, 1)
    assert len(colours) == len(set.union(*colours.values())) == 4, "two numbers of two columns"
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "load efficiency, FA (model)", "atomic transactions, FA (model)",
        "load efficiency, Other (model)", "atomic transactions, Other (model)",
        "load efficiency, FA (counters)", "atomic transactions, FA (counters)",
    ]  # fmt: skip


def test_memory_transactions_are_drawn(tmp_path):
    svg, png = write_layout_figure(tmp_path / "layout", Layout.from_plain(MEMORY), TRANSACTIONS)
    text = "".join(ET.parse(svg).getroot().itertext())
    for label in ("load efficiency, FA (model)", "atomic transactions, FA (counters)", "over NFA", "1.1 M", "RU"):
        assert label in text
    with Image.open(png) as image:
        assert image.width > 300


def test_memory_transactions_want_a_column_to_stand_over():
    with pytest.raises(LayoutError, match=r"layout.first is null"):
        Layout.from_plain({**MEMORY, "first": None})


def test_names_of_a_layout_leave_the_given_records_as_they_are():
    given, before = records(), copy.deepcopy(records())
    shown = named(Layout.from_plain(SPEED_UPS), given)
    assert [tuple(one["labels"].values()) for one in shown] == [
        ("NFA", "FL", "RU"), ("FA", "FL", "RU"), ("Other", "FL", "RU"),
        ("NFA", "drain (x=1)", "RU"), ("FA", "drain (x=1)", "RU"), ("Other", "drain (x=1)", "RU"),
        ("NFA", "FL", "ring (y=2)"), ("FA", "FL", "ring (y=2)"), ("someone", "FL", "ring (y=2)"),
    ]  # fmt: skip
    assert named(None, given) == given
    assert given == before
