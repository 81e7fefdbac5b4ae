"""Metrics over supersteps and seconds: which records have a curve, and how the page draws it."""

from __future__ import annotations

from harness.report.curves import curve_panels
from harness.report.page import render_page
from harness.report.page.drawing import AREA
from harness.report.page.metric_charts import metric_charts
from tests.records.samples import record

STEPS = [[9, 9, "dense"]] * 4
FALLING = {"rmse": [2.0, 1.0, 0.75, 0.5]}


def test_a_superstep_takes_the_mean_of_the_timed_ones():
    found = record(times=(8.0, 7.0, 9.0), supersteps=STEPS, metrics_by_superstep=FALLING)
    (panel,) = curve_panels([found])
    assert (panel.metric, panel.graph, panel.features) == ("rmse", "ring", "8")
    (curve,) = panel.curves
    assert curve.label == "flood: fast"
    assert curve.points == ((1, 2.0, 2.0), (2, 4.0, 1.0), (3, 6.0, 0.75), (4, 8.0, 0.5))


def test_algorithms_share_a_panel_and_other_graphs_and_wrong_answers_do_not():
    labels = {"engine": "slow", "algorithm": "als", "graph": "ring"}
    right = [record(supersteps=STEPS, metrics_by_superstep=FALLING, labels=one) for one in
             ({"engine": "fast", "algorithm": "sgd", "graph": "ring"}, labels)]  # fmt: skip
    other = record(supersteps=STEPS, metrics_by_superstep=FALLING, graph={"name": "ring", "content_hash": "other"})
    wrong = record(supersteps=STEPS, metrics_by_superstep=FALLING, outcome="wrong")
    uncounted = record(supersteps=[], metrics_by_superstep=FALLING)
    panels = curve_panels([*right, other, wrong, uncounted, record()])
    assert [[curve.label for curve in panel.curves] for panel in panels] == [
        ["sgd: fast", "als: slow"],
        ["flood: fast"],
    ]


def test_values_that_are_not_finite_are_left_out():
    found = record(supersteps=STEPS, metrics_by_superstep={"rmse": [2.0, float("nan"), float("inf"), 0.5]})
    (panel,) = curve_panels([found])
    assert [point[0] for point in panel.curves[0].points] == [1, 4]


def test_the_vertical_axis_falls_and_both_charts_have_every_point():
    (panel,) = curve_panels([record(supersteps=STEPS, metrics_by_superstep=FALLING)])
    found = metric_charts(panel)
    assert found.title == "rmse on ring · k = 8"
    for chart in (found.over_supersteps, found.over_seconds):
        points = [tuple(map(float, point.split(","))) for point in chart.strokes[0].points.split()]
        assert len(points) == 4
        assert [x for x, _ in points] == sorted(x for x, _ in points)
        assert [y for _, y in points] == sorted(y for _, y in points)  # smaller values are lower on the page
        assert all(AREA["left"] <= x <= AREA["right"] and AREA["top"] <= y <= AREA["bottom"] for x, y in points)
    flat = record(supersteps=STEPS[:1], metrics_by_superstep={"rmse": [0.0]})
    assert metric_charts(curve_panels([flat])[0]).labels == ("flood: fast",)


def test_the_page_has_the_charts_of_records_with_metrics_only():
    with_metrics = render_page([record(supersteps=STEPS, metrics_by_superstep=FALLING)], None, 1)
    assert "Metrics over supersteps and seconds" in with_metrics
    assert "rmse over seconds" in with_metrics
    assert "Metrics over supersteps" not in render_page([record()], None, 1)
