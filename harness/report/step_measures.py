"""What claims compare of supersteps: edges a second, shares of the rate of copies, preparation, times to a metric."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from harness.records import Record
from harness.report.claims import Claim
from harness.report.comparison import disturbed, sufficient

Numbers = tuple[float, float, float, bool]  # a value, its interval, and whether it allows a verdict
PREPARED = "transform"  # the phase in which an engine orders or partitions the edges


def measure_steps(claim: Claim, own: Record, others: Sequence[Record]) -> Numbers | str:
    """Return the number that a claim bounds; a text: why there is none. All records are ok.

    - *edges*: edges that the run visited a second.
    - *copies*: bytes of these edges a second, ``edge_bytes`` + k ``feature_bytes`` each, over the rate at which the
      device copies memory. Rows in caches need fewer bytes, so that the share may exceed 1.
    - *prepared*: the time of a run with the phase *transform*, over the shortest of the others.
    - *sooner*: the time until ``metric``, which is better the lower, has a value that all of the runs reach, over the
      shortest of the others.
    """
    records = [own, *others]
    if any(record["solve"] is None or not record["solve"]["low"] for record in records):
        return "no time"
    conclusive = all(record["solve"] and sufficient(record["solve"]) and not disturbed(record) for record in records)
    if claim.what in ("edges", "copies"):
        scale = 1.0 if claim.what == "edges" else _share_of_an_edge(claim, own)
        if isinstance(scale, str):
            return scale
        visited = sum(step[1] for step in own["supersteps"])
        if not visited:
            return "the visited edges are not recorded"
        edges = scale * visited
        low, middle, high = _solve(own)
        return edges / middle, edges / high, edges / low, conclusive
    times = [_prepared(one) for one in records] if claim.what == "prepared" else _until(claim.metric, records)
    if isinstance(times, str):
        return times
    (low, middle, high), *rest = times
    other_low, other_middle, other_high = (min(column) for column in zip(*rest, strict=True))
    return middle / other_middle, low / other_high, high / other_low, conclusive


def _solve(record: Record) -> tuple[float, float, float]:
    solve = record["solve"]
    assert solve is not None
    return solve["low"], solve["median"], solve["high"]


def _prepared(record: Record) -> tuple[float, float, float]:
    spent = record["phases"].get(PREPARED, 0.0)
    low, middle, high = _solve(record)
    return low + spent, middle + spent, high + spent


def _share_of_an_edge(claim: Claim, record: Record) -> float | str:
    """Return the seconds of copying the bytes of an edge."""
    floor = record["floor"]
    if floor is None:
        return "the rate of the device's memory is not recorded"
    features = record["features"] or 1
    return float((claim.edge_bytes + features * claim.feature_bytes) / floor["rates"]["levels"][-1][1])


def _until(metric: str, records: Sequence[Record]) -> list[tuple[float, float, float]] | str:
    """Return the times until a metric has the worst of the best values of the records."""
    curves = []
    for record in records:
        values = [value for value in record["metrics_by_superstep"].get(metric, ()) if value is not None]
        curve = [value for value in values if isfinite(value)]
        if not curve or len(curve) != len(record["supersteps"]):
            return f"{metric} is not recorded after each superstep"
        curves.append(curve)
    target = max(map(min, curves))
    found = []
    for record, curve in zip(records, curves, strict=True):
        share = (1 + next(place for place, value in enumerate(curve) if value <= target)) / len(curve)
        low, middle, high = _solve(record)
        found.append((share * low, share * middle, share * high))
    return found
