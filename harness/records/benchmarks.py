"""The JSON format of pytest-benchmark: export records to it; read samples from it or from records.

``pytest-benchmark compare`` shows sweeps and benchmarks side by side, because both use the same names.
"""

from __future__ import annotations

import json
import statistics
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.records.interleaved_rounds import machine_of, merge_rounds
from harness.records.outcome import Outcome
from harness.records.schema import Record, RecordError
from harness.records.store import read_records

# Format of pytest-benchmark 5; its command reads the statistics and the names.
FORM_VERSION = "5.0.0"


def group_name(algorithm: str, graph: str, features: int | None) -> str:
    """Return the name of a group: the engines on one problem, which are compared with each other."""
    return f"{algorithm}, {graph}, k={features}"


def benchmark_name(engine: str, algorithm: str, graph: str, features: int | None) -> str:
    """Return the name of one engine's run of a problem."""
    return f"solve[{algorithm}-{graph}-k={features}-{engine}]"


def rates(edges: int, features: int, seconds: float) -> dict[str, float]:
    """Return edges/s and nominal GB/s.

    The nominal traffic is a float32 row of k features, an index and a weight per edge. It is a common scale for all
    engines, not the traffic of any of them.
    """
    return {"edges_per_s": edges / seconds, "gb_per_s": edges * (8 + 4 * features) / seconds / 1e9}


def exported(records: Iterable[Record]) -> dict[str, Any]:
    """Export all ok records of one machine, with merged rounds, in the format of pytest-benchmark.

    Raises RecordError if there is no ok record, or if the records are from several machines, whose times must not be
    mixed in one file.
    """
    merged = [record for record in merge_rounds(list(records)) if record["outcome"] == Outcome.OK and record["solve"]]
    if not merged:
        raise RecordError("there is no ok record to export")
    machines = {machine_of(record) for record in merged}
    if len(machines) > 1:
        raise RecordError(
            f"the records are from {len(machines)} machines (or versions of packages); export one at a time"
        )
    names = Counter(_name(record) for record in merged)
    environment: Mapping[str, Any] = merged[0]["environment"]
    commit = environment.get("commit") or "unversioned"  # a wheel has none
    return {
        "machine_info": {
            "node": environment.get("host", ""),
            "system": environment.get("system", ""),
            "python_version": environment.get("python", ""),
            "cpu": {"brand_raw": environment.get("cpu", ""), "count": environment.get("cores", 0)},
            "gpu": environment.get("gpu"),
            "packages": environment.get("packages", {}),
        },
        "commit_info": {"id": commit, "dirty": "+" in commit},
        "benchmarks": [_benchmark(record, alone=names[_name(record)] == 1) for record in merged],
        "datetime": max(record["started"] for record in merged),
        "version": FORM_VERSION,
    }  # fmt: skip


def _name(record: Record) -> str:
    labels = record["labels"]
    return benchmark_name(labels["engine"], labels["algorithm"], labels["graph"], record["features"])


def _benchmark(record: Record, alone: bool) -> dict[str, Any]:
    solve, labels, features = record["solve"], record["labels"], record["features"]
    assert solve is not None
    name = _name(record) if alone else f"{_name(record)}@{record['cell'][-8:]}"
    edges = sum(edges for _, edges, _ in record["supersteps"])
    params = {
        "engine": labels["engine"],
        "algorithm": labels["algorithm"],
        "graph": labels["graph"],
        "features": features,
    }
    return {
        "group": group_name(labels["algorithm"], labels["graph"], features),
        "name": name,
        "fullname": name,
        "params": params,
        "param": "-".join(str(value) for value in params.values()),
        "extra_info": {
            **(rates(edges, features or 1, solve["median"]) if record["supersteps"] else {}),
            "supersteps": len(record["supersteps"]),
            "marks": [str(mark) for mark in record["marks"]],
            "sweep": record["sweep"],
            "rounds": solve["rounds"],
            "contents": record["graph"].get("content_hash"),
        },
        "options": {"disable_gc": False, "timer": "perf_counter", "min_rounds": 1, "warmup": True},
        "stats": _stats(solve["samples"]),
    }


def _stats(samples: Sequence[float]) -> dict[str, Any]:
    """Return the statistics of pytest-benchmark; quartiles are the medians of the lower and the upper half."""
    data = sorted(samples)
    count, middle = len(data), statistics.median(data)
    half = (count + 1) // 2 if count > 1 else 1
    q1, q3 = statistics.median(data[:half]), statistics.median(data[-half:])
    low, high = bisect_left(data, q1 - 1.5 * (q3 - q1)), bisect_right(data, q3 + 1.5 * (q3 - q1))
    mean, deviation = statistics.fmean(data), statistics.stdev(data) if count > 1 else 0.0
    far = sum(abs(sample - mean) > deviation for sample in data)
    return {
        "min": data[0], "max": data[-1], "mean": mean, "stddev": deviation, "rounds": count, "median": middle,
        "q1": q1, "q3": q3, "iqr": q3 - q1, "iqr_outliers": low + count - high, "stddev_outliers": far,
        "outliers": f"{far};{low + count - high}", "ld15iqr": data[low], "hd15iqr": data[high - 1],
        "ops": 1.0 / mean if mean else 0.0, "total": sum(data), "data": list(samples), "iterations": 1,
    }  # fmt: skip


def read_benchmarks(source: Path) -> dict[str, Any]:
    """Read the benchmarks of a file of pytest-benchmark or of a folder of records.

    Raises RecordError if the file is not of pytest-benchmark or was saved without samples.
    """
    if source.is_dir():
        return exported(record for _, record in read_records(source))
    try:
        data: dict[str, Any] = json.loads(source.read_text(encoding="utf-8"))
        _ = data["machine_info"], data["datetime"]
        missing = [one["fullname"] for one in data["benchmarks"] if "data" not in one["stats"]]
    except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError) as error:
        raise RecordError(f"{source} is not a file of pytest-benchmark ({type(error).__name__}: {error})") from error
    if missing:
        raise RecordError(f"{source} has no samples of {missing[0]}; save them with --benchmark-save-data")
    return data
