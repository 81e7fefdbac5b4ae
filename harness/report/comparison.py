"""Which records may be compared, and what comes of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from harness.records import Record
from harness.records.outcome import Outcome

Group = tuple[str, str, str, str]

# What has to be alike before two times are set against each other; the load and the commit may differ.
_MACHINE = ("system", "cpu", "cores", "memory", "python", "packages")


@dataclass(frozen=True)
class Ratio:
    """How many times faster than the baseline, between ``low`` and ``high``; ``distinct`` when the intervals of the
    two times do not overlap."""

    value: float
    low: float
    high: float
    distinct: bool


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


def ratio(record: Record, baseline: Record | None) -> Ratio | None:
    """The speed-up of a record over the baseline; None unless both are ok, of one sweep and of one machine."""
    if baseline is None or record is baseline or not _comparable(record, baseline):
        return None
    mine, theirs = record["solve"], baseline["solve"]
    if mine is None or theirs is None or not mine["low"] or not mine["median"]:
        return None
    distinct = mine["high"] < theirs["low"] or theirs["high"] < mine["low"]
    low, high = theirs["low"] / mine["high"], theirs["high"] / mine["low"]
    return Ratio(theirs["median"] / mine["median"], low, high, distinct)


def _comparable(record: Record, other: Record) -> bool:
    if record["outcome"] != Outcome.OK or other["outcome"] != Outcome.OK or record["sweep"] != other["sweep"]:
        return False
    machines = [[one["environment"].get(name) for name in _MACHINE] for one in (record, other)]
    return json.dumps(machines[0], sort_keys=True) == json.dumps(machines[1], sort_keys=True)
