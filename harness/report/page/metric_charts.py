"""Charts of metrics over supersteps and over seconds."""

from __future__ import annotations

from dataclasses import dataclass

from harness.report.curves import CurvePanel
from harness.report.page.charts import curves
from harness.report.page.drawing import Drawing, drawing


@dataclass(frozen=True)
class MetricCharts:
    """The charts of one panel and the labels of their lines, in the order of their styles."""

    title: str
    labels: tuple[str, ...]
    over_supersteps: Drawing
    over_seconds: Drawing


def metric_charts(panel: CurvePanel) -> MetricCharts:
    """Return both charts of a panel."""
    metric = panel.metric
    styles = {curve.label: number for number, curve in enumerate(panel.curves)}
    steps = {curve.label: [(float(n), value, value, value) for n, _, value in curve.points] for curve in panel.curves}
    over_seconds = {curve.label: [(s, value, value, value) for _, s, value in curve.points] for curve in panel.curves}
    y = (metric, "number")
    return MetricCharts(
        f"{metric} on {panel.graph} · k = {panel.features}",
        tuple(styles),
        drawing(curves(f"{metric} over supersteps", ("superstep", "count"), y, steps, styles)),
        drawing(curves(f"{metric} over seconds", ("seconds", "seconds"), y, over_seconds, styles)),
    )
