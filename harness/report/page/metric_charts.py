"""Charts of metrics over supersteps and over seconds."""

from __future__ import annotations

from dataclasses import dataclass

from harness.report.curves import CurvePanel
from harness.report.page.charts import LineChart, curves
from harness.report.units import seconds


@dataclass(frozen=True)
class MetricCharts:
    """The charts of one panel and the labels of their lines, in the order of their styles."""

    title: str
    labels: tuple[str, ...]
    over_supersteps: LineChart
    over_seconds: LineChart


def metric_charts(panel: CurvePanel) -> MetricCharts:
    """Return both charts of a panel."""
    metric = panel.metric
    styles = {curve.label: number for number, curve in enumerate(panel.curves)}
    steps = {curve.label: [(float(n), value) for n, _, value in curve.points] for curve in panel.curves}
    spent = {curve.label: [(s, value) for _, s, value in curve.points] for curve in panel.curves}
    return MetricCharts(
        f"{metric} on {panel.graph} · k = {panel.features}",
        tuple(styles),
        curves(f"{metric} over supersteps", "superstep", metric, steps, styles, lambda x: str(round(x))),
        curves(f"{metric} over seconds", "seconds", metric, spent, styles, seconds),
    )
