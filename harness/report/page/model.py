"""What the page says, as plain values for the template: numbers already in words, colours already as classes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.records import Mark, Record, merge_rounds
from harness.records.outcome import Outcome
from harness.report.comparison import Ratio
from harness.report.failures import Failure, failures
from harness.report.page.charts import BarChart, LineChart, over_features, over_phases, over_supersteps, phase_style
from harness.report.series import (
    Comparison,
    Standing,
    comparisons,
    edges_per_second,
    engine_label,
    engines_of,
    feature_panels,
    phase_names,
    standings,
)
from harness.report.table import disturbed
from harness.report.units import count, seconds, seconds_range

STYLES = 8  # engines that get a colour of their own; the next ones share them and differ in their dashes
_SHADES = 6  # of the heat map, on either side; the last is for four times and more
_SHADES_PER_DOUBLING = 3
_OUTPUT_LINES = 40
_OUTPUT_WIDTH = 400
_VALUES = 4  # of a field of the environment that differs from cell to cell
_FAILED = "failed"


@dataclass(frozen=True)
class Column:
    """A column of the table of cells; ``numeric`` ones are sorted by value and set to the right."""

    title: str
    numeric: bool = False


@dataclass(frozen=True)
class Entry:
    """What one cell of the table shows, and the value it is sorted by where that is not its text."""

    text: str
    value: float | None = None
    aside: str = ""
    style: str = ""


@dataclass(frozen=True)
class Heat:
    """A speed-up in the heat map: what it shows, its shade, and what it says when pointed at."""

    text: str
    style: str
    title: str


@dataclass(frozen=True)
class Close:
    """One comparison seen closely."""

    title: str
    verdict: str
    activity: LineChart | None
    phases: BarChart | None


_ABSENT = Entry("–", style="absent")
COLUMNS = (
    Column("graph"),
    Column("algorithm"),
    Column("k", numeric=True),
    Column("engine"),
    Column("outcome"),
    Column("solve", numeric=True),
    Column("speed-up", numeric=True),
    Column("supersteps", numeric=True),
    Column("edges visited", numeric=True),
    Column("edges/s", numeric=True),
    Column("error", numeric=True),
    Column("quality"),
    Column("whole cell", numeric=True),
)


def page_model(records: Sequence[Record], baseline: str | None, cells: int) -> dict[str, Any]:
    """Everything that the template names, for the records of one or several sweeps that hold ``cells`` cells."""
    missing = cells - len(records)
    records = merge_rounds(records)
    groups = comparisons(records, baseline)
    engines = engines_of(records)
    styles = {name: place for place, name in enumerate(engines)}
    outcomes = [Outcome(record["outcome"]) for record in records]
    several = len({record["sweep"] for record in records}) > 1
    return {
        "sweeps": list(dict.fromkeys(record["sweep"] for record in records)),
        "started": min((record["started"] for record in records), default=""),
        "baseline": baseline,
        "lede": _lede(groups),
        "machine": _machine(records),
        "cells": len(records),
        "missing": missing,
        "ok": outcomes.count(Outcome.OK),
        "unsupported": outcomes.count(Outcome.UNSUPPORTED),
        _FAILED: sum(not outcome.acceptable for outcome in outcomes),
        "marks": _marks(records),
        "engines": engines,
        "styles": STYLES,
        "standings": [_standing(one) for one in sorted(standings(groups), key=lambda one: -(one.mean or 0))],
        "heat": _heat_map(groups, engines, several),
        "panels": [(_title(panel.block, several), over_features(panel, styles)) for panel in feature_panels(groups)],
        "columns": COLUMNS,
        "rows": [_row(group, record) for group in groups for record in group.records],
        "choices": _choices(records),
        "close": [_close(group, styles, several) for group in groups],
        "phase_styles": {name: phase_style(name) for name in phase_names(records)},
        "failures": [_failure(one) for one in failures(records)],
        "environment": _environment(records),
    }


def _title(block: tuple[str, str, str, str], several: bool) -> str:
    """What a block of comparisons is about; the sweep only where there are several."""
    sweep, graph, algorithm, limit = block
    parts = [graph, f"{algorithm}, at most {limit} supersteps" if limit else algorithm, *([sweep] if several else [])]
    return " · ".join(parts)


def _marks(records: Sequence[Record]) -> list[str]:
    """What speaks against some of the times, and against how many."""
    timed = [record for record in records if record["outcome"] == Outcome.OK]
    counted = [(mark, sum(mark in record["marks"] for record in timed)) for mark in Mark]
    return [f"{number} of {len(timed)} times are {mark.value}: {mark.meaning}." for mark, number in counted if number]


def _lede(groups: Sequence[Comparison]) -> str:
    """The sweep in a sentence."""
    best = Counter(engine_label(found) for group in groups if (found := group.fastest()) is not None)
    number = f"{len(groups)} comparison{'s' if len(groups) != 1 else ''}"
    if not best:
        return f"{number}; in none is one engine faster than all others beyond doubt."
    (first, most), *others = best.most_common()
    return f"Of {number}, {first} is fastest in {most}" + "".join(f", {name} in {wins}" for name, wins in others) + "."


def _heat_map(groups: Sequence[Comparison], engines: Sequence[str], several: bool) -> list[dict[str, Any]]:
    """Rows by number of features, under the graph and algorithm that they share."""
    blocks: dict[tuple[str, str, str, str], list[tuple[str, list[list[Heat]]]]] = {}
    for group in groups:
        cells = [_heat(group, name) for name in engines]
        blocks.setdefault(group.block, []).append((f"k = {group.features}", cells))
    return [{"title": _title(block, several), "comparisons": rows} for block, rows in blocks.items()]


def _standing(standing: Standing) -> dict[str, Any]:
    compared = standing.mean is not None
    return {
        "engine": standing.engine,
        "ok": f"{standing.ok} of {standing.cells}",
        "fastest": standing.fastest,
        "mean": _times(standing.mean) if standing.mean is not None else "–",
        "range": f"{_times(standing.lowest or 0)} to {_times(standing.highest or 0)}" if compared else "–",
        "compared": standing.compared,
    }


def _heat(group: Comparison, engine: str) -> list[Heat]:
    """One entry a record of this engine in the comparison: usually one, none where it was not run."""
    return [_heat_of(group, record) for record in group.records if engine_label(record) == engine]


def _heat_of(group: Comparison, record: Record) -> Heat:
    if record["outcome"] != Outcome.OK or record["solve"] is None:
        style = "none unsupported" if record["outcome"] == Outcome.UNSUPPORTED else "none"
        return Heat(record["outcome"].replace("_", " "), style, record["reason"])
    time = seconds(record["solve"]["median"])
    if record is group.baseline:
        return Heat(time, "base", "the baseline")
    found = group.ratio(record)
    if found is None:
        return Heat(time, "plain", "nothing to compare it with")
    if not found.distinct:
        return Heat(f"≈ {_times(found.value)}", "same", f"no difference shown; {time}, {_interval(found)}")
    return Heat(_times(found.value), _shade(found.value), f"{time}, {_interval(found)}")


def _shade(value: float) -> str:
    steps = min(_SHADES, max(1, round(abs(math.log2(value)) * _SHADES_PER_DOUBLING)))
    return f"{'faster' if value > 1 else 'slower'}{steps}"


def _times(value: float) -> str:
    return f"{value:.3g}×"


def _interval(found: Ratio) -> str:
    return f"{found.low:.3g} to {found.high:.3g}"


def _row(group: Comparison, record: Record) -> dict[str, Any]:
    outcome = Outcome(record["outcome"])
    style = {Outcome.OK: "ok", Outcome.UNSUPPORTED: "unsupported"}.get(outcome, _FAILED)
    k = record["features"]
    entries = [
        Entry(group.graph),
        Entry(group.algorithm, aside=f"at most {group.limit} supersteps" if group.limit else ""),
        Entry(group.features, None if k is None else float(k)),
        Entry(engine_label(record)),
        Entry(outcome.value, style=style),
        *_times_of(group, record, outcome),
        *_work_of(record),
        Entry(seconds(record["seconds"]), record["seconds"]),
    ]
    labels = record["labels"]
    return {"entries": entries, "graph": labels["graph"], "algorithm": labels["algorithm"], "outcome": outcome.value}


def _times_of(group: Comparison, record: Record, outcome: Outcome) -> list[Entry]:
    solve = record["solve"]
    if outcome is not Outcome.OK or solve is None:
        return [_ABSENT, _ABSENT]
    mark = " *" if disturbed(record) else ""
    interval = seconds_range(solve["low"], solve["high"], solve["median"]) + mark
    time = Entry(seconds(solve["median"]), solve["median"], interval)
    if record is group.baseline:
        return [time, Entry("1×", 1.0, "baseline")]
    found = group.ratio(record)
    if found is None:
        return [time, _ABSENT]
    if not found.distinct:
        return [time, Entry("≈", found.value, f"[{found.low:.3g}, {found.high:.3g}]")]
    style = "gain" if found.value > 1 else "loss"
    return [time, Entry(_times(found.value), found.value, f"[{found.low:.3g}, {found.high:.3g}]", style)]


def _work_of(record: Record) -> list[Entry]:
    steps = record["supersteps"]
    edges, rate = sum(step[1] for step in steps), edges_per_second(record)
    told = [f"{name} {value:.3f}" for name, value in record["metrics"].items() if value is not None]
    return [
        Entry(str(len(steps)), float(len(steps))) if steps else _ABSENT,
        Entry(count(edges), float(edges)) if steps else _ABSENT,
        Entry(count(round(rate)), rate) if rate is not None else _ABSENT,
        _error(record["validation"]),
        Entry(", ".join(told)) if told else _ABSENT,
    ]


def _error(validation: Mapping[str, Any] | None) -> Entry:
    if validation is None:
        return _ABSENT
    error = validation["error"]
    return Entry("not finite") if error is None else Entry(f"{error:.1e}" if error else "0", error)


def _choices(records: Sequence[Record]) -> list[tuple[str, list[str]]]:
    """What the table can be narrowed to."""
    found: dict[str, list[str]] = {
        "graph": [record["labels"]["graph"] for record in records],
        "algorithm": [record["labels"]["algorithm"] for record in records],
        "engine": [engine_label(record) for record in records],
        "outcome": [record["outcome"] for record in records],
    }
    return [(name, list(dict.fromkeys(values))) for name, values in found.items()]


def _close(group: Comparison, styles: Mapping[str, int], several: bool) -> Close:
    best = group.fastest()
    if best is None:
        verdict = "no single fastest engine"
    else:
        found = group.ratio(best)
        over = f", {_times(found.value)} over the baseline" if found is not None and found.distinct else ""
        verdict = f"fastest: {engine_label(best)}{over}"
    title = f"{_title(group.block, several)} · k = {group.features}"
    return Close(title, verdict, over_supersteps(group.records, styles), over_phases(group.records))


def _failure(failure: Failure) -> dict[str, Any]:
    lines = [line[:_OUTPUT_WIDTH] for line in failure.telling(_OUTPUT_LINES)]
    stopped = [
        " · ".join((*_graph_and_algorithm(one), f"k = {one['features'] or 'auto'}", engine_label(one)))
        for one in failure.records
    ]
    style = "unsupported" if failure.outcome is Outcome.UNSUPPORTED else _FAILED
    outcome = failure.outcome.value.replace("_", " ")
    return {"outcome": outcome, "style": style, "reason": failure.reason, "cells": stopped, "output": "\n".join(lines)}


def _graph_and_algorithm(record: Record) -> tuple[str, str]:
    return record["labels"]["graph"], record["labels"]["algorithm"]


def _environment(records: Sequence[Record]) -> list[tuple[str, str]]:
    """Every field of the environments with its value, or with what it was in how many cells."""
    told: list[dict[str, Any]] = [dict(record["environment"]) for record in records]
    fields = {name: [one.get(name) for one in told] for name in dict.fromkeys(name for one in told for name in one)}
    known = {name: values for name, values in fields.items() if any(value is not None for value in values)}
    return [(name.replace("_", " "), _told(name, values)) for name, values in known.items()]


def _machine(records: Sequence[Record]) -> str:
    """The processor, where all cells ran on one kind."""
    found = {(record["environment"].get("cpu"), record["environment"].get("cores")) for record in records}
    if len(found) != 1:
        return f"{len(found)} kinds of machine" if found else ""
    cpu, cores = found.pop()
    return f"{cpu}, {cores} cores"


def _told(name: str, values: Sequence[Any]) -> str:
    counted = Counter(_plain(name, value) for value in values)
    if len(counted) == 1:
        return next(iter(counted))
    numbers = [value for value in values if isinstance(value, (int, float)) and not isinstance(value, bool)]
    if len(numbers) == len(values):
        return f"{_plain(name, min(numbers))} to {_plain(name, max(numbers))}"
    shown = [f"{text} ({number} cells)" for text, number in counted.most_common(_VALUES)]
    rest = len(counted) - len(shown)
    return "; ".join(shown) + (f"; and {rest} others" if rest else "")


def _plain(name: str, value: Any) -> str:
    if value is None:
        return "not known"
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_plain(key, item)}" for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(_plain(name, item) for item in value)
    if isinstance(value, int) and (name == "memory" or name.endswith("bytes")):
        return f"{value / 1e9:.3g} GB" if value >= 1e9 else f"{value / 1e6:.3g} MB"
    return f"{value:.3g}" if isinstance(value, float) else str(value)
