"""The published form of a record: plain JSON, one object a run, with a version of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict, cast

from harness.records.outcome import Outcome

SCHEMA_VERSION = 1


class RecordError(ValueError):
    """Something is not a record of this schema; the message names the field and what was found in it."""


class Record(TypedDict):
    """One run of one cell. Times are in seconds; what the run did not get far enough to know is None or empty."""

    schema: int
    sweep: str  # the id of the sweep, the same when it is resumed
    cell: str  # hash of what was asked for, known before anything runs
    identity: str | None  # hash of what was run: also the trace, the content of graph and inputs
    outcome: str  # a value of Outcome
    reason: str  # one or two sentences when the outcome is not ok
    stage: str  # the last stage entered
    started: str  # UTC, ISO 8601
    seconds: float  # wall-clock of the whole child process
    config: dict[str, Any]  # the cell as it was resolved
    labels: dict[str, str]  # engine, algorithm and graph as a table shows them, with the options that were set
    features: int | None
    seeds: dict[str, int]
    sources: str  # hash of the source files of engine, algorithm, language and lowering
    graph: dict[str, Any]  # name, vertices, edges, content_hash
    program: dict[str, Any]  # fingerprint, bound, max_supersteps
    schedule: dict[str, Any]  # every option of the schedule
    bytes_needed: int | None  # what the engine said it would hold
    phases: dict[str, float]  # open, trace, the engine's own, warm_up, download, validate
    solve: dict[str, Any] | None  # samples, median, low, high, minimum, confidence
    settled: bool | None
    supersteps: list[list[Any]]  # [active sources, edges visited, direction], one a superstep
    validation: dict[str, Any] | None  # ok, error, bound, detail
    metrics: dict[str, float]
    artefacts: list[str]  # files beside the record
    environment: dict[str, Any]
    output: str  # the last lines that the process printed, when it failed


_TYPES: dict[str, tuple[type, ...]] = {
    "schema": (int,),
    "sweep": (str,),
    "cell": (str,),
    "identity": (str, type(None)),
    "outcome": (str,),
    "reason": (str,),
    "stage": (str,),
    "started": (str,),
    "seconds": (float, int),
    "config": (dict,),
    "labels": (dict,),
    "features": (int, type(None)),
    "seeds": (dict,),
    "sources": (str,),
    "graph": (dict,),
    "program": (dict,),
    "schedule": (dict,),
    "bytes_needed": (int, type(None)),
    "phases": (dict,),
    "solve": (dict, type(None)),
    "settled": (bool, type(None)),
    "supersteps": (list,),
    "validation": (dict, type(None)),
    "metrics": (dict,),
    "artefacts": (list,),
    "environment": (dict,),
    "output": (str,),
}
_SOLVE = ("samples", "median", "low", "high", "minimum", "confidence")
_VALIDATION = ("ok", "error", "bound", "detail")


def validate(data: Mapping[str, Any]) -> Record:
    """``data`` as a record; RecordError when it is not one of this version, complete and of the right types."""
    if data.get("schema") != SCHEMA_VERSION:
        raise RecordError(f"field 'schema' is {data.get('schema')!r}; this version reads {SCHEMA_VERSION}")
    _same_names("a record", _TYPES, data)
    for name, types in _TYPES.items():
        if not isinstance(data[name], types):
            raise RecordError(f"field {name!r} holds {data[name]!r}, which is no {types[0].__name__}")
    if data["outcome"] not in {outcome.value for outcome in Outcome}:
        raise RecordError(f"field 'outcome' is {data['outcome']!r}, which is no outcome")
    for name, fields in (("solve", _SOLVE), ("validation", _VALIDATION)):
        if data[name] is not None:
            _same_names(f"field {name!r}", fields, data[name])
    if data["outcome"] == Outcome.OK and not (data["solve"] and data["solve"]["samples"] and data["identity"]):
        raise RecordError("an outcome of 'ok' needs an identity and a solve time, and this record lacks them")
    return cast(Record, dict(data))


def _same_names(where: str, wanted: Mapping[str, Any] | tuple[str, ...], met: Mapping[str, Any]) -> None:
    missing, extra = sorted(set(wanted) - set(met)), sorted(set(met) - set(wanted))
    if missing or extra:
        raise RecordError(f"{where} lacks {missing or 'nothing'} and has the unknown {extra or 'nothing'}")
