"""Times over commits, from the records of many sweeps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from harness.records import Record
from harness.records.outcome import Outcome
from harness.records.schema import Solve
from harness.report.comparison import sufficient
from harness.report.series import engine_label


@dataclass(frozen=True)
class Point:
    """The time of a cell at a commit, in seconds: median and interval of its latest run there.

    ``sufficient``: the time has enough samples for an interval; else low = high = median.
    """

    commit: str
    started: str
    median: float
    low: float
    high: float
    sufficient: bool


@dataclass(frozen=True)
class Trend:
    """One cell on one machine over commits, in the order in which they were first measured."""

    problem: str
    engine: str
    machine: str
    points: tuple[Point, ...]


@dataclass(frozen=True)
class Step:
    """Two commits measured one after the other, whose intervals do not overlap. ``ratio``: after over before."""

    problem: str
    engine: str
    machine: str
    before: str
    after: str
    ratio: float


def trends(records: Iterable[Record]) -> list[Trend]:
    """Return the trend of every cell that has times at two commits or more.

    A cell is a problem (graph with its content, algorithm, features, limit of supersteps, start), an engine with its
    options, a device and a machine. The software of the machine may change, as commits do; its hardware may not.
    """
    found: dict[tuple[str, ...], dict[str, Point]] = {}
    for record in sorted(records, key=lambda record: record["started"]):
        commit, solve = record["environment"].get("commit"), record["solve"]
        if record["outcome"] != Outcome.OK or solve is None or not commit:
            continue
        points = found.setdefault((*_cell(record),), {})
        first = points.get(commit)
        points[commit] = _point(str(commit), first.started if first else record["started"], solve)
    return [
        Trend(problem, engine, machine, tuple(sorted(points.values(), key=lambda point: point.started)))
        for (problem, engine, machine, _), points in found.items()
        if len(points) > 1
    ]


def steps(found: Sequence[Trend]) -> list[Step]:
    """Return every step between two commits with intervals, the largest change first."""
    met = [
        Step(trend.problem, trend.engine, trend.machine, before.commit, after.commit, after.median / before.median)
        for trend in found
        for before, after in zip(trend.points, trend.points[1:], strict=False)
        if before.sufficient and after.sufficient and (after.low > before.high or after.high < before.low)
    ]
    return sorted(met, key=lambda step: -max(step.ratio, 1 / step.ratio))


def _cell(record: Record) -> tuple[str, str, str, str]:
    labels, limit = record["labels"], record["config"].get("max_supersteps")
    limited = f", at most {limit} supersteps" if limit is not None else ""
    problem = f"{labels['graph']} · {labels['algorithm']}{limited} · k = {record['features']}"
    contents = (record["graph"] or {}).get("content_hash", "")
    return problem, engine_label(record), _hardware(record), str(contents)


def _hardware(record: Record) -> str:
    """Return host, processor and GPU: what must be equal for a trend."""
    facts = record["environment"]
    gpu = facts.get("gpu")
    name = gpu["name"] if gpu else ""
    return ", ".join(str(part) for part in (facts.get("host"), facts.get("cpu"), name) if part)


def _point(commit: str, started: str, solve: Solve) -> Point:
    shown = sufficient(solve)
    low, high = (solve["low"], solve["high"]) if shown else (solve["median"], solve["median"])
    return Point(commit, started, solve["median"], low, high, shown)


__all__ = ["Point", "Step", "Trend", "steps", "trends"]
