"""Charts of the metrics after every superstep: over supersteps and over time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from harness.records import Record
from harness.records.outcome import Outcome
from harness.report.page.charts import LineChart, curves
from harness.report.series import engine_label
from harness.report.units import seconds


def over_runs(records: Sequence[Record], styles: Mapping[str, int]) -> tuple[tuple[str, LineChart], ...]:
    """Return a title and a chart of every metric over supersteps and, where runs were timed, over time.

    Times of single supersteps are not recorded: each gets an equal share of the median time of a run. This is accurate
    for steps in place, which do the same work in every superstep.
    """
    found = []
    for name in dict.fromkeys(name for record in records for name in record["metrics_by_superstep"]):
        runs = {engine_label(one): (one, _points(one, name)) for one in records if name in one["metrics_by_superstep"]}
        lines = {label: points for label, (_, points) in runs.items() if points}
        shares = {label: share for label, (one, _) in runs.items() if (share := _superstep_s(one)) is not None}
        timed = {label: [(x * shares[label], y) for x, y in lines[label]] for label in lines if label in shares}
        if lines:
            title = f"{name} over supersteps"
            found.append((title, curves(title, "superstep", name, lines, styles, lambda x: str(round(x)))))
        if timed:
            title = f"{name} over time"
            found.append((title, curves(title, "time", name, timed, styles, seconds)))
    return tuple(found)


def _points(record: Record, name: str) -> list[tuple[float, float]]:
    values = record["metrics_by_superstep"][name]
    return [(float(n), float(value)) for n, value in enumerate(values, 1) if math.isfinite(value)]


def _superstep_s(record: Record) -> float | None:
    """Return the seconds of a superstep: an equal share of the median time of a run."""
    solve, count = record["solve"], len(record["supersteps"])
    return solve["median"] / count if solve and count and record["outcome"] == Outcome.OK else None
