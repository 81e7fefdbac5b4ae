"""The script that makes the interactive plots of a page, in Node.js: axes, drawing, zoom, sizes, and the start."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.report.node import SCRIPTS, evaluated

DOM = Path(__file__).with_name("dom.js")
# A plot library that keeps what it is given, and a figure with the data of two series, of which 0 has an interval.
PAGE = """
    class uPlot {
      constructor(options, data, frame) {
        Object.assign(this, { options, data, frame, width: options.width, calls: [] });
        this.over = new Fake({ offsetLeft: 0, offsetTop: 0 });
      }
      valToPos(value, axis) { return axis === "x" ? 10 * value : 100 - 10 * value; }
      posToVal(at, axis) { return axis === "x" ? at / 10 : (100 - at) / 10; }
      batch(call) { call(); }
      redraw() { this.calls.push("redraw"); }
      setScale(name, range) { this.calls.push([name, range.min, range.max]); }
      setSelect(box, told) { this.calls.push([box, told]); }
      setSeries(place, { show }) { this.calls.push([place, show]); }
      setSize(size) { this.calls.push(size); this.width = size.width; }
    }
    uPlot.paths = { stepped: (given) => ["stepped", given] };
    const observers = [];
    class ResizeObserver {
      constructor(call) { this.call = call; }
      observe(element) { observers.push([element, this.call]); }
    }
    const entries = [0, 1].map((style) => new Fake({ dataset: { style: String(style) }, text: ` series ${style} ` }));
    const key = new Fake({ childNodes: [new Fake({ text: "line" })] });
    const group = new Fake({ found: {
      '.legend [data-style="0"]': entries[0], '.legend [data-style="1"]': entries[1],
    } });
    for (const style of [0, 1]) document.found[`.legend [data-style="${style}"] .key`] = key;
    const classes = [];
    const drawn = new Fake();
    const classList = { contains: () => false, add: (name) => classes.push(name) };
    const figureOf = (told, found = {}) => new Fake({
      dataset: { plot: JSON.stringify(told) }, classList, found: { "[data-plots]": group, ".chart": drawn, ...found },
    });
    const madeBy = (figure, width = 400) => {
      const made = document.createElement;
      document.createElement = () => new Fake({ clientWidth: width });
      enhance(figure);
      document.createElement = made;
      return plots.get(figure);
    };
"""
TOLD = {
    "title": "Times", "steps": False, "common": [],
    "x": {"title": "features k", "unit": "count", "log": False, "low": 0, "high": 10},
    "y": {"title": "solve", "unit": "seconds", "log": False, "low": 0, "high": 8},
    "series": [
        {"style": 0, "layer": 1, "marked": [0], "x": [1, 4], "y": [1, 4], "low": [1, 3], "high": [1, 5]},
        {"style": 1, "layer": 0, "marked": [1], "x": [2, 10], "y": [5, 8]},
    ],
}  # fmt: skip
FILES = ["format", "look", "readout", "plot", "legend"]


def value_of(code, told=TOLD, files=FILES):
    """Return the value of a function body about ``told``, the data of a figure."""
    before = DOM.read_text(encoding="utf-8") + PAGE + f"const told = {json.dumps(told)};"
    [found] = evaluated(files, [f"(() => {{ {code} }})()"], before=before)
    return found


def test_a_figure_gets_a_plot_of_its_data_once():
    code = """
        const figure = figureOf(told);
        const plot = madeBy(figure);
        const [box, back] = plot.frame.childNodes;
        const first = plot.u;
        enhance(figure);
        return {
          same: plots.get(figure).u === first, plots: plots.size, classes,
          frame: [drawn.followers[0] === plot.frame],
          attributes: plot.frame.attributes, focus: plot.frame.tabIndex, in_frame: plot.u.frame === plot.frame,
          data: plot.u.data, view: plot.view, box: box === plot.readout.box,
          hidden: [box, back].map((one) => one.hidden),
          spot: [plot.u.over.childNodes[0] === plot.readout.spot, plot.readout.spot.hidden], button: back.type,
          labels: plot.told.series.map((one) => one.label), role: box.attributes.role,
          keys: plot.frame.listeners.keydown.length,
        };
    """
    assert value_of(code) == {
        "same": True, "plots": 1, "classes": ["live"], "frame": [True], "focus": 0, "in_frame": True,
        "attributes": {"role": "group", "aria-label": "Times; arrow keys read its values"},
        "data": [[1, 2, 4, 10], [1, None, 4, None], [None, 5, None, 8]], "view": {"x": [0, 10], "y": [0, 8]},
        "box": True, "hidden": [True, True], "spot": [True, True], "button": "button",
        "labels": ["series 0", "series 1"], "role": "status", "keys": 1,
    }  # fmt: skip


def test_figures_of_closed_comparisons_wait():
    code = """
        const closed = figureOf(told, { "details:not([open])": new Fake() });
        enhance(closed);
        const before = plots.has(closed);
        delete closed.found["details:not([open])"];
        return [before, Boolean(madeBy(closed))];
    """
    assert value_of(code) == [False, True]


def test_a_drawn_range_is_shown_until_the_whole_plot_is_asked_for():
    code = """
        const plot = madeBy(figureOf(told));
        const back = plot.frame.childNodes[1];
        const { hooks, cursor } = plot.u.options;
        const seen = [];
        const look = () => {
          const { box } = plot.readout;
          seen.push([plot.view.x, plot.view.y, back.hidden, box.hidden, plot.u.calls.splice(0)]);
        };
        for (const whole of [() => back.fire("click"), () => cursor.bind.dblclick()(),
                             () => plot.frame.fire("keydown", { key: "Escape" })]) {
          show(plot, { one: plot.told.series[0], place: 0 });
          plot.u.select = { left: 20, top: 30, width: 40, height: 50 };
          hooks.setSelect[0](plot.u);
          look();
          whole();
          look();
        }
        return seen;
    """
    empty = [{"left": 0, "top": 0, "width": 0, "height": 0}, False]
    zoomed = [[2, 6], [2, 7], False, True, [empty, ["x", 2, 6], ["y", 2, 7]]]
    whole = [[0, 10], [0, 8], True, True, [["x", 0, 10], ["y", 0, 8]]]
    assert value_of(code) == [zoomed, whole] * 3


@pytest.mark.parametrize(("width", "height"), [(0, 50), (40, 0), (-1, 50)])
def test_an_empty_range_is_not_shown(width, height):
    code = f"""
        const plot = madeBy(figureOf(told));
        plot.u.select = {{ left: 20, top: 30, width: {width}, height: {height} }};
        zoom(plot, plot.u);
        return [plot.view, plot.u.calls];
    """
    assert value_of(code) == [{"x": [0, 10], "y": [0, 8]}, []]


def test_only_visible_points_are_read_and_the_ends_of_the_range_belong_to_it():
    code = """
        const plot = madeBy(figureOf(told));
        const { setCursor: [moved] } = plot.u.options.hooks;
        const read = (left, top) => {
          plot.u.cursor = { left, top };
          moved(plot.u);
          const { box, spot } = plot.readout;
          return box.hidden ? null : [box.childNodes[0].textContent, spot.style.left, spot.style.top];
        };
        const seen = [read(0, 100), read(99, 21), read(-10, 21)];
        plot.view.x = [1, 3];
        seen.push(read(99, 21), read(0, 99));
        plot.view.x = [4, 9];
        plot.view.y = [4, 5];
        seen.push(read(99, 21));
        plot.hidden.add(0);
        seen.push(read(99, 21), plot.visible().map((one) => one.label));
        return seen;
    """
    assert value_of(code) == [
        ["features k 1", "10px", "90px"], ["features k 10", "100px", "20px"], None,
        ["features k 2", "20px", "50px"], ["features k 1", "10px", "90px"],
        ["features k 4", "40px", "60px"],
        None, ["series 1"],
    ]  # fmt: skip


def test_zeros_lie_on_the_lower_end_of_a_logarithmic_axis():
    told = {**TOLD, "y": {**TOLD["y"], "log": True, "low": 0.5}}
    told["series"] = [{**TOLD["series"][1], "y": [0, 8]}]
    code = "const plot = madeBy(figureOf(told)); return [plot.position(2, 0), plot.inside(2, 0), plot.u.data[1]];"
    assert value_of(code, told) == [[20, 95], True, [0.5, 8]]


def test_plots_follow_the_width_of_their_frame():
    code = """
        const plot = madeBy(figureOf(told));
        const [[element, changed]] = observers;
        changed();
        for (const width of [0, 500, 500, 300]) {
          plot.frame.clientWidth = width;
          changed();
        }
        return [element === plot.frame, plot.u.options.width, plot.u.options.height, plot.u.calls];
    """
    assert value_of(code) == [True, 400, 248, [{"width": 500, "height": 310}, {"width": 300, "height": 220}]]


def test_the_library_draws_lines_of_the_looks_of_the_series():
    code = """
        hiddenBy(new Fake({ found: { "[data-plots]": group } })).add(1);
        const { options, data } = madeBy(figureOf(told)).u;
        const { series, scales, cursor, legend } = options;
        const shown = series.slice(1).map((one) => ({ ...one, stroke: one.stroke() }));
        return [shown, Object.entries(scales).map(([name, one]) => [name, one.time, one.distr, one.range()]), legend,
                cursor.points, cursor.y, cursor.drag, Object.keys(series[0])];
    """
    shown, scales, *others = value_of(code, {**TOLD, "y": {**TOLD["y"], "log": True, "low": 1}})
    line = {"scale": "y", "spanGaps": True, "points": {"show": False}}
    assert shown == [
        {**line, "stroke": "--c0", "width": 4, "dash": [], "show": True},
        {**line, "stroke": "--c1", "width": 2, "dash": [8, 4], "show": False},
    ]
    assert scales == [["x", False, 1, [0, 10]], ["y", False, 3, [1, 8]]]
    drag = {"x": True, "y": True, "uni": 24, "dist": 6, "setScale": False}
    assert others == [{"show": False}, {"show": False}, False, drag, []]
    stepped = value_of("return madeBy(figureOf(told)).u.options.series[1].paths;", {**TOLD, "steps": True})
    assert stepped == ["stepped", {"align": 1}], "a value holds from its x on"


@pytest.mark.parametrize(
    ("names", "room"), [(["a", "b", "c"], 12), (["a", "b", "long"], 14), (["long" * 9, "b", "c"], 12)]
)
def test_the_last_label_of_the_x_axis_fits(names, room):
    """A letter takes 6 pixels; half of the label stands right of the plot."""
    told = {**TOLD, "x": {"title": "commit", "unit": "name", "names": names, "log": False, "low": 0, "high": 2}}
    assert value_of("return madeBy(figureOf(told)).u.options.padding;", told) == [8, room, 0, 0]


def test_axes_have_the_lines_ticks_and_labels_of_the_drawings():
    code = """
        const plot = madeBy(figureOf(told));
        return plot.u.options.axes.map((axis) => {
          const splits = axis.splits();
          const values = axis.values(plot.u, splits);
          const line = ({ stroke, ...others }) => ({ stroke: stroke(), ...others });
          return {
            scale: axis.scale, stroke: axis.stroke(), font: axis.font, grid: line(axis.grid), ticks: line(axis.ticks),
            border: line(axis.border), splits, kept: axis.filter(plot.u, splits), values, label: axis.label ?? null,
            size: typeof axis.size === "number" ? axis.size : [axis.size(plot.u, values), axis.size(plot.u, null)],
          };
        });
    """
    across, up = value_of(code)
    strong, thin = ({"stroke": name, "width": 1} for name in ("--strong-line", "--line"))
    assert across == {
        "scale": "x", "stroke": "--quiet", "font": "12px sans", "grid": {**strong, "show": False},
        "ticks": {**strong, "size": 4}, "border": {**strong, "show": True}, "splits": [0, 2, 4, 6, 8, 10],
        "kept": [0, 2, 4, 6, 8, 10], "values": ["0", "2", "4", "6", "8", "10"], "label": "features k", "size": 26,
    }  # fmt: skip
    assert up == {
        "scale": "y", "stroke": "--quiet", "font": "12px sans", "grid": {**thin, "show": True},
        "ticks": {**thin, "size": 0}, "border": {**thin, "show": False}, "splits": [0, 2, 4, 6, 8],
        "kept": [0, 2, 4, 6, 8], "values": ["0 s", "2 s", "4 s", "6 s", "8 s"], "label": None, "size": [32, 32],
    }  # fmt: skip
    wide = value_of("return axisOf({ told, view: {} }, 'y').size(null, ['10 us', '100 us']);")
    assert wide == 12 + 36


def test_marks_are_drawn_in_the_colours_of_the_series_on_fine_screens():
    """Two pixels of the screen are one of the page."""
    code = """
        devicePixelRatio = 2;
        const plot = madeBy(figureOf(told));
        const state = {}, calls = [];
        const kept = "rect setLineDash moveTo lineTo stroke setTransform fill save restore clip".split(" ");
        const ctx = new Proxy(state, {
          get: (_, name) => (...given) => {
            if (!kept.includes(name)) return;
            const own = { fill: [state.fillStyle], stroke: [state.strokeStyle, state.lineWidth] }[name] ?? [];
            calls.push([name, ...given.map((one) => one.path ?? one), ...own]);
          },
        });
        const valToPos = (value, axis, fine) => (fine ? 2 : 1) * (axis === "x" ? 10 * value : 100 - 10 * value);
        const { drawSeries: [draw] } = plot.u.options.hooks;
        draw({ ctx, bbox: { left: 20, top: 40, width: 200, height: 100 }, valToPos }, 1);
        const first = calls.splice(0);
        draw({ ctx, bbox: { left: 20, top: 40, width: 200, height: 100 }, valToPos }, 2);
        return [first, calls.filter(([name]) => name === "fill" || name === "setTransform")];
    """
    clip = [["save"], ["rect", 8, 28, 224, 124], ["clip"], ["setLineDash", []]]
    mark = [
        ["setTransform", 2, 0, 0, 2, 20, 180], ["fill", "M0,0a", "--c0"], ["stroke", "M0,0a", "--paper", 0.8],
        ["setTransform", 1, 0, 0, 1, 0, 0],
    ]  # fmt: skip
    interval = [["moveTo", 80, 140], ["lineTo", 80, 100], ["stroke", "--c0", 3]]
    whole, back = ["setTransform", 2, 0, 0, 2, 200, 40], ["setTransform", 1, 0, 0, 1, 0, 0]
    assert value_of(code) == [[*clip, *mark, *interval, ["restore"]], [whole, ["fill", "M0,0b", "--c1"], back]]


def test_letters_are_measured_in_the_font_of_the_page_and_keys_are_whole():
    assert value_of("return [lengthOf('four'), LETTERS.font, keyOf(0).textContent, keyOf(0) === key];") == [
        24, "12px sans", "line", False,
    ]  # fmt: skip


def test_hiding_a_series_hides_the_values_that_are_read():
    code = """
        const plot = madeBy(figureOf(told));
        show(plot, { one: plot.told.series[1], place: 0 });
        const entry = new Fake({ dataset: { style: "1" }, found: { "[data-plots]": group } });
        const before = plot.readout.box.hidden;
        for (const [figure] of plots) figure.found["[data-plots]"] = group;
        toggleSeries(entry, false);
        return [before, plot.readout.box.hidden, plot.u.calls, plot.visible().map((one) => one.style)];
    """
    assert value_of(code) == [False, True, [[2, False]], [0]]


def test_the_page_starts_with_legends_and_plots_and_follows_comparisons_and_colours():
    """What starts the page is run as a function, after its elements are there."""
    code = """
        const section = new Fake({ found: { ".legend:last-of-type": new Fake() } });
        const details = new Fake();
        const [open, closed] = [figureOf(told), figureOf(told, { "details:not([open])": details })];
        const bar = new Fake({
          dataset: { parts: JSON.stringify([["read", 1], ["solve", 3]]) },
          viewBox: { baseVal: { width: 100, height: 8 } },
        });
        const phase = new Fake({ dataset: { phase: "read", shade: "given0" } });
        const solve = new Fake({ dataset: { phase: "solve", shade: "solve" } });
        for (const entry of entries) entry.found["[data-plots]"] = group;
        Object.assign(document.found, {
          section: [section, new Fake()], "figure[data-plot]": [open, closed], details: [details],
          ".legend [data-style]": entries, ".legend [data-phase]": [phase, solve],
          ".bars": [new Fake({ found: { ".bar": [bar] } })],
        });
        started();
        const hint = section.found[".legend:last-of-type"].followers.map((one) => [one.className, one.textContent]);
        const plotted = [plots.has(open), plots.has(closed)];
        delete closed.found["details:not([open])"];
        details.fire("toggle");
        plotted.push(plots.has(closed));
        const press = (entry) => entry.childNodes.at(-1).fire("click");
        press(entries[1]);
        const hidden = [...plots.values()].map((plot) => plot.u.calls.splice(0));
        const bars = () => bar.childNodes.map((one) => [one.attributes.class, one.attributes.x, one.attributes.width]);
        press(phase);
        const drawn = [bars()];
        press(phase);
        drawn.push(bars());
        known.set("ink", "black");
        dark.fire("change");
        return [hint, plotted, hidden, drawn, known.size, [...plots.values()].map((plot) => plot.u.calls),
                entries[0].childNodes.at(-1).type, entries[0].childNodes.at(-1).title];
    """
    begin = (SCRIPTS / "start.js").read_text(encoding="utf-8")
    hint, plotted, hidden, drawn, known, redrawn, kind, title = value_of(f"const started = () => {{ {begin} }}; {code}")
    assert [name for name, _ in hint] == ["note hint"]
    assert "drag in it to zoom" in hint[0][1]
    assert plotted == [True, False, True]
    assert hidden == [[[2, False]]] * 2
    assert drawn == [[["phase solve", "0", "100"]], [["phase given0", "0", "25"], ["phase solve", "25", "75"]]]
    assert (known, redrawn) == (0, [["redraw"]] * 2)
    assert (kind, title) == ("button", "Hide or show")
