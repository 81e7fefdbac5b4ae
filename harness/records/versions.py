"""Records of earlier versions of the schema, brought to the present one when they are read."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from harness.records.mark import Mark
from harness.records.schema import SCHEMA_VERSION, NewerRecord, RecordError
from harness.records.statistics import median_interval

# Version 1 had no marks: this much of other work made its table put a star beside the time.
_BUSY_CORES_OF_1 = 0.2


def upgraded(data: Mapping[str, Any]) -> dict[str, Any]:
    """``data`` in the present version of the schema; RecordError for a version that is unknown or still to come."""
    version = data.get("schema")
    if not isinstance(version, int) or isinstance(version, bool) or version < min(_STEPS, default=SCHEMA_VERSION):
        raise RecordError(f"field 'schema' is {version!r}, which is no version of a record")
    if version > SCHEMA_VERSION:
        raise NewerRecord(
            f"field 'schema' is {version}, and this harness knows versions up to {SCHEMA_VERSION}; install a newer one"
        )
    made = dict(data)
    for step in range(version, SCHEMA_VERSION):
        try:
            made = {**_STEPS[step](made), "schema": step + 1}
        except (KeyError, TypeError, AttributeError) as error:
            raise RecordError(f"this is no record of version {step}: {type(error).__name__}: {error}") from error
    return made


def _from_1(data: dict[str, Any]) -> dict[str, Any]:
    """Version 2 knows rounds, marks, and why the measuring stopped."""
    busy = (data["environment"].get("other_cores") or 0.0) > _BUSY_CORES_OF_1
    solve = data["solve"]
    if solve is not None:
        measure = data["config"].get("measure", {})
        precise = solve["high"] - solve["low"] <= measure.get("width", 0.0) * solve["median"]
        solve = {**solve, "stopped": "precise" if precise else "budget", "rounds": None}
    return {**data, "round": 1, "marks": [Mark.BUSY.value] if busy else [], "solve": solve}


def _from_2(data: dict[str, Any]) -> dict[str, Any]:
    """Version 3 knows infinities, which were null before, and what the answer was held against."""
    metrics = {name: math.nan if value is None else value for name, value in data["metrics"].items()}
    validation = data["validation"]
    if validation is not None:
        error = math.inf if validation["error"] is None else validation["error"]
        validation = {**validation, "error": error, "against": "the float64 reference"}
    return {**data, "metrics": metrics, "validation": validation}


def _from_3(data: dict[str, Any]) -> dict[str, Any]:
    """Version 4 knows graphs that change between two runs."""
    return {**data, "warm": None}


def _from_4(data: dict[str, Any]) -> dict[str, Any]:
    """Version 5 knows memory transactions."""
    return {**data, "memory": None}


def _from_5(data: dict[str, Any]) -> dict[str, Any]:
    """Version 6 knows the most that a GPU's pool held, where it is told."""
    return data


def _from_6(data: dict[str, Any]) -> dict[str, Any]:
    """Version 7 knows the time to equal accuracy, intervals of a confidence that holds, and resolved schedules."""
    warm = data["warm"]
    if warm is not None:
        warm = {**warm, "cold": _with_interval(warm["cold"])}
    solve = data["solve"]
    timed = None if solve is None else _with_interval(solve)
    return {**data, "accuracy": None, "resolution": None, "warm": warm, "solve": timed}


def _with_interval(solve: dict[str, Any]) -> dict[str, Any]:
    """Return timed runs with the interval that the present version gives their samples."""
    found = median_interval(solve["samples"])
    return {**solve, "low": found.low, "high": found.high, "confidence": found.confidence}


_STEPS: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {
    1: _from_1, 2: _from_2, 3: _from_3, 4: _from_4, 5: _from_5, 6: _from_6,
}  # fmt: skip
