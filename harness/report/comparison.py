"""Which records may be compared, and what comes of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.records import Record, machine_of
from harness.records.outcome import Outcome
from harness.records.schema import Solve
from harness.records.statistics import Interval

Group = tuple[str, str, str, str]


@dataclass(frozen=True)
class Ratio:
    """How many times faster than the baseline, between ``low`` and ``high``; ``distinct`` when the intervals of the
    two times do not overlap, ``single`` when a time is of one run alone, which has no interval."""

    value: float
    low: float
    high: float
    distinct: bool
    single: bool = False

    @property
    def doubt(self) -> str:
        """Why no ratio is shown, where the two are not distinct."""
        return "cannot tell from one run" if self.single else "no difference"


def group_of(record: Record) -> Group:
    """What records must share to stand in one group: graph, algorithm, features, limit of supersteps."""
    labels, config = record["labels"], record["config"]
    k = record["features"] if record["features"] is not None else config["features"]
    return labels["graph"], labels["algorithm"], "auto" if k is None else str(k), str(config["max_supersteps"])


def grouped(records: Sequence[Record]) -> list[tuple[Group, list[Record]]]:
    """Records by group, both in the order met.

    A record that failed before its features were known joins the group that agrees in everything else.
    """
    groups: dict[Group, list[Record]] = {}
    for record in sorted(records, key=lambda record: record["features"] is None):
        wanted = group_of(record)
        if wanted[2] == "auto":
            wanted = next((group for group in groups if (*group[:2], group[3]) == (*wanted[:2], wanted[3])), wanted)
        groups.setdefault(wanted, []).append(record)
    order = {id(record): place for place, record in enumerate(records)}
    for members in groups.values():
        members.sort(key=lambda record: order[id(record)])
    return sorted(groups.items(), key=lambda item: order[id(item[1][0])])


def baseline_of(records: Sequence[Record], engine: str | None) -> Record | None:
    """The ok record of the baseline engine in a group, with its default schedule if there is one; else None."""
    candidates = [r for r in records if r["config"]["engine"] == engine and r["outcome"] == Outcome.OK]
    return min(candidates, key=lambda record: record["labels"]["engine"] != engine, default=None)


def ratio(record: Record, baseline: Record | None, *, forced: bool = False) -> Ratio | None:
    """The speed-up of a record over the baseline; None unless both are ok, of one sweep and of one machine.

    ``forced`` compares times of different sweeps and machines all the same.
    """
    if baseline is None or record is baseline or not (forced or _comparable(record, baseline)):
        return None
    mine, theirs = record["solve"], baseline["solve"]
    return ratio_of(mine, theirs) if _both_ok(record, baseline) and mine and theirs else None


def ratio_of(mine: Solve, theirs: Solve) -> Ratio | None:
    """How many times faster than ``theirs``; None where ``mine`` is too short for the clock."""
    if not mine["low"] or not mine["median"]:
        return None
    low, high = theirs["low"] / mine["high"], theirs["high"] / mine["low"]
    distinct = not _interval(mine).overlaps(_interval(theirs))
    single = not (mine["confidence"] and theirs["confidence"])
    return Ratio(theirs["median"] / mine["median"], low, high, distinct, single)


def _interval(solve: Solve) -> Interval:
    return Interval(solve["median"], solve["low"], solve["high"], solve["confidence"])


def _both_ok(record: Record, other: Record) -> bool:
    return record["outcome"] == Outcome.OK and other["outcome"] == Outcome.OK


def _comparable(record: Record, other: Record) -> bool:
    return record["sweep"] == other["sweep"] and machine_of(record) == machine_of(other)
