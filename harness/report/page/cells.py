"""The table of cells on the page: its columns, and the entries of a record."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.records import Record
from harness.records.floor import share_of_floor
from harness.records.outcome import Outcome
from harness.report.comparison import accurate, interval_text
from harness.report.page.links import NO_LINKS, Links
from harness.report.series import Comparison, edges_per_second, engine_label
from harness.report.table import UNCOUNTED, UNSETTLED, accuracy_text, marked, stop_of, uncounted, unsettled
from harness.report.units import count, percent, quality, seconds, times


@dataclass(frozen=True)
class Column:
    """A column of the table of cells; ``numeric`` columns are sorted by value and right-aligned."""

    title: str
    numeric: bool = False


@dataclass(frozen=True)
class Entry:
    """The text of one cell of the table, and its sort value if that is not the text."""

    text: str
    value: float | None = None
    aside: str = ""
    style: str = ""
    links: tuple[tuple[str, str], ...] = ()

    @property
    def sorted_by(self) -> str:
        """``value`` in the script's format, where infinity is "Infinity"."""
        return f"{self.value:.6g}".replace("inf", "Infinity")


_ABSENT = Entry("–", style="absent")
COLUMNS = (
    Column("graph"),
    Column("algorithm"),
    Column("k", numeric=True),
    Column("engine"),
    Column("outcome"),
    Column("solve", numeric=True),
    Column("to accuracy", numeric=True),
    Column("speed-up", numeric=True),
    Column("supersteps", numeric=True),
    Column("a superstep", numeric=True),
    Column("floor", numeric=True),
    Column("edges visited", numeric=True),
    Column("edges/s", numeric=True),
    Column("error", numeric=True),
    Column("quality"),
    Column("whole cell", numeric=True),
    Column("files"),
)


def cell_row(group: Comparison, record: Record, links: Links = NO_LINKS) -> dict[str, Any]:
    """Return a record's entries, one per column, and the values by which the table is filtered."""
    outcome = Outcome(record["outcome"])
    style = {Outcome.OK: "ok", Outcome.UNSUPPORTED: "unsupported"}.get(outcome, "failed")
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
        Entry("", links=files) if (files := links.files.get(record["cell"], ())) else _ABSENT,
    ]
    labels = record["labels"]
    return {"entries": entries, "graph": labels["graph"], "algorithm": labels["algorithm"], "outcome": outcome.value}


def _times_of(group: Comparison, record: Record, outcome: Outcome) -> list[Entry]:
    solve = record["solve"]
    if outcome is not Outcome.OK or solve is None:
        return [_ABSENT, _ABSENT, _ABSENT]
    mark = " *" if marked(record) else ""
    times_of = [Entry(seconds(solve["median"]), solve["median"], interval_text(solve) + mark), _to_accuracy(record)]
    return [*times_of, _speed_up(group, record)]


def _to_accuracy(record: Record) -> Entry:
    timed, accuracy = accurate(record), record["accuracy"]
    if accuracy is None or timed is None:
        return _ABSENT if accuracy is None else Entry(accuracy_text(record))
    where = stop_of(accuracy) if accuracy["tolerance"] is not None else f"superstep {stop_of(accuracy)}"
    aside = f"{where}, {interval_text(timed)}"
    return Entry(seconds(timed["median"]), timed["median"], aside)


def _speed_up(group: Comparison, record: Record) -> Entry:
    if record is group.baseline:
        return Entry("1×", 1.0, "baseline")
    found = group.ratio(record)
    if found is None:
        obstacle = group.obstacle(record)
        return Entry("n/c", aside=obstacle) if obstacle else _ABSENT
    if not found.conclusive:
        return Entry("?", aside=found.doubt)
    if not found.decided:
        return Entry("≈", found.value, f"[{found.low:.3g}, {found.high:.3g}]")
    style = "gain" if found.value > 1 else "loss"
    return Entry(times(found.value), found.value, f"[{found.low:.3g}, {found.high:.3g}]", style)


def _work_of(record: Record) -> list[Entry]:
    steps = record["supersteps"]
    edges, rate = sum(step[1] for step in steps), edges_per_second(record)
    solve = record["solve"] if record["outcome"] == Outcome.OK else None
    step = solve["median"] / len(steps) if solve and steps else None
    metrics = [f"{name} {quality(value)}" for name, value in record["metrics"].items() if value is not None]
    return [
        Entry(str(len(steps)), float(len(steps)), _stopped(record)) if steps else _no_supersteps(record),
        Entry(seconds(step), step) if step is not None else _ABSENT,
        _floor(record),
        Entry(count(edges), float(edges)) if steps else _ABSENT,
        Entry(count(round(rate)), rate) if rate is not None else _ABSENT,
        _error(record["validation"]),
        Entry(", ".join(metrics)) if metrics else _ABSENT,
    ]


def _floor(record: Record) -> Entry:
    share, floor = share_of_floor(record), record["floor"]
    return _ABSENT if share is None or floor is None else Entry(percent(share), share, floor["largest"])


def _no_supersteps(record: Record) -> Entry:
    return Entry(UNCOUNTED, style="absent") if uncounted(record) else _ABSENT


def _stopped(record: Record) -> str:
    return UNSETTLED if unsettled(record) else ""


def _error(validation: Mapping[str, Any] | None) -> Entry:
    if validation is None:
        return _ABSENT
    error = validation["error"]
    if error is None:
        return Entry("not finite")
    return Entry(f"{error:.1e}" if error else "0", None if math.isnan(error) else error)  # NaN cannot be sorted
