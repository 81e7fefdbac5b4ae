"""Metrics after each superstep, over supersteps and over seconds, for records that have them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

from harness.records import Record
from harness.records.outcome import Outcome
from harness.report.series import engine_label


@dataclass(frozen=True)
class Curve:
    """The metric of one cell: triples of superstep, from 1, seconds and value. A superstep counts its mean time."""

    label: str
    points: tuple[tuple[int, float, float], ...]


@dataclass(frozen=True)
class CurvePanel:
    """The curves of one metric on one graph, with one number of features, of all algorithms."""

    metric: str
    graph: str
    features: str
    curves: tuple[Curve, ...]


def curve_panels(records: Sequence[Record]) -> list[CurvePanel]:
    """Return a panel for each metric, graph and number of features; right answers only, with finite values."""
    found: dict[tuple[str, str, str, str], list[Curve]] = {}
    for record in records:
        if record["outcome"] != Outcome.OK or record["solve"] is None or not record["supersteps"]:
            continue
        each = record["solve"]["median"] / len(record["supersteps"])
        label = f"{record['labels']['algorithm']}: {engine_label(record)}"
        for metric, values in record["metrics_by_superstep"].items():
            points = tuple(
                (n, n * each, value) for n, value in enumerate(values, 1) if value is not None and isfinite(value)
            )
            if points:
                graph = record["labels"]["graph"]
                key = (metric, graph, str(record["graph"].get("content_hash")), str(record["features"]))
                found.setdefault(key, []).append(Curve(label, points))
    return [CurvePanel(metric, graph, k, tuple(curves)) for (metric, graph, _, k), curves in found.items()]
