"""Plots as data and as static drawings: distributions, looks, layers, and which series are alike."""

from __future__ import annotations

import hashlib
import json
import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.report.page.charts import curves, over_features, over_samples, over_supersteps
from harness.report.page.drawing import AREA, drawing
from harness.report.page.inlined import script
from harness.report.page.overlaps import layers, likeness
from harness.report.page.phases import LENGTH, over_phases, phase_style, phase_title
from harness.report.page.plot import Axis, plain_plot
from harness.report.page.strokes import COLOURS, DASHES, MARKERS, Look, look
from harness.report.page.ticks import round_values
from harness.report.series import Line, Panel
from tests.conftest import ROOT
from tests.report.sweeps import cell, failed

STYLES = {"slow": 0, "fast": 1, "close": 2}
FINITE = st.floats(1e-6, 1e6)


def samples_of(engine, samples):
    found = cell(engine, "ring", "flood", 8, 0.04)
    found["solve"]["samples"] = samples
    return found


def points_of(stroke):
    return [tuple(map(float, point.split(","))) for point in stroke.points.split()]


def test_a_distribution_is_the_share_of_runs_that_took_at_most_a_time():
    lost = failed("close", "ring", "flood", 8, "crashed", "SIGSEGV")
    plot = over_samples([samples_of("slow", [0.3, 0.1, 0.2, 0.2]), samples_of("fast", [0.05]), lost], STYLES)
    assert [one.label for one in plot.series] == ["slow", "fast"]
    assert [point[:2] for point in plot.series[0].points] == [(0.1, 0.25), (0.2, 0.75), (0.3, 1.0)]
    assert plot.x.low < 0.05 < 0.3 < plot.x.high
    assert (plot.x.logarithmic, plot.y.logarithmic, plot.steps) == (True, False, True)
    corners = points_of(drawing(plot).strokes[0])
    assert len(corners) == 5  # two corners for each step after the first point
    assert all(x == other_x or y == other_y for (x, y), (other_x, other_y) in pairwise(corners))


def test_equal_samples_have_no_distribution():
    assert over_samples([samples_of("slow", [0.04] * 7)], STYLES) is None
    assert over_samples([], STYLES) is None


def test_a_distribution_of_many_samples_keeps_its_ends():
    plot = over_samples([samples_of("slow", [0.001 * 1.01**n for n in range(1000)])], STYLES)
    points = plot.series[0].points
    assert len(points) == 50
    assert points[0][:2] == (0.001, 0.001)
    assert points[-1][:2] == (pytest.approx(0.001 * 1.01**999), 1.0)


def test_zero_active_vertices_are_drawn_on_the_axis_and_told_as_zero():
    steps = [[100, 9, "push"], [0, 0, "push"]]
    plot = over_supersteps([cell("slow", "ring", "flood", 8, 0.04, supersteps=steps)], STYLES)
    assert points_of(drawing(plot).strokes[0])[1] == (AREA["right"], AREA["bottom"])
    assert plain_plot(plot)["series"][0]["y"] == [100, 0]
    assert over_supersteps([cell("slow", "ring", "flood", 8, 0.04, supersteps=[])], STYLES) is None


def test_the_script_and_the_drawing_have_the_same_values():
    line = Line("slow", ((1, 0.5, 0.4, 0.7), (8, 2.0, 2.0, 2.0)))
    found = drawing(over_features(Panel(("s", "ring", "flood", ""), (line,)), STYLES))
    plain = found.plain
    assert plain["common"] == [[1, 8]]
    assert plain["series"] == [
        {"style": 0, "layer": 0, "marked": (0, 1), "y": [0.5, 2], "low": [0.4, 2], "high": [0.7, 2]}
    ]
    assert {name: value for name, value in plain.items() if name not in ("series", "common")} == {
        "title": found.plot.description, "steps": False,
        "x": {"title": "features k", "unit": "count", "low": 0.90125, "high": 8.87656, "log": True, "ticks": [1, 8]},
        "y": {"title": "solve", "unit": "seconds", "low": 0.347826, "high": 2.3, "log": True},
    }  # fmt: skip
    assert "ring" in plain["title"]
    (stroke,) = found.strokes
    assert stroke.whiskers.count("M") == 1  # the second point has no interval
    assert stroke.markers.count("M") == 2
    low, high = (float(value) for value in re.search(r",(.*)V(.*)", stroke.whiskers).groups())
    assert low > points_of(stroke)[0][1] > high  # a drawing counts from the top


@pytest.mark.parametrize(("second", "common"), [((1, 2, 8), [[1, 2, 8]]), ((1, 4, 8), []), ((1, 2), [])])
def test_series_share_their_x_only_if_all_of_it_is_equal(second, common):
    lines = tuple(
        Line(name, tuple((k, 0.5, 0.4, 0.7) for k in features))
        for name, features in (("slow", (1, 2, 8)), ("fast", second))
    )
    plain = drawing(over_features(Panel(("s", "ring", "flood", ""), lines), STYLES)).plain
    assert plain["common"] == common
    assert [one["x"] for one in plain["series"] if "x" in one] == ([] if common else [[1, 2, 8], list(second)])


def test_equal_and_nearly_equal_series_are_named_and_others_are_not():
    lines = {
        "slow": [(n, n, n, n) for n in (0.0, 1.0, 2.0)],
        "fast": [(n, n, n, n) for n in (0.0, 1.0, 2.0)],
        "close": [(n, n + 0.004, n, n) for n in (0.0, 1.0, 2.0)],
        "other": [(n, 2.0 - n, n, n) for n in (0.0, 1.0, 2.0)],
    }
    plot = curves("metric", ("x", "number"), ("y", "number"), lines, {**STYLES, "other": 3})
    assert plot.remark == ("“fast” has the same values as “slow”. “close” has nearly the same values as “slow”.")
    assert [one.layer for one in plot.series] == [3, 2, 1, 0]  # all meet the last one in a third of their points
    assert [one.marked for one in plot.series[:3]] == [(0,), (1,), (2,)]


def test_a_series_that_lies_on_another_over_a_part_of_its_length_is_layered_but_not_alike():
    one = [(0.0, 0.5), (0.25, 0.5), (0.5, 0.5), (0.75, 0.7), (1.0, 0.9)]
    other = [(0.0, 0.5), (0.25, 0.5), (0.5, 0.5), (0.75, 0.3), (1.0, 0.1)]
    assert layers([one, other]) == [1, 0]
    assert likeness(["one", "other"], [one, other], [one, other]) == ""
    apart = [(x, y / 4) for x, y in one]
    assert layers([one, apart]) == [0, 0]


def test_a_short_series_beside_a_long_one_is_layered_in_either_order():
    """All points of the short one are near the long one, and a tenth of the long one's near the short one."""
    long, short = [(x / 100, 0.5) for x in range(101)], [(0.1, 0.5), (0.2, 0.5)]
    assert layers([long, short]) == layers([short, long]) == [1, 0]
    assert likeness(["long", "short"], [long, short], [long, short]) == ""


@pytest.mark.parametrize(("count", "most"), [(1, 0), (2, 1), (3, 2), (4, 3), (6, 3)])
def test_a_series_has_at_most_three_layers_above_it(count, most):
    line = [(0.0, 0.5), (1.0, 0.5)]
    assert layers([line] * count) == [min(3, count - 1 - place) for place in range(count)]
    assert max(layers([line] * count)) == most


@pytest.mark.parametrize(("near", "layer"), [(1, 0), (2, 1), (3, 1)])
def test_a_fifth_of_the_points_makes_a_layer(near, layer):
    """Ten points, of which some are on the other line."""
    line = [(x / 9, 0.5) for x in range(10)]
    one = [(x, 0.5 if place < near else 0.9) for place, (x, _) in enumerate(line)]
    other = [(x, 0.5 if place < near else 0.1) for place, (x, _) in enumerate(line)]
    assert layers([one, other]) == [layer, 0]


def test_axes_of_active_vertices_begin_at_one_and_end_beyond_the_most():
    few = cell("slow", "ring", "flood", 8, 4.0, supersteps=[[4, 7, "push"]])
    many = cell("fast", "ring", "flood", 8, 1.0, supersteps=[[100, 7, "push"]] * 5)
    for records, last, high in (([few], 2, 13.0), ([few, many], 5, 130.0)):
        plot = over_supersteps(records, STYLES)
        assert (plot.x.low, plot.x.high, plot.y.low, plot.y.high) == (1, last, 0.5, pytest.approx(high))
    assert over_supersteps([cell("slow", "ring", "flood", 8, 4.0, supersteps=[])], STYLES) is None


def test_axes_of_times_over_features_have_margins():
    lines = [Line("slow", ((1, 2.0, 1.0, 3.0), (16, 20.0, 19.0, 40.0))), Line("fast", ((4, 0.5, 0.25, 0.6),))]
    plot = over_features(Panel(("", "ring", "flood", ""), tuple(lines)), STYLES)
    assert plot.x.ticks == (1.0, 4.0, 16.0)
    assert (plot.x.low, plot.x.high) == pytest.approx((16**-0.05, 16**1.05))
    assert (plot.y.low, plot.y.high) == pytest.approx((0.25 / 1.15, 40 * 1.15))


def test_ticks_of_a_drawing_are_whole_where_values_are():
    for unit, labels in (("count", ["1", "2", "3"]), ("number", ["1", "1.5", "2", "2.5", "3"])):
        made = drawing(curves("one", ("x", unit), ("y", "number"), {"a": [(1, 1, 1, 1), (3, 2, 2, 2)]}, {"a": 0}))
        assert [tick.label for tick in made.x_ticks] == labels
        ends = made.x_ticks[0].at, made.x_ticks[-1].at
        assert ends == (AREA["left"], AREA["right"])


@pytest.mark.parametrize(("letters", "kept"), [(11, [0, 1, 2, 3]), (12, [1, 3]), (23, [1, 3]), (24, [0, 3]), (36, [3])])
def test_labels_of_a_drawing_do_not_overlap(letters, kept):
    """Four ticks are 85.3 units apart; a letter takes 7, and labels are 6 apart. The last label is always there."""
    names = [str(number) * letters for number in range(4)]
    line = {"a": [(n, 1, 1, 1) for n in range(4)]}
    made = drawing(curves("one", ("commit", "name"), ("y", "number"), line, {"a": 0}, names))
    assert [tick.label for tick in made.x_ticks] == [names[place] for place in kept]


def test_axes_of_curves_hold_all_values_and_no_more():
    lines = {"a": [(3.0, 20.0, 10.0, 30.0), (9.0, 25.0, 25.0, 25.0)], "b": [(5.0, 50.0, 40.0, 110.0)]}
    plot = curves("of two", ("superstep", "count"), ("rmse", "number"), lines, {"a": 0, "b": 1})
    assert (plot.x.low, plot.x.high, plot.y.low, plot.y.high) == (3.0, 9.0, 5.0, 115.0)
    alone = curves("of one", ("superstep", "count"), ("rmse", "number"), {"a": [(3.0, 4.0, 4.0, 4.0)]}, {"a": 0})
    assert (alone.x.low, alone.x.high, alone.y.low, alone.y.high) == (3.0, 4.0, pytest.approx(3.8), pytest.approx(4.2))


@pytest.mark.parametrize(("points", "marked"), [(12, 12), (13, 7), (60, 6)])
def test_short_series_have_a_marker_at_every_point(points, marked):
    plot = curves("one", ("x", "count"), ("y", "number"), {"a": [(n, n, n, n) for n in range(points)]}, {"a": 0})
    assert len(plot.series[0].marked) == marked


def test_markers_of_overlapping_series_do_not_coincide():
    def marked(points):
        line = [(n, 1.0, 1.0, 1.0) for n in range(points)]
        plot = curves("three", ("x", "count"), ("y", "number"), dict.fromkeys("abc", line), {"a": 0, "b": 1, "c": 2})
        return [(one.layer, one.marked) for one in plot.series]

    assert marked(8) == [(2, (0, 3, 6)), (1, (1, 4, 7)), (0, (2, 5))]
    assert marked(60) == [(layer, tuple(range(2 * place, 60, 10))) for place, layer in enumerate((2, 1, 0))]
    assert marked(2) == [(2, (0,)), (1, (1,)), (0, (0,))]


def test_values_of_a_plot_have_six_digits_and_no_superfluous_point():
    points = [(1.0, 0.12345678, 0.1, 0.2), (2.0, 3.0, 3.0, 3.0), (1e15, 1e16, 1e16, 1e16)]
    told = plain_plot(curves("one", ("x", "number"), ("y", "number"), {"a": points}, {"a": 0}))
    [series] = told["series"]
    assert json.dumps([series["y"], told["common"]]) == "[[0.123457, 3, 1e+16], [[1, 2, 1000000000000000.0]]]"
    assert (series["low"][0], series["high"][0]) == (0.1, 0.2)


@pytest.mark.parametrize(
    ("unit", "value", "label", "whole"),
    [("count", 12.0, "12", True), ("name", 1.0, "b", True), ("seconds", 0.0, "0 s", False),
     ("percent", 0.255, "25.5 %", False), ("number", 1234.5, "1.23e+03", False)],
)  # fmt: skip
def test_labels_have_the_unit_of_their_axis(unit, value, label, whole):
    axis = Axis("x", unit, 0.0, 1.0, names=("a", "b"))
    assert (axis.label(value), axis.whole) == (label, whole)


def test_no_two_of_28_series_differ_in_colour_only():
    looks = [look(style) for style in range(28)]
    assert len({(one.dashes, one.marker) for one in looks}) == 28
    assert len({look(style) for style in range(56)}) == 56
    assert (COLOURS, len(DASHES), len(set(MARKERS))) == (8, 4, 7)


@given(st.tuples(FINITE, FINITE).map(sorted).filter(lambda pair: pair[1] > 1.01 * pair[0]), st.booleans())
def test_ticks_are_a_few_values_within_the_axis(ends, logarithmic):
    low, high = ends
    ticks = round_values(low, high, logarithmic=logarithmic)
    assert 1 <= len(ticks) <= 13
    assert ticks == sorted(set(ticks))
    margin = 1e-6 * (high - low)
    assert all(low - margin <= value <= high + margin for value in ticks)


def test_whole_axes_have_whole_ticks():
    assert round_values(1, 3, whole=True) == [1.0, 2.0, 3.0]
    assert round_values(0.5, 1300, logarithmic=True, whole=True) == [1.0, 10.0, 100.0, 1000.0]


def test_pages_contain_the_library_unchanged_with_its_licence():
    folder = ROOT / "harness" / "report" / "page" / "vendor" / "uplot"
    checksums = dict(re.findall(r"\| `(.*?)` \| `([0-9a-f]{64})` \|", (folder / "README.md").read_text()))
    assert set(checksums) == {"uPlot.iife.min.js", "uPlot.min.css"}
    for name, checksum in checksums.items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == checksum
    page = script("table")
    assert "The MIT License (MIT)" in page
    assert (folder / "uPlot.iife.min.js").read_text() in page


def test_phases_too_short_to_be_drawn_count():
    record = {
        **cell("onyx", "ring", "bfs", 4, 0.1),
        "phases": {f"step{number}": 4e-4 for number in range(1000)} | {"validate": 0.6},
        "solve": None,
    }
    [bar] = over_phases([record]).bars
    assert bar.total == "1 s"
    [drawn] = bar.segments
    assert drawn.x + drawn.width == pytest.approx(LENGTH, abs=1)
    assert len(bar.parts) == 1001


def test_looks_repeat_after_their_colours_dashes_and_markers():
    assert look(0) == Look("s0", "", MARKERS[0])
    assert look(9) == Look("s1", "8 4", MARKERS[2])
    assert look(30) == Look("s6", "2 3", MARKERS[2])


def test_phases_of_engines_have_a_look_too():
    assert [phase_style(name) for name in ("open", "compile", "solve", "warm_up", "my_own")] == [
        "given0", "prepare2", "solve", "warm", "prepare4",
    ]  # fmt: skip
    assert phase_title("warm_up") == "warm up"
