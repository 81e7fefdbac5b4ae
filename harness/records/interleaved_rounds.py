"""Merge the interleaved rounds of a sweep into one record per cell."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from typing import Any, cast

from harness.records.outcome import Outcome
from harness.records.schema import Accuracy, Record, Solve
from harness.records.statistics import rounds_interval
from harness.records.timing_caveat import Mark

# Fields that must be equal before two times are compared or merged; load and commit may differ.
_MACHINE = ("host", "system", "cpu", "cores", "python", "packages")


def machine_of(record: Record) -> str:
    """Return a text that is equal for records of one machine with the same software."""
    environment = cast("dict[str, Any]", record["environment"])
    gpu = environment.get("gpu") or {}
    return json.dumps(
        [*(environment.get(name) for name in _MACHINE), gpu.get("name"), gpu.get("driver")], sort_keys=True
    )


def merge_rounds(records: Sequence[Record]) -> list[Record]:
    """Return one record per cell and machine, in the place of its first round.

    Its samples are those of all rounds. A cell that failed in any round has failed: the record of that round represents
    it. Records of the cell from before its code or its graph changed are :func:`superseded` and omitted.
    """
    return [_merged(sorted(_current(rounds), key=lambda record: record["round"])) for rounds in _cells(records)]


def superseded(records: Sequence[Record]) -> list[Record]:
    """Return records replaced by a newer one of the same cell: of other code, other graph content or the same round."""
    current = {id(record) for rounds in _cells(records) for record in _current(rounds)}
    return [record for record in records if id(record) not in current]


def _cells(records: Sequence[Record]) -> list[list[Record]]:
    cells: dict[str, list[Record]] = {}
    for record in records:
        config = {name: value for name, value in record["config"].items() if name != "round"}
        cell = [record["sweep"], config, record["labels"], machine_of(record)]
        cells.setdefault(json.dumps(cell, sort_keys=True), []).append(record)
    return list(cells.values())


def _current(rounds: Sequence[Record]) -> list[Record]:
    """Return the newest record of every round, among those with the code and the graph of the newest record.

    A run that failed before it opened its graph is compatible with any graph.
    """
    newest = max(rounds, key=lambda record: record["started"])
    graph = contents_of(newest)
    alike = [
        one
        for one in rounds
        if one["sources"] == newest["sources"] and (graph is None or contents_of(one) in (graph, None))
    ]
    return list({one["round"]: one for one in sorted(alike, key=lambda record: record["started"])}.values())


def contents_of(record: Record) -> str | None:
    """Return the content hash of a record's graph; None if the run failed before opening it."""
    return record["graph"].get("content_hash") if record["graph"] else None


def _merged(rounds: Sequence[Record]) -> Record:
    first = rounds[0]
    if len(rounds) == 1:
        return first
    failures = [record for record in rounds if record["outcome"] != Outcome.OK]
    if failures:
        failed, alike = failures[0], len({(one["outcome"], one["reason"]) for one in failures}) == 1
        again = f"in round {failed['round']} of {len(rounds)}: {failed['reason']}"
        return failed if alike and len(failures) == len(rounds) else cast("Record", {**failed, "reason": again})
    phases = {name: statistics.median(r["phases"].get(name, 0.0) for r in rounds) for name in first["phases"]}
    solve = _solve([r["solve"] for r in rounds if r["solve"] is not None])
    together: dict[str, Any] = {
        "solve": solve,
        "phases": phases,
        "marks": _marks(rounds, solve),
        "seconds": sum(r["seconds"] for r in rounds),
    }
    together["accuracy"] = _accuracy(rounds)
    if first["warm"] is not None:
        colds = [record["warm"]["cold"] for record in rounds if record["warm"] is not None]
        together["warm"] = {**first["warm"], "cold": _solve(colds)}
    return cast("Record", {**first, **together})


def _marks(rounds: Sequence[Record], solve: Solve) -> list[Mark]:
    """Return the marks of all rounds; whether the time is noisy depends on the interval of all rounds."""
    marks = {mark for record in rounds for mark in record["marks"]} - {Mark.NOISY}
    if solve["high"] - solve["low"] > rounds[0]["config"]["measure"]["width"] * solve["median"]:
        marks.add(Mark.NOISY)
    return [mark for mark in Mark if mark in marks]


def _accuracy(rounds: Sequence[Record]) -> Accuracy | None:
    """Return the time to equal accuracy of all rounds; if an engine's runs differ, with the latest superstep."""
    found = [record["accuracy"] for record in rounds]
    known = [one for one in found if one is not None]
    if not known or len(known) < len(found):
        return None
    solves = [one["solve"] for one in known if one["solve"] is not None]
    last = max(known, key=lambda one: one["superstep"] or 0)
    if len(solves) < len(known):
        return next(one for one in known if one["solve"] is None)
    return cast("Accuracy", {**last, "solve": _solve(solves)})


def _solve(solves: Sequence[Solve]) -> Solve:
    by_round = [solve["samples"] for solve in solves]
    interval = rounds_interval(by_round)
    return Solve(
        samples=[sample for samples in by_round for sample in samples],
        median=interval.median,
        low=interval.low,
        high=interval.high,
        minimum=min(solve["minimum"] for solve in solves),
        confidence=interval.confidence,
        stopped=next((solve["stopped"] for solve in solves if solve["stopped"] != "precise"), "precise"),
        rounds=by_round,
    )
