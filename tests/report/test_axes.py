"""What figures draw, read from their axes without writing a file."""

from __future__ import annotations

import pytest

from harness.records import Mark
from harness.report.layout import Layout, rows_of
from tests.records.samples import record, solved
from tests.report.sweeps import cell
from tests.report.test_layout import TIMES
from tests.report.test_layout import cell as of_layout

pytest.importorskip("matplotlib", reason="figures need the extra 'figures'")

from harness.report.figures import (
    _speed_up,
    features_figure,
    figures_of,
    phases_figure,
    settings,
    speed_up_figure,
    style,
    supersteps_figure,
    write_figures,
)
from harness.report.layout_figure import _dots, _lines, _memory, _panels, _rates, _requests, write_layout_figure
from harness.report.memory import pairs_of
from harness.report.requests import counted as counted_requests
from harness.report.series import comparisons, feature_panels


def test_times_over_features_have_their_intervals():
    records = [
        cell(engine, "ring", "flood", k, factor * k)
        for k in (8, 1)
        for engine, factor in (("slow", 4.0), ("fast", 1.0))
    ]
    records[0]["solve"] = solved([32.0] * 3)
    [panel] = feature_panels(comparisons(records, "slow"))
    figure = features_figure(panel, {"slow": 0, "fast": 1})
    [axes] = figure.axes
    assert (axes.get_xlabel(), axes.get_ylabel(), axes.get_title()) == ("features k", "solve (s)", "ring · flood")
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    drawn = {bars.get_label(): bars for bars in axes.containers}
    assert list(drawn) == ["slow", "fast"]
    line, _, (spread,) = drawn["slow"]
    assert (line.get_xdata().tolist(), line.get_ydata().tolist()) == ([1, 8], [4.0, 32.0])
    assert (line.get_color(), line.get_marker()) == style(0)
    ends = [[end[1] for end in segment] for segment in spread.get_segments()]
    assert ends == [pytest.approx([3.8, 4.2]), pytest.approx([32.0, 32.0])], "no interval of three samples"
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["1", "8"]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["slow", "fast"]


def group_of(*records):
    [group] = comparisons(records, "slow")
    return group


def test_active_vertices_over_supersteps():
    slow = cell("slow", "ring", "flood", 8, 4.0, supersteps=[[100, 7, "push"], [10, 7, "push"], [0, 0, "push"]])
    none = cell("none", "ring", "flood", 8, 4.0, supersteps=[])
    [axes] = supersteps_figure(group_of(slow, none), {"slow": 2, "none": 1}).axes
    [line] = axes.lines
    assert (list(line.get_xdata()), list(line.get_ydata())) == ([1, 2, 3], [100, 10, 0.5])
    assert (line.get_label(), line.get_color()) == ("slow", style(2)[0])
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("superstep", "active vertices")
    assert axes.get_title() == "ring · flood, k = 8"


def test_phases_are_stacked_in_the_order_of_a_run():
    slow = cell("slow", "ring", "flood", 8, 4.0, phases={"validate": 0.5, "open": 1.0})
    fast = cell("fast", "ring", "flood", 8, 1.0, phases={"open": 0.25, "my_own": 2.0})
    none = cell("none", "ring", "flood", 8, 1.0, phases={})
    [axes] = phases_figure(group_of(slow, fast, none)).axes
    bars = {one.get_label(): [(bar.get_x(), bar.get_width()) for bar in one] for one in axes.containers}
    assert bars == {
        "open": [(0.0, 1.0), (0.0, 0.25)],
        "my own": [(1.0, 0.0), (0.25, 2.0)],
        "solve": [(1.0, 4.0), (2.25, 1.0)],
        "validate": [(5.0, 0.5), (3.25, 0.0)],
    }
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["slow", "fast"]
    assert (axes.get_xlabel(), axes.get_title()) == ("seconds", "ring · flood, k = 8")
    assert len({bar[0].get_facecolor() for bar in axes.containers}) == 4


SLOW = record("slow", (4.0, 3.9, 4.1))


@pytest.mark.parametrize(
    ("mine", "text", "shade"),
    [
        (record("fast", (1.0, 0.98, 1.02)), "4", 0.86),
        (record("fast", (0.1, 0.098, 0.102)), "40", 0.86),
        (record("fast", (2.0, 1.98, 2.02)), "2", 0.68),
        (record("fast", (8.0, 7.9, 8.1)), "0.5", 0.32),
        (record("fast", (64.0, 63.0, 65.0)), "0.0625", 0.14),
        (record("fast", (3.95, 3.8, 4.05)), "~", 0.5),
        (record("fast", marks=[Mark.BUSY]), "?", 0.5),
        (record("fast", settled=False), "n/c", None),
        (record("fast", None, outcome="out_of_memory"), "out\nof\nmemory", None),
        (record("fast", sweep="f" * 12), "", None),
    ],
)
def test_squares_of_the_heat_map(mine, text, shade):
    if mine["sweep"] != SLOW["sweep"]:
        group = next(one for one in comparisons([SLOW, mine], "slow") if mine in one.records)
    else:
        group = group_of(SLOW, mine)
    found = _speed_up(group, mine)
    assert found == (text, shade if shade is None else pytest.approx(shade))
    if group.baseline is not None:
        assert _speed_up(group, SLOW) == ("1", 0.5)


def test_the_heat_map_has_a_row_for_each_comparison():
    records = [
        cell(engine, "ring", "flood", k, seconds) for k in (1, 8) for engine, seconds in (("slow", 4.0), ("fast", 1.0))
    ]
    [axes] = speed_up_figure(comparisons(records[:3], "slow"), ["slow", "fast"], "slow").axes
    assert {text.get_position(): text.get_text() for text in axes.texts} == {(0, 0): "1", (1, 0): "4", (0, 1): "1"}
    assert len(axes.patches) == 3
    assert axes.get_title() == "Speed-up over slow"
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["ring · flood, k = 1", "ring · flood, k = 8"]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["slow", "fast"]
    assert axes.get_ylim() == (1.5, -0.5)


def test_the_kinds_of_figures_of_records():
    one = [cell("slow", "ring", "flood", 1, 4.0), cell("fast", "ring", "flood", 1, 1.0)]
    kinds = [(kind, title) for kind, title, _ in figures_of(one, "slow")]
    assert kinds == [
        ("speed-ups", "speed-ups over slow"),
        ("supersteps", "ring · flood, k = 1"),
        ("phases", "ring · flood, k = 1"),
    ]
    assert [kind for kind, _, _ in figures_of(one, None)] == ["supersteps", "phases"]
    bare = [cell("slow", "ring", "flood", 1, 4.0, supersteps=[], phases={})]
    assert [kind for kind, _, _ in figures_of(bare, None)] == []


def test_unknown_formats_are_refused(tmp_path):
    with pytest.raises(ValueError, match="figure format 'gif' is unknown; choose one of svg, pdf, png"):
        write_figures(tmp_path / "figures", [], None, ("svg", "gif"))
    assert not (tmp_path / "figures").exists()
    assert write_figures(tmp_path / "figures", [], None) == []


def counted(record, transactions):
    model = None if transactions is None else {"atomics": {"transactions": transactions}}
    return {**record, "memory": {"counters": None, "model": model}}


def test_a_layout_over_features_has_times_transactions_and_lost_cells():
    layout = Layout.from_plain({**TIMES, "kind": "lines"})
    rows = [
        counted(of_layout("onyx", False, "flood", "ring", 0.01, 8), 400.0),
        counted(of_layout("onyx", False, "flood", "ring", 0.002, 1), 100.0),
        counted(of_layout("onyx", True, "flood", "ring", 0.004, 8), None),
        {**of_layout("other", None, "flood", "ring", None, 8, outcome="out_of_memory"), "features": 8},
    ]
    figure = _lines(layout, rows_of(layout, rows))
    axes, right = figure.axes
    assert (axes.get_title(), axes.get_xlabel(), axes.get_ylabel()) == ("FL, ring (y=2)", "features k", "ms")
    lines = {bars.get_label(): bars.lines[0] for bars in axes.containers}
    assert {name: list(zip(line.get_xdata(), line.get_ydata(), strict=True)) for name, line in lines.items()} == {
        "NFA": [(1, pytest.approx(2.0)), (8, pytest.approx(10.0))],
        "FA": [(8, pytest.approx(4.0))],
        "Other": [],
    }
    (_, _, (spread,)) = axes.containers[1]
    assert [[end[1] for end in part] for part in spread.get_segments()] == [pytest.approx([3.8, 4.2])]
    assert [bars.lines[0].get_marker() for bars in axes.containers] == [style(place)[1] for place in range(3)]
    assert [(text.get_text(), text.xy[0]) for text in axes.texts] == [("X", 8)]
    assert right.get_ylabel() == "atomic transactions (dashed)"
    with settings():
        _, right = _lines(layout, rows_of(layout, rows)).axes
    assert right.spines["right"].get_visible(), "the axis of the transactions"
    assert not right.spines["top"].get_visible()
    assert (axes.get_yscale(), right.get_yscale(), axes.get_xscale()) == ("log", "log", "log")
    [dashed] = right.lines
    assert (list(dashed.get_xdata()), list(dashed.get_ydata())) == ([1, 8], [100.0, 400.0])
    assert right.yaxis.get_major_formatter()(20_000.0, 0) == "20 k"
    uncounted = [counted(one, None) for one in rows]
    assert len(_lines(layout, rows_of(layout, uncounted)).axes) == 1
    zero = [counted(one, 0.0) for one in rows]
    assert len(_lines(layout, rows_of(layout, zero)).axes) == 1


def test_counters_of_transactions_precede_the_model():
    counts = {"counters": {"atomics": {"transactions": 900.0}}, "model": {"atomics": {"transactions": 100.0}}}
    rows = [{**of_layout("onyx", False, "flood", "ring", 0.01, 8), "memory": counts}]
    _, right = _lines(Layout.from_plain({**TIMES, "kind": "lines"}), rows_of(Layout.from_plain(TIMES), rows)).axes
    assert list(right.lines[0].get_ydata()) == [900.0]


@pytest.mark.parametrize("kind", ["lines", "dots", "rates", "requests", "memory"])
def test_figures_have_room_for_their_bars_and_their_legend(kind):
    """A bar has 0.16 inches and a panel 2.9; a row of the legend adds 0.17 inches to the height."""
    given = {"memory": {**TIMES, "first": "NFA"}}.get(kind, TIMES)
    layout = Layout.from_plain({**given, "kind": kind})
    found = {}
    for graphs in (2, 10):
        rows = []
        for place in range(graphs):
            for number, aware in enumerate((False, True)):
                made = of_layout("onyx", aware, "flood", f"g{place}", 0.01)
                whole = {"load_efficiency": 0.5, "atomics": {"transactions": 10.0}, "loads": {}, "share": 1.0}
                requests = {"requests": {"32": 5 + number}, "moved_bytes": {"copied": 10**9}}
                rows.append({**made, "memory": {"model": whole, "counters": None, "reason": ""}, "transfers": requests})
        figure = DRAW[kind](layout, rows)
        labels = len(figure.legends[0].get_texts())
        found[graphs] = (labels, figure.get_figwidth(), figure.get_figheight())
    labels = {"requests": 4, "memory": 2}.get(kind, 3)
    wide = {"rates": 3 * 2 * 10 * 0.16, "requests": 2 * 2 * 10 * 0.16, "memory": 2 * 10 * 0.16}.get(kind, 0)
    sizes = {2: (2.9, 2.3), 10: (max(2.9, wide), 2.3)}
    if kind == "lines":  # two axes for each graph
        sizes = {2: (2 * 3.8, 2.8), 10: (3 * 3.8, 4 * 2.8)}
    for graphs, (width, height) in sizes.items():
        assert found[graphs] == (labels, pytest.approx(width), pytest.approx(height + 0.6 + 0.17))


DRAW = {
    "lines": lambda layout, rows: _lines(layout, rows_of(layout, rows)),
    "dots": lambda layout, rows: _dots(layout, rows_of(layout, rows)),
    "rates": lambda layout, rows: _rates(layout, rows_of(layout, rows)),
    "requests": lambda layout, rows: _requests(layout, list(counted_requests(layout, rows))),
    "memory": lambda layout, rows: _memory(layout, list(pairs_of(layout, rows))),
}


def test_a_layout_over_graphs_has_dots_side_by_side():
    layout = Layout.from_plain({**TIMES, "kind": "dots"})
    rows = [
        of_layout("onyx", False, "flood", "ring", 0.8),
        of_layout("onyx", True, "flood", "path", 0.2),
        of_layout("other", None, "flood", "path", 0.4),
    ]
    [axes] = _dots(layout, rows_of(layout, rows)).axes
    dots = sorted(
        (round(float(x), 3), round(float(y), 3))
        for bars in axes.containers
        for x, y in zip(*bars.lines[0].get_data(), strict=True)
    )
    assert dots == [(-0.2, 800.0), (1.0, 200.0), (1.2, 400.0)]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["ring (y=2)", "path (y=2)"]
    assert (axes.get_xlim(), axes.get_yscale(), axes.get_ylabel()) == ((-0.5, 1.5), "log", "ms")
    assert list(axes.get_xticks(minor=True)) == [0.5]
    entries, names = axes.get_legend_handles_labels()
    assert sorted(names) == sorted(layout.columns)
    drawn = {(bars.lines[0].get_marker(), bars.lines[0].get_color()) for bars in axes.containers}
    assert drawn == {(entry.get_marker(), entry.get_color()) for entry in entries}
    assert {entry.get_linestyle() for entry in entries} == {"None"}


def test_lost_cells_of_columns_are_marked_below_one_another():
    cells = [
        of_layout(engine, None, "flood", "ring", None, k, "out_of_memory")
        for engine, k in (("onyx", 1), ("onyx", 8), ("other", 8))
    ]
    columns = {"A": {"engine": "onyx"}, "B": {"engine": "other"}}
    layout = Layout.from_plain({"title": "T", "kind": "lines", "columns": columns})
    [axes] = _lines(layout, rows_of(layout, cells)).axes
    assert axes.get_yscale() == "linear", "without a time there is no logarithm"
    assert [(text.get_text(), *text.xy) for text in axes.texts] == [
        ("X", 1, 0.97), ("X", 8, 0.97), ("X", 8, pytest.approx(0.89)),
    ]  # fmt: skip


@pytest.mark.parametrize(("count", "across", "down"), [(0, 1, 1), (1, 1, 1), (3, 3, 1), (4, 3, 2), (7, 3, 3)])
def test_panels_are_at_most_three_side_by_side(count, across, down):
    layout = Layout.from_plain({**TIMES, "kind": "dots"})
    figure, places = _panels(layout, count, (2.0, 3.0))
    assert len(places) == count
    assert figure.get_size_inches().tolist() == pytest.approx([2.0 * across, 3.0 * down + 0.6])
    assert figure.get_suptitle() == "Table 1"


def test_a_layout_without_rows_has_no_figure(tmp_path):
    for kind in ("lines", "dots", "rates", "requests", "use"):
        assert write_layout_figure(tmp_path / "x", Layout.from_plain({**TIMES, "kind": kind}), []) == []
