"""Upgrade records of earlier versions of the schema when they are read."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from harness.records.schema import SCHEMA_VERSION, NewerRecord, RecordError
from harness.records.statistics import median_interval
from harness.records.timing_caveat import Mark

# Version 1 had no marks; its table put a star beside a time above this number of cores used by other work.
_BUSY_CORES_OF_1 = 0.2
# Fields that were added before the first release without a version of their own; earlier records lack them.
_LATE: dict[str, Any] = {
    "floor": None,
    "host_bytes": None,
    "metrics_by_superstep": {},
    "lost_updates": None,
    "transfers": None,
    "link": None,
    "choices": [],
    "digest": None,
}
_LATE_TRANSFERS: dict[str, Any] = {"seconds": {}, "data": {}}


def upgraded(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``data`` in the current version of the schema. Raises RecordError for an unknown version, NewerRecord."""
    version = data.get("schema")
    if not isinstance(version, int) or isinstance(version, bool) or version < min(_STEPS, default=SCHEMA_VERSION):
        raise RecordError(f"field 'schema' is {version!r}, which is not a version of a record")
    if version > SCHEMA_VERSION:
        raise NewerRecord(
            f"field 'schema' is {version}, and this harness knows versions up to {SCHEMA_VERSION}; install a newer one"
        )
    made = dict(data)
    for step in range(version, SCHEMA_VERSION):
        try:
            made = {**_STEPS[step](made), "schema": step + 1}
        except (KeyError, TypeError, AttributeError) as error:
            raise RecordError(f"this is not a record of version {step}: {type(error).__name__}: {error}") from error
    made = {**_LATE, **made}
    if made["transfers"] is not None:
        made["transfers"] = {**_LATE_TRANSFERS, **made["transfers"]}
    return made


def _from_1(data: dict[str, Any]) -> dict[str, Any]:
    """Upgrade to version 2, which adds rounds, marks and the reason why the measurement stopped."""
    busy = (data["environment"].get("other_cores") or 0.0) > _BUSY_CORES_OF_1
    solve = data["solve"]
    if solve is not None:
        measure = data["config"].get("measure", {})
        precise = solve["high"] - solve["low"] <= measure.get("width", 0.0) * solve["median"]
        solve = {**solve, "stopped": "precise" if precise else "budget", "rounds": None}
    return {**data, "round": 1, "marks": [Mark.BUSY.value] if busy else [], "solve": solve}


def _from_2(data: dict[str, Any]) -> dict[str, Any]:
    """Upgrade to version 3, which stores infinities (null before) and the method of validation."""
    metrics = {name: math.nan if value is None else value for name, value in data["metrics"].items()}
    validation = data["validation"]
    if validation is not None:
        error = math.inf if validation["error"] is None else validation["error"]
        validation = {**validation, "error": error, "against": "the float64 reference"}
    return {**data, "metrics": metrics, "validation": validation}


def _from_3(data: dict[str, Any]) -> dict[str, Any]:
    """Upgrade to version 4, which adds graphs that change between two runs."""
    return {**data, "warm": None}


def _from_4(data: dict[str, Any]) -> dict[str, Any]:
    """Upgrade to version 5, which adds memory transactions."""
    return {**data, "memory": None}


def _from_5(data: dict[str, Any]) -> dict[str, Any]:
    """Upgrade to version 6, which adds the optional peak size of a GPU's memory pool."""
    return data


def _from_6(data: dict[str, Any]) -> dict[str, Any]:
    """Upgrade to version 7, which adds time to equal accuracy, exact confidences and resolved schedules."""
    warm = data["warm"]
    if warm is not None:
        examined = {"edges_examined" if name == "arcs_examined" else name: value for name, value in warm.items()}
        warm = {**examined, "cold": _with_interval(warm["cold"])}
    solve = data["solve"]
    timed = None if solve is None else _with_interval(solve)
    return {**data, "accuracy": None, "resolution": None, "warm": warm, "solve": timed}


def _from_7(data: dict[str, Any]) -> dict[str, Any]:
    """Upgrade to version 8, which renames ``warm.told`` to ``warm.start`` and ``memory.told`` to ``memory.reason``."""
    return {**data, "warm": _renamed(data["warm"], "start"), "memory": _renamed(data["memory"], "reason")}


def _renamed(part: dict[str, Any] | None, field: str) -> dict[str, Any] | None:
    """Return a part of a record with ``told`` renamed to ``field``; None if the record has no such part."""
    return None if part is None else {field if name == "told" else name: value for name, value in part.items()}


def _with_interval(solve: dict[str, Any]) -> dict[str, Any]:
    """Return timed runs with the interval that the current version computes from their samples."""
    found = median_interval(solve["samples"])
    return {**solve, "low": found.low, "high": found.high, "confidence": found.confidence}


_STEPS: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {
    1: _from_1, 2: _from_2, 3: _from_3, 4: _from_4, 5: _from_5, 6: _from_6, 7: _from_7,
}  # fmt: skip
