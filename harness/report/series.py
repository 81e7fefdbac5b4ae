"""Data series for figures and the page, derived from records: comparisons, lines over features, activity, phases."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from harness.records import Record
from harness.records.outcome import Outcome
from harness.records.schema import Solve
from harness.report.comparison import Ratio, accurate, baseline_of, grouped, obstacle, ratio, sufficient

# Phases in the order of a run, so that bars of different engines stack in the same order. An engine's own phases come
# between the two lists.
_BEFORE = (
    "open", "trace", "inputs", "resolve", "refused", "support", "transform", "lower", "compile", "context", "upload",
)  # fmt: skip
_AFTER = ("wait", "warm_up", "solve", "accuracy", "download", "validate")


@dataclass(frozen=True)
class Comparison:
    """Records of one sweep that differ only in their engines. ``limit``: the limit of supersteps, or "".

    ``forced``: the records may be from several sweeps and machines, and ``sweep`` is empty.
    """

    sweep: str
    graph: str
    algorithm: str
    features: str
    limit: str
    records: tuple[Record, ...]
    baseline: Record | None
    forced: bool = False

    @property
    def block(self) -> tuple[str, str, str, str]:
        """Key that is equal for comparisons that differ only in their number of features."""
        return self.sweep, self.graph, self.algorithm, self.limit

    def ratio(self, record: Record) -> Ratio | None:
        """Return the speed-up of a record over the baseline, or None."""
        return ratio(record, self.baseline, forced=self.forced)

    def obstacle(self, record: Record) -> str:
        """Return why an ok record has no speed-up; empty if it is comparable."""
        return "" if record is self.baseline else obstacle(record, self.baseline)

    def fastest(self) -> Record | None:
        """Return the record whose time is below all others with non-overlapping intervals, or None."""
        timed = [one for one in self.records if one["outcome"] == Outcome.OK and one["solve"] is not None]
        if len(timed) < 2:
            return None
        by_accuracy = all(accurate(one) for one in timed)
        first, *others = sorted(timed, key=lambda one: _median(accurate(one) if by_accuracy else one["solve"]))
        found = [ratio(first, other, forced=self.forced) for other in others]
        return first if all(one is not None and one.decided for one in found) else None


@dataclass(frozen=True)
class Standing:
    """Summary of an engine over a whole sweep.

    ``mean``: geometric mean of its ``compared`` speed-ups: all those with an interval, and 1 where it is the baseline.
    They lie between ``lowest`` and ``highest``. ``undecided`` of them have an interval that includes 1; they count,
    because omitting ties would exaggerate the mean. Speed-ups without a verdict (too few samples, or
    disturbed) do not count. ``fastest``: the
    number of comparisons in which it is faster than every other engine.
    """

    engine: str
    ok: int
    cells: int
    fastest: int
    compared: int
    undecided: int
    mean: float | None
    lowest: float | None
    highest: float | None


@dataclass(frozen=True)
class Line:
    """An engine's times in seconds: (features, median, low, high), by features; low = high = median if withheld."""

    engine: str
    points: tuple[tuple[int, float, float, float], ...]


@dataclass(frozen=True)
class Panel:
    """Lines over features for one graph and algorithm of a sweep: the ``block`` of its comparisons."""

    block: tuple[str, str, str, str]
    lines: tuple[Line, ...]


def engine_label(record: Record) -> str:
    """Return the engine with the options that were set, and the device unless it is the CPU with all its cores."""
    device, label = record["config"]["device"], record["labels"]["engine"]
    if device["kind"] != "cpu":
        return f"{label} on {device['kind']}"
    threads, cores = device.get("threads"), record["environment"].get("usable_cores")
    if threads is None or cores is None or threads == cores:
        return label
    return f"{label} on {threads} thread{'s' if threads > 1 else ''}"


def engines_of(records: Iterable[Record]) -> list[str]:
    """Return every engine's label, in order of first occurrence."""
    return list(dict.fromkeys(engine_label(record) for record in records))


def comparisons(records: Sequence[Record], baseline: str | None, *, forced: bool = False) -> list[Comparison]:
    """Return the groups of comparable records; a group never spans two sweeps, unless ``forced``.

    Groups that differ only in their number of features are adjacent, sorted by it; otherwise the order is that of the
    records.
    """
    sweeps: dict[str, list[Record]] = {}
    for record in records:
        sweeps.setdefault("" if forced else record["sweep"], []).append(record)
    found = [
        Comparison(
            sweep,
            graph,
            algorithm,
            k,
            "" if limit == "None" else limit,
            tuple(members),
            baseline_of(members, baseline),
            forced,
        )
        for sweep, own in sweeps.items()
        for (graph, algorithm, k, limit), members in grouped(own)
    ]
    blocks = list(dict.fromkeys(group.block for group in found))
    return sorted(
        found, key=lambda group: (blocks.index(group.block), group.features == "auto", _number(group.features))
    )


def _number(features: str) -> int:
    return int(features) if features.isdecimal() else 0


def standings(groups: Sequence[Comparison]) -> list[Standing]:
    """Return the summary of every engine, in order of first occurrence."""
    names = engines_of(record for group in groups for record in group.records)
    fastest = [engine_label(best) for group in groups if (best := group.fastest()) is not None]
    return [_standing(name, groups, fastest.count(name)) for name in names]


def _standing(name: str, groups: Sequence[Comparison], fastest: int) -> Standing:
    own = [(group, record) for group in groups for record in group.records if engine_label(record) == name]
    found = [one for group, record in own if (one := group.ratio(record)) is not None and one.conclusive]
    ratios = [*(one.value for one in found), *(1.0 for group, record in own if record is group.baseline)]
    undecided = sum(not one.decided for one in found)
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else None
    ok = sum(record["outcome"] == Outcome.OK for _, record in own)
    lowest, highest = min(ratios, default=None), max(ratios, default=None)
    return Standing(name, ok, len(own), fastest, len(ratios), undecided, mean, lowest, highest)


def feature_panels(groups: Sequence[Comparison]) -> list[Panel]:
    """Return one panel per graph and algorithm that was run with several numbers of features."""
    found: dict[tuple[str, str, str, str], dict[str, dict[int, Record]]] = {}
    for group in groups:
        lines = found.setdefault(group.block, {})
        for record in group.records:
            k = record["features"]
            if record["outcome"] == Outcome.OK and record["solve"] and k is not None:
                lines.setdefault(engine_label(record), {})[k] = record
    return [
        Panel(block, tuple(Line(name, _points(by_k)) for name, by_k in lines.items()))
        for block, lines in found.items()
        if len({k for by_k in lines.values() for k in by_k}) > 1
    ]


def _points(by_k: dict[int, Record]) -> tuple[tuple[int, float, float, float], ...]:
    solves = [(k, record["solve"]) for k, record in sorted(by_k.items())]
    return tuple(_point(k, solve) for k, solve in solves if solve is not None)


def _point(k: int, solve: Solve) -> tuple[int, float, float, float]:
    low, high = (solve["low"], solve["high"]) if sufficient(solve) else (solve["median"], solve["median"])
    return k, solve["median"], low, high


def active_vertices(record: Record, most: int | None = None) -> list[tuple[int, int]]:
    """Return pairs (superstep from 1, active vertices before it).

    At most ``most`` pairs are returned, evenly spaced, including the first and the last.
    """
    steps = [(number, int(step[0])) for number, step in enumerate(record["supersteps"], start=1)]
    if most is None or len(steps) <= most:
        return steps
    last = len(steps) - 1
    return [steps[round(place * last / (most - 1))] for place in range(most)]


def phase_seconds(record: Record) -> list[tuple[str, float]]:
    """Return the seconds of every phase in the order of a run, including one solve (the median)."""
    phases = dict(record["phases"])
    if record["solve"] is not None and record["outcome"] == Outcome.OK:
        phases["solve"] = record["solve"]["median"]
    return [(name, phases[name]) for name in _in_order(phases)]


def phase_names(records: Iterable[Record]) -> list[str]:
    """Return every phase that occurs, in the order of a run."""
    return _in_order(dict.fromkeys(name for record in records for name, _ in phase_seconds(record)))


def _in_order(names: Collection[str]) -> list[str]:
    own = [name for name in names if name not in _BEFORE and name not in _AFTER]
    return [name for name in (*_BEFORE, *own, *_AFTER) if name in names]


def edges_per_second(record: Record) -> float | None:
    """Return edges visited in a run per second of its median time; None without a time or without supersteps."""
    solve = record["solve"]
    if record["outcome"] != Outcome.OK or solve is None or not solve["median"] or not record["supersteps"]:
        return None
    return float(sum(step[1] for step in record["supersteps"]) / solve["median"])


def _median(solve: Solve | None) -> float:
    return float(solve["median"]) if solve is not None else math.inf
