"""Records as a sweep leaves them, for tests that read records."""

from __future__ import annotations

from typing import Any

from harness.records import SCHEMA_VERSION, Record, validate
from harness.records.statistics import median_interval


def solved(samples: list[float]) -> dict[str, Any]:
    """Return the ``solve`` field of a record with these samples."""
    found = median_interval(samples)
    return {
        "samples": samples,
        "median": found.median,
        "low": found.low,
        "high": found.high,
        "minimum": min(samples),
        "confidence": found.confidence,
        "stopped": "precise",
        "rounds": None,
    }


def record(engine: str = "fast", times: tuple[float, float, float] | None = (1.0, 0.9, 1.1), **changes: Any) -> Record:
    """Return a record of one cell with seven samples; ``times``: their median, least and greatest in seconds.

    Any field can be given.
    """
    solve = None
    if times is not None:
        median, low, high = times
        solve = solved([low, low, low, median, high, high, high])
    fields: dict[str, Any] = {
        "schema": SCHEMA_VERSION,
        "sweep": "0123456789ab",
        "cell": "c" * 24,
        "identity": "i" * 32,
        "round": 1,
        "outcome": "ok" if times is not None else "crashed",
        "reason": "",
        "stage": "rate",
        "started": "2026-01-01T00:00:00+00:00",
        "seconds": 1.5,
        "config": {
            "engine": engine,
            "features": None,
            "max_supersteps": None,
            "device": {"kind": "cpu"},
            "measure": {"width": 0.05},
        },
        "labels": {"engine": engine, "algorithm": "flood", "graph": "ring"},
        "features": 8,
        "seeds": {"bootstrap": 1},
        "sources": "s" * 32,
        "graph": {"name": "ring", "vertices": 1000, "edges": 20_000, "content_hash": "h"},
        "program": {"fingerprint": "f", "bound": 1e-4, "max_supersteps": 10},
        "schedule": {},
        "bytes_needed": 0,
        "host_bytes": 0,
        "phases": {"open": 0.1},
        "solve": solve,
        "settled": True,
        "supersteps": [[1000, 20_000, "push"], [10, 100, "pull"]],
        "validation": {"ok": True, "error": 1.25e-7, "bound": 1e-4, "detail": "", "against": "a plain loop"},
        "accuracy": None,
        "resolution": None,
        "warm": None,
        "memory": None,
        "floor": None,
        "metrics": {"accuracy": 0.975},
        "metrics_by_superstep": {},
        "lost_updates": None,
        "transfers": None,
        "link": None,
        "choices": [],
        "marks": [],
        "artefacts": [],
        "environment": {"cpu": "a processor", "cores": 2},
        "output": "",
        "digest": None,
    }
    return validate({**fields, **changes})


def accurate_record(
    engine: str, times: tuple[float, float, float], superstep: int, to_accuracy: list[float], **changes: Any
) -> Record:
    """Return a record with a time to equal accuracy, of ``superstep`` supersteps and these samples in seconds."""
    accuracy = {
        "superstep": superstep, "tolerance": None, "error": 9e-5, "error_before": 2e-4, "bound": 1e-4,
        "against": "a plain loop", "solve": solved(to_accuracy),
    }  # fmt: skip
    return record(engine, times, accuracy=accuracy, **changes)


def warm_record(engine: str = "fast", **changes: Any) -> Record:
    """Return a record of a warm run of half a second beside a cold one of four."""
    cold = record("cold", (4.0, 3.8, 4.2))
    warm = {
        "change": 0.01, "kind": "delete", "seed": 0, "start": "warm, 7 vertices reset", "restarted": False,
        "vertices_reset": 7, "edges_examined": 31, "cold": cold["solve"],
        "cold_supersteps": [[1000, 20_000, "push"], [700, 9_000, "push"], [10, 100, "pull"]],
        "cold_validation": cold["validation"],
    }  # fmt: skip
    steps = [[9, 120, "push"], [3, 30, "push"]]
    return record(engine, (0.5, 0.45, 0.55), warm=warm, supersteps=steps, **changes)
