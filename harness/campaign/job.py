"""One Hydra job: a cell is run in a process of its own, and whatever happens to it, a record is left."""

from __future__ import annotations

import datetime as dt
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from harness.campaign.cell import Cell
from harness.campaign.draft import read_draft
from harness.campaign.environment import environment
from harness.campaign.process import Ending, run_process
from harness.records import SCHEMA_VERSION, write_record
from harness.records.outcome import Outcome
from harness.records.statistics import BOOTSTRAP_SEED

_GB = 1_000_000_000
_MEMORY_SHARE = 0.8
_TAIL_LINES = 60
# How long GNU OpenMP's threads spin at a barrier before they sleep. Label propagation on the digits (k = 10, two
# threads, 181 supersteps) in ms, on two quiet cores / with one of them taken by something else: 35 / 15 with 100,
# 15 / 24 with 1,000, 11 / 45 with 3,000, 11 / 114 with 10,000, 11 / 1,900 to 3,200 by default. So: full speed on a
# quiet machine, and on a busy one not lost altogether.
_SPIN_COUNT = "3000"
_EMPTY: dict[str, Any] = {
    "identity": None, "features": None, "graph": {}, "program": {}, "bytes_needed": None, "phases": {}, "solve": None,
    "round": 1, "marks": [], "settled": None, "supersteps": [], "validation": None, "metrics": {}, "stage": "start",
    "reason": "",
}  # fmt: skip


@dataclass(frozen=True)
class Assignment:
    """A cell with its place: the sweep it belongs to and the folder that keeps what it leaves behind."""

    cell: Cell
    sweep: str
    key: str
    folder: Path


def run_cell(assignment: Assignment) -> Path:
    """Run a cell and write its record; the path of the record.

    A KeyboardInterrupt is passed on once the record says so.
    """
    folder = assignment.folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    started = dt.datetime.now(dt.UTC)
    with tempfile.TemporaryDirectory(prefix="onyx-harness-cell-") as scratch:
        draft_file = Path(scratch) / "draft.jsonl"
        try:
            ending = _run_child(assignment, Path(scratch), draft_file)
        except KeyboardInterrupt:
            seconds = (dt.datetime.now(dt.UTC) - started).total_seconds()
            fields = read_draft(draft_file) | {"outcome": Outcome.INTERRUPTED, "reason": "interrupted from outside"}
            _write(assignment, fields, started, seconds, 0)
            raise
        fields = _concluded(read_draft(draft_file), ending, assignment)
        return _write(assignment, fields, started, ending.seconds, ending.peak_bytes)


def _run_child(assignment: Assignment, scratch: Path, draft_file: Path) -> Ending:
    cell = assignment.cell
    request = {
        "cell": cell.plain(),
        "folder": str(assignment.folder.absolute()),
        "memory_bytes": memory_bytes(cell),
        "parent": os.getpid(),
    }
    # Not the strict JSON of records: a parameter may be infinite.
    (scratch / "request.json").write_text(json.dumps(request), encoding="utf-8")
    threads = str(cell.device.threads)
    return run_process(
        "harness.campaign.child",
        [str(scratch / "request.json"), str(draft_file)],
        output=assignment.folder / "output.txt",
        # Libraries size their pools when they are loaded, so this has to be said before the process begins.
        environment={
            "GOMP_SPINCOUNT": os.environ.get("GOMP_SPINCOUNT", _SPIN_COUNT),
            **{f"{pool}_NUM_THREADS": threads for pool in ("OMP", "OPENBLAS", "MKL", "NUMBA")},
        },
        time_s=cell.limits.time_s,
        memory_bytes=memory_bytes(cell),
    )


def memory_bytes(cell: Cell) -> int:
    """The most resident memory the cell may take: its limit, or four fifths of the machine's."""
    if cell.limits.memory_gb is not None:
        return int(cell.limits.memory_gb * _GB)
    return int(psutil.virtual_memory().total * _MEMORY_SHARE)


def _concluded(fields: dict[str, Any], ending: Ending, assignment: Assignment) -> dict[str, Any]:
    """The draft with the outcome that the child could not tell, where it was ended or died."""
    limits, stage = assignment.cell.limits, fields.get("stage", "start")
    if ending.limit is Outcome.TIMEOUT:
        reason = f"not finished after {limits.time_s:g} s, in stage {stage!r}; raise limits.time_s to give it longer"
        return fields | {"outcome": Outcome.TIMEOUT, "reason": reason}
    if ending.limit is Outcome.OUT_OF_MEMORY:
        met = f"{ending.peak_bytes / _GB:.2f} GB resident in stage {stage!r}"
        reason = f"{met}, and the limit is {memory_bytes(assignment.cell) / _GB:.2f} GB; raise limits.memory_gb"
        return fields | {"outcome": Outcome.OUT_OF_MEMORY, "reason": reason}
    if ending.status != 0 or "outcome" not in fields:
        how = f"by {ending.signal_name}" if ending.signal_name else f"with exit status {ending.status}"
        return fields | {"outcome": Outcome.CRASHED, "reason": f"the process died {how} in stage {stage!r}"}
    return fields


def _write(
    assignment: Assignment, fields: Mapping[str, Any], started: dt.datetime, seconds: float, peak_bytes: int
) -> Path:
    cell = assignment.cell
    told = {name: value for name, value in fields.items() if name != "others"}
    plain = cell.plain()
    config = {name: value for name, value in plain.items() if name not in ("labels", "sources", "graph_sources")}
    seeds = {
        f"{owner}.seed": values["seed"]
        for owner, values in (("algorithm", cell.parameters), ("graph", cell.graph_parameters))
        if isinstance(values.get("seed"), int)
    }
    failed = fields["outcome"] != Outcome.OK
    output = assignment.folder / "output.txt"
    record = (
        _EMPTY
        | told
        | {
            "schema": SCHEMA_VERSION,
            "sweep": assignment.sweep,
            "cell": assignment.key,
            "started": started.isoformat(timespec="seconds"),
            "seconds": seconds,
            "config": config,
            "labels": cell.labels,
            "schedule": cell.schedule,
            "sources": cell.sources,
            "seeds": {"bootstrap": BOOTSTRAP_SEED, **seeds},
            "artefacts": sorted(path.name for path in assignment.folder.iterdir() if path.name != output.name),
            "environment": {
                **environment(),
                "threads": cell.device.threads,
                "other_cores": fields.get("others"),
                "peak_bytes": peak_bytes,
            },
            "output": _tail(output) if failed else "",
        }
    )
    return write_record(assignment.folder, record)


def _tail(path: Path) -> str:
    if not path.exists():
        return ""
    return "\n".join(path.read_text(encoding="utf-8", errors="replace").splitlines()[-_TAIL_LINES:])
