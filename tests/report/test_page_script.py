"""The script of a page in Node.js: how numbers are written, which ticks axes have, and which values a plot shows."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from harness.report.page.ticks import round_values
from harness.report.units import count, percent, seconds, seconds_range
from tests.report.node import evaluated

TIMES = [0.0, 4.2e-9, 9.996e-7, 1e-6, 9.994e-4, 9.996e-4, 1e-3, 1.0204e-3, 0.012345, 0.999, 0.9996, 1.0, 59.96, 999.0]
DOM = Path(__file__).with_name("dom.js")
COUNTS = [0, 1, 999, 1000, 9999, 10_000, 20_049, 999_000, 999_600, 1_000_000, 1_234_567, 10**9, 117_200_000_000]


def texts(unit, values, digits, **axis):
    """Return values of an axis as the script writes them with a number of digits."""
    axis = json.dumps({"unit": unit, **axis})
    return evaluated(["format"], [f"valueText({axis}, {value!r}, {digits})" for value in values])


def test_ticks_are_written_as_in_the_tables():
    assert texts("seconds", TIMES, 3) == ["0 s", *map(seconds, TIMES[1:])]
    assert texts("count", COUNTS, 3) == list(map(count, COUNTS))
    assert texts("percent", [0.1, 0.25, 1.0], 3) == list(map(percent, (0.1, 0.25, 1.0)))
    assert texts("number", [0.0, -2.5, 1234.5678, 1e-7], 3) == ["0", "-2.5", "1230", "1e-7"]
    assert texts("name", [0.0, 0.9, 2.0], 3, names=["a", "b"]) == ["a", "b", ""]


@pytest.mark.parametrize(
    ("unit", "value", "text"),
    [
        ("seconds", 1.23456e-3, "1.235 ms"), ("seconds", 0.0, "0 s"), ("seconds", 9.9e-7, "0.99 us"),
        ("seconds", 61.239, "61.24 s"), ("count", 1_234_567, "1,234,567"), ("count", 9.6, "10"),
        ("percent", 0.123456, "12.35 %"), ("number", 0.123456, "0.1235"),
    ],
)  # fmt: skip
def test_a_value_that_is_read_has_four_digits(unit, value, text):
    assert texts(unit, [value], "EXACT") == [text]


@pytest.mark.parametrize(
    ("low", "high", "value"),
    [(0.98e-3, 1.05e-3, 1.02e-3), (0.98e-3, 1.05e-3, 0.99e-3), (0.9, 1.1, 0.95), (0.9, 1.1, 1.0), (9e-7, 2e-6, 1e-6)],
)
def test_an_interval_has_the_unit_of_the_value_beside_it(low, high, value):
    [text] = evaluated(["format"], [f"intervalText({{unit: 'seconds'}}, {low!r}, {high!r}, {value!r})"])
    assert text == seconds_range(low, high, value)
    assert evaluated(["format"], ["intervalText({unit: 'number'}, 0.0012, 12.34567, 0.5)"]) == ["[0.0012, 12.35]"]


@pytest.mark.parametrize(
    ("low", "high", "log", "unit"),
    [
        (0.0, 1.0, False, "number"), (0.3, 41.0, False, "seconds"), (1, 6, False, "count"), (1, 2, False, "count"),
        (1e-3, 0.2, True, "seconds"), (1e-6, 30.0, True, "seconds"), (0.5, 13.0, True, "count"),
        (0.5, 4000.0, True, "count"), (1.1e-3, 1.3e-3, True, "seconds"), (0, 3, False, "name"),
        (-7.0, 7.0, False, "number"), *((0.0, float(f"{high}e{power}"), False, "number")
                                        for high in (3, 6, 12, 30) for power in (-3, 0, 2)),
    ],
)  # fmt: skip
def test_interactive_plots_have_the_ticks_of_the_drawings(low, high, log, unit):
    check_ticks([(low, high, log, unit)])


def test_all_ranges_have_the_ticks_of_the_drawings():
    drawn = np.random.default_rng(1)
    lows, factors = 10 ** drawn.uniform(-6, 4, 120), 10 ** drawn.uniform(0.1, 4, 120)
    logarithmic = [
        *zip(lows, lows * factors, strict=True),
        (1.0, 300.0),
        (1.0, 299.0),
        (1.5e-3, 6e-3),
        (2e-3, 5e-3),
        (5e-6, 3e-4),
    ]
    linear = [(low - high / 2, high) for low, high in logarithmic]
    check_ticks([
        (float(low), float(high), log, unit)
        for log, ranges in ((True, logarithmic), (False, linear))
        for low, high in ranges for unit in ("seconds", "count")
    ])  # fmt: skip


def check_ticks(ranges):
    """Check the ticks of axes against those of the static drawings: low, high, whether logarithmic, and unit."""
    calls = [f"ticksOf({json.dumps({'unit': unit, 'log': log})}, [{low}, {high}])" for low, high, log, unit in ranges]
    for found, (low, high, log, unit) in zip(evaluated(["format"], calls), ranges, strict=True):
        wanted = list(round_values(low, high, logarithmic=log, whole=unit in ("count", "name")))
        assert found == pytest.approx(wanted, rel=1e-9, abs=1e-18), (low, high, log, unit)


def test_an_axis_has_its_own_ticks_where_one_is_in_the_range():
    axis = "{unit: 'count', ticks: [1, 4, 16, 64]}"
    assert evaluated(["format"], [f"ticksOf({axis}, [4, 16])", f"ticksOf({axis}, [5, 15])"]) == [
        [4, 16], [6, 8, 10, 12, 14],
    ]  # fmt: skip


# Series 0 and 1 meet at x = 2; series 0 has an interval there.
TOLD = {
    "x": {"title": "superstep", "unit": "count", "log": False, "low": 0, "high": 10},
    "y": {"title": "solve", "unit": "seconds", "log": False, "low": 0, "high": 10},
    "series": [
        {"style": 0, "label": "one", "x": [1, 2, 4], "y": [1.0, 2.0, 4.0], "low": [1.0, 1.5, 4.0], "high": [1.0, 3, 4]},
        {"style": 1, "label": "two", "x": [2, 3], "y": [5.0, 3.0]},
    ],
}
FILES = ["format", "look", "readout", "plot", "legend"]


def in_a_page(*expressions, files=FILES, before=""):
    """Return the values of expressions after the files, in a document that has nothing but ``before``."""
    return evaluated(files, expressions, before=DOM.read_text(encoding="utf-8") + before)


def plot_with(code, hidden=(), told=TOLD):
    """Return the value of a function body about ``plot``, the plot of ``told``."""
    plot = f"plotted({json.dumps(told)}, {list(hidden)})"
    [found] = in_a_page(f"(() => {{ const plot = {plot}; {code} }})()")
    return found


def test_series_are_aligned_at_all_their_x():
    logarithmic = {**TOLD, "y": {**TOLD["y"], "log": True, "low": 0.5}}
    logarithmic["series"] = [{"x": [4, 2], "y": [0, 3]}, {"x": [10, 1], "y": [5, 6]}]
    assert plot_with("return aligned(plot.told);") == [[1, 2, 3, 4], [1, 2, None, 4], [None, 5, 3, None]]
    [found] = in_a_page(f"aligned({json.dumps(logarithmic)})")
    assert found == [[1, 2, 4, 10], [None, 3, 0.5, None], [6, None, None, 5]]


@pytest.mark.parametrize(
    ("left", "top", "hidden", "label", "place"),
    [
        (21, 81, [], "one", 1), (21, 52, [], "two", 0), (21, 52, [0], "two", 0), (21, 52, [1], "one", 2),
        (900, 0, [], "one", 2), (0, 100, [1], "one", 0),
    ],
)  # fmt: skip
def test_the_nearest_visible_point_is_read(left, top, hidden, label, place):
    code = f"const found = nearest(plot, {left}, {top}); return [found.one.label, found.place];"
    assert plot_with(code, hidden) == [label, place]


def test_there_is_no_point_outside_of_the_part_that_is_shown():
    right = "plot.inside = (x, y) => x > 2; const found = nearest(plot, 20, 80); return [found.one.label, found.place];"
    assert plot_with(right) == ["two", 1]
    assert plot_with("return nearest(plot, 20, 80);", hidden=[0, 1]) is None


def test_values_at_a_point_are_listed_from_the_highest_with_intervals():
    heading = ["", "superstep 2"]
    one, two = ["", "one", "2 s [1.5, 3]"], ["", "two", "5 s"]
    code = "show(plot, { one: plot.told.series[0], place: 1 }); return [readOut(plot), plot.readout.box.hidden];"
    assert plot_with(code) == [[heading, ["row", two], ["row near", one]], False]
    assert plot_with(code, hidden=[1]) == [[heading, ["row near", one]], False]
    alone = "show(plot, { one: plot.told.series[0], place: 2 }); return readOut(plot);"
    assert plot_with(alone) == [["", "superstep 4"], ["row near", ["", "one", "4 s"]]]
    assert plot_with("show(plot, null); return [plot.readout.box.hidden, plot.readout.spot.hidden];") == [True, True]


@pytest.mark.parametrize(
    ("left", "top", "place"),
    [(20, 80, ["34px", "50px"]), (340, 80, ["276px", "50px"]), (380, 10, ["316px", "0px"])],
)
def test_values_stand_beside_the_point_and_within_the_plot(left, top, place):
    code = f"placeBox(plot, {left}, {top}); const {{ box, spot }} = plot.readout;"
    found = plot_with(f"{code} return [box.style.left, box.style.top, spot.style.left, spot.style.top];")
    assert found == [*place, f"{left}px", f"{top}px"]


@pytest.mark.parametrize(
    ("keys", "heading", "near"),
    [
        ("Right", "superstep 1", "one"), ("Right Right Right Right Right", "superstep 4", "one"),
        ("Right Left Left", "superstep 1", "one"), ("Right Down", "superstep 2", "two"),
        ("Right Up", "superstep 2", "two"), ("Right Down Down", "superstep 1", "one"),
        ("Right Right Right Down", "superstep 3", "two"),
    ],
)  # fmt: skip
def test_arrow_keys_go_from_point_to_point_and_from_series_to_series(keys, heading, near):
    pressed = "".join(f"plot.frame.fire('keydown', {{ key: 'Arrow{key}' }});" for key in keys.split())
    [[_, top], *rows] = plot_with(f"steerByKeys(plot); {pressed} return readOut(plot);")
    assert top == heading
    assert [texts[1] for name, texts in rows if name == "row near"] == [near]


def test_escape_shows_the_whole_plot():
    assert plot_with("steerByKeys(plot); plot.frame.fire('keydown', { key: 'Escape' }); return plot.calls;") == [
        "reset"
    ]
    assert plot_with("steerByKeys(plot); plot.frame.fire('keydown', { key: 'a' }); return plot.calls;") == []


def test_looks_are_those_of_the_drawings():
    """Of two dashes, two markers and eight colours."""
    looks = [f"[colourOf({style}), dashesOf({style}), markerOf({style}).path]" for style in (0, 1, 10)]
    assert in_a_page(*looks, "[0, 1, 3].map(widthOf)") == [
        ["--c0", [], "M0,0a"], ["--c1", [8, 4], "M0,0b"], ["--c2", [], "M0,0a"], [2, 4, 8],
    ]  # fmt: skip


def test_plots_are_as_high_as_their_width_allows():
    assert in_a_page("[100, 400, 1000].map(heightOf)") == [[220, 248, 330]]


def test_labels_that_would_overlap_the_next_one_are_left_out():
    """A letter takes 6 pixels; labels are 6 pixels apart."""
    u = "{ valToPos: (value) => value }"
    assert in_a_page(f"spaced({u}, ['aa', 'b', 'cc'], [0, 10, 40])") == [[None, "b", "cc"]]
    assert in_a_page(f"spaced({u}, ['aa', 'b', 'cc'], [0, 15, 30])") == [["aa", "b", "cc"]]
    assert in_a_page(f"spaced({u}, ['aa', 'b', 'cc'], [0, 14, 30])") == [[None, "b", "cc"]]


def test_the_data_of_a_figure_has_the_labels_of_its_legend_and_the_common_x():
    series = [{"style": 1, "y": [5, 6]}, {"style": 0, "x": [7], "y": [8]}]
    data = json.dumps(json.dumps({"series": series, "common": [[1, 2]]}))
    code = f"""(() => {{
        const label = (text) => new Fake({{ text }});
        const found = {{ '.legend [data-style="0"]': label(" none "), '.legend [data-style="1"]': label("one") }};
        const group = new Fake({{ found }});
        const told = toldBy(new Fake({{ dataset: {{ plot: {data} }}, found: {{ "[data-plots]": group }} }}));
        return told.series.map(({{ label, x }}) => [label, x]);
    }})()"""
    assert in_a_page(code) == [[["one", [1, 2]], ["none", [7]]]]


def test_intervals_and_marked_points_are_drawn():
    """The second point has an interval, and the first and the third have markers."""
    code = """
        const calls = [];
        const ctx = new Proxy({}, { get: (_, name) => (...given) => calls.push([name, ...given]), set: () => true });
        const valToPos = (value, axis) => (axis === "x" ? 10 * value : 100 - 10 * value);
        const u = { ctx, bbox: { left: 0, top: 0, width: 100, height: 100 }, valToPos };
        drawMarks(plot, u, { ...plot.told.series[0], marked: [0, 2] });
        return calls.filter(([name]) => ["moveTo", "lineTo", "setTransform", "fill"].includes(name))
          .map(([name, ...given]) => [name, ...(name === "fill" ? [given[0].path] : given)]);
    """
    assert plot_with(code) == [
        ["setTransform", 1, 0, 0, 1, 10, 90], ["fill", "M0,0a"], ["setTransform", 1, 0, 0, 1, 0, 0],
        ["moveTo", 20, 85], ["lineTo", 20, 70],
        ["setTransform", 1, 0, 0, 1, 40, 60], ["fill", "M0,0a"], ["setTransform", 1, 0, 0, 1, 0, 0],
    ]  # fmt: skip


def test_a_drawn_range_is_shown():
    code = "plot.u.select = { left: 20, top: 30, width: 40, height: 50 }; zoom(plot, plot.u);"
    assert plot_with(f"{code} return [plot.view, plot.calls];") == [{"x": [2, 6], "y": [2, 7]}, ["selected", "refresh"]]
    nothing = "plot.u.select = { left: 20, top: 30, width: 0, height: 50 }; zoom(plot, plot.u); return plot.calls;"
    assert plot_with(nothing) == []


def test_a_name_hides_its_series_in_the_plots_of_its_group():
    code = """
        const [group, other] = [new Fake(), new Fake()];
        for (const one of [group, other]) {
          const made = plotted(plot.told);
          plots.set(new Fake({ found: { "[data-plots]": one } }), made);
          one.made = made;
        }
        const entry = new Fake({ dataset: { style: "1" }, found: { "[data-plots]": group } });
        toggling(entry, (pressed) => toggleSeries(entry, pressed));
        const [button] = entry.childNodes;
        const seen = [button.attributes["aria-pressed"]];
        for (let turn = 0; turn < 2; turn++) {
          button.fire("click");
          seen.push(button.attributes["aria-pressed"], [...hiddenBy(entry)]);
        }
        return [seen, group.made.calls, other.made.calls];
    """
    assert plot_with(code) == [["true", "false", [1], "true", []], [[2, False], [2, True]], []]


def test_bars_are_drawn_without_hidden_phases():
    parts = [[["read", 1.0], ["solve", 2.0], ["check", 1.0]], [["read", 4.0], ["solve", 0.0012]]]
    bars = [f"new Fake({{ dataset: {{ parts: {json.dumps(json.dumps(one))} }}, viewBox }})" for one in parts]
    code = f"""(() => {{
        const viewBox = {{ baseVal: {{ width: 1000, height: 8 }} }};
        const bars = [{", ".join(bars)}];
        const chart = new Fake({{ found: {{ ".bar": bars }} }});
        const drawn = (hidden) => {{
          drawBars(chart, new Map([["read", "given0"], ["solve", "solve"], ["check", "after1"]]), new Set(hidden));
          return bars.map((bar) => bar.childNodes.map(({{ attributes: own, childNodes: [title] }}) =>
            [own.class, Number(own.x), Math.round(Number(own.width)), title.textContent]));
        }};
        return [drawn([]), drawn(["read"])];
    }})()"""
    [[whole, rest]] = in_a_page(code)
    assert whole[0] == [  # the longest bar takes 4.0012 s
        ["phase given0", 0, 250, "read: 1 s"],
        ["phase solve", pytest.approx(250, abs=0.1), 500, "solve: 2 s"],
        ["phase after1", pytest.approx(750, abs=0.3), 250, "check: 1 s"],
    ]
    assert [name for name, *_ in whole[1]] == ["phase given0", "phase solve"]
    solve, check = ["phase solve", 0, 667, "solve: 2 s"], ["phase after1", pytest.approx(2000 / 3), 333, "check: 1 s"]
    assert rest == [[solve, check], [["phase solve", 0, 0, "solve: 1.2 ms"]]]


# Graph, features, time, engine and outcome of each row of the table of cells; the middle one failed.
CELLS = [("b", 8, 0.5, "onyx", "ok"), ("a", 16, None, "onyx fast", "crashed"), ("c", 4, 0.25, "gunrock", "ok")]
TABLE = """
    const number = (is) => new Fake({ classList: { contains: (name) => is && name === "number" } });
    const heads = [false, true, true, false, false].map(number);
    const made = cells.map(([graph, ...rest], place) => new Fake({
      place, dataset: { graph, algorithm: "bfs" },
      cells: [graph, ...rest].map((value, column) => new Fake({
        text: value === null ? "-" : String(value),
        dataset: (column === 1 || column === 2) && value !== null ? { value: String(value) } : {},
      })),
    }));
    made.forEach((row) => row.append(...row.cells));
    const clicks = heads.map((head) => new Fake({ parentElement: head }));
    const inner = new Fake({ rows: made });
    inner.append(...made);
    const selects = ["graph", "engine", "outcome"].map((narrow) => new Fake({ dataset: { narrow } }));
    document.found = {
      ".cells": new Fake({ tBodies: [inner], found: { "thead button": clicks } }), ".filters": new Fake(),
      "[data-narrow]": selects,
      ...Object.fromEntries(["sort", "find", "shown", "nothing"].map((name) => [`#${name}`, new Fake()])),
    };
    const order = () => inner.childNodes.map((row) => row.cells[0].textContent).join("");
    const seen = () => made.filter((row) => !row.hidden).map((row) => row.cells[0].textContent).join("");
"""


def of_table(code):
    """Return the value of a function body after the table's script ran on ``CELLS``."""
    before = f"const cells = {json.dumps(CELLS)};{TABLE}"
    [found] = in_a_page(f"(() => {{ {code} }})()", files=["table"], before=before)
    return found


@pytest.mark.parametrize(
    ("column", "orders"), [(0, ["abc", "cba", "bac"]), (1, ["cba", "abc", "bac"]), (2, ["cba", "bca", "bac"])]
)
def test_headings_sort_upwards_then_downwards_then_not(column, orders):
    """Rows without a value come last in either direction."""
    state = f"[order(), heads[{column}].attributes['aria-sort'], document.getElementById('sort').value]"
    code = f"return [0, 1, 2].map(() => {{ clicks[{column}].fire('click'); return {state}; }});"
    names = [("ascending", str(column)), ("descending", str(column)), ("none", "")]
    assert of_table(code) == [[order, *name] for order, name in zip(orders, names, strict=True)]


def test_only_one_heading_is_sorted_by():
    code = "clicks[0].fire('click'); clicks[1].fire('click'); return heads.map((one) => one.attributes['aria-sort']);"
    assert of_table(code) == ["none", "ascending", "none", "none", "none"]
    chosen = "sortBy.value = '2'; sortBy.fire('change'); const one = order(); sortBy.value = ''; sortBy.fire('change');"
    assert of_table(f"{chosen} return [one, order()];") == ["cba", "bac"]


@pytest.mark.parametrize(
    ("words", "narrow", "rows"),
    [
        ("", {}, "bac"), ("ONYX", {}, "ba"), ("onyx fast", {}, "a"), ("fast  gunrock", {}, ""), ("", {0: "c"}, "c"),
        ("", {1: "onyx"}, "b"), ("", {2: "ok"}, "bc"), ("onyx", {2: "ok"}, "b"), ("", {1: "onyx", 2: "crashed"}, ""),
    ],
)  # fmt: skip
def test_rows_are_shown_that_have_all_words_and_choices(words, narrow, rows):
    chosen = "".join(
        f"selects[{place}].value = {value!r}; selects[{place}].fire('change');" for place, value in narrow.items()
    )
    code = f"find.value = {words!r}; find.fire('input'); {chosen}"
    texts = "[seen(), document.getElementById('shown').textContent, document.getElementById('nothing').hidden]"
    assert of_table(f"{code} return {texts};") == [rows, f"{len(rows)} of 3", bool(rows)]
