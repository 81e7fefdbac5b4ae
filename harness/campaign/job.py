"""One Hydra job: run a cell in its own process and always leave a record."""

from __future__ import annotations

import datetime as dt
import json
import os
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.cache import CacheError
from harness.campaign.cell import Cell
from harness.campaign.child_report import REPORT_FILE, STORE_STATUS, WAIT_STAGE, waited_s
from harness.campaign.environment import environment, memory_total
from harness.campaign.errors import CampaignError
from harness.campaign.floors import floor_fields
from harness.campaign.least_work import WORK
from harness.campaign.lock import file_lock
from harness.campaign.process import Ending, run_process
from harness.campaign.solve_window import FIELD as SOLVE_WINDOW
from harness.campaign.solve_window import system_offset, wrong_clock
from harness.campaign.work_folder import OUTPUT_FILE, WorkFolder
from harness.device.spinning import SPIN_COUNT, SPIN_VARIABLE
from harness.records import RECORD_FILE, SCHEMA_VERSION, RecordError, write_record
from harness.records.outcome import Outcome
from harness.records.store import replace_folder, restore_folder
from harness.records.text import TEXT_LIMIT

WORK_FOLDER = ".running"  # of a sweep: running cells, locks, journals
_GB = 1_000_000_000
_MEMORY_SHARE = 0.8
_ROOM_BYTES = 1_000_000  # a disk with less free space counts as full
_TAIL_LINES, _TAIL_BYTES = 60, 4 * TEXT_LIMIT  # a character has at most 4 bytes
# fields of a report that are not fields of a record
_BETWEEN_US = (SOLVE_WINDOW, WORK, "others", "gpu", "gpu_peak_bytes", "wait_began", "waited", "behind")
_NONE = "none"  # the stamp of a missing record
_EMPTY: dict[str, Any] = {
    "identity": None, "features": None, "graph": {}, "program": {}, "bytes_needed": None, "host_bytes": None,
    "phases": {}, "solve": None, "marks": [], "settled": None, "supersteps": [], "validation": None, "warm": None,
    "memory": None, "accuracy": None, "floor": None, "resolution": None, "metrics": {}, "metrics_by_superstep": {},
    "lost_updates": None, "transfers": None, "link": None, "choices": [], "stage": "start", "reason": "",
}  # fmt: skip


@dataclass(frozen=True)
class Assignment:
    """A cell with its sweep and the folder for its results.

    ``known`` is the `stamp` of the record that existed when the sweep was planned.
    """

    cell: Cell
    sweep: str
    key: str
    folder: Path
    known: str


def work_folder(folder: Path) -> Path:
    """Return the folder in which a cell runs whose record belongs in ``folder``."""
    return folder.parent / WORK_FOLDER / folder.name


def stamp(folder: Path) -> str:
    """Return a text that changes whenever the record in a folder does."""
    try:
        status = (folder / RECORD_FILE).stat()
    except (FileNotFoundError, NotADirectoryError):
        return _NONE
    return f"{status.st_ino}-{status.st_mtime_ns}"


def run_cell(assignment: Assignment) -> Path:
    """Run a cell and put its record in place atomically; return the path of the record.

    If another process has written the record meanwhile, that one is kept. A KeyboardInterrupt is passed on after it has
    been recorded. Raises CampaignError if the record or the cache cannot be written.
    """
    folder = assignment.folder
    work = work_folder(folder)
    try:
        with file_lock(work.with_suffix(".lock"), keep=False):
            known = stamp(folder)
            if restore_folder(folder, work / "aside"):
                known = assignment.known
            if known not in (assignment.known, _NONE):
                return folder / RECORD_FILE
            place = WorkFolder(work)
            try:
                _attempt(assignment, place)
            finally:
                place.close()
    except CacheError as error:
        raise CampaignError(f"{error}; existing records are kept") from error
    except OSError as error:
        raise unwritable(folder.parent.parent, error) from error
    return folder / RECORD_FILE


def _attempt(assignment: Assignment, work: WorkFolder) -> None:
    """Run the cell and put its record, its output and its artefacts in place."""
    started = dt.datetime.now(dt.UTC)
    began = time.monotonic()
    offset = system_offset()
    try:
        ending = _run_child(assignment, work)
    except KeyboardInterrupt:
        fields = work.reported()[0] | {"outcome": Outcome.INTERRUPTED, "reason": "interrupted from outside"}
        _keep(assignment, work, fields, started, Ending(0, None, time.monotonic() - began, 0))
        raise
    fields, damaged = work.reported()
    if "cache_error" in fields:
        raise CacheError(fields["cache_error"])
    # An engine may also exit with that status while its results can be stored.
    full = ending.status == STORE_STATUS and (
        work.without_request() or shutil.disk_usage(assignment.folder.parent).free < _ROOM_BYTES
    )
    if full or "store_error" in fields:
        raise OSError(fields.get("store_error", "the results of the cell could not be stored"))
    fields = _concluded(fields, ending, assignment, damaged=damaged)
    clock = wrong_clock(fields, work.path, offset) if fields["outcome"] == Outcome.OK else ""
    if clock:
        fields |= {"outcome": Outcome.IMPLAUSIBLE, "reason": clock}
    try:
        fields |= floor_fields(assignment.cell, fields, _child_environment(assignment.cell))
    except RecordError as error:
        fields = _damaged(fields, f"wrote an invalid record: {error}")
    finally:  # the cell has run, even if this is interrupted
        _keep(assignment, work, fields, started, ending)


def _keep(
    assignment: Assignment, work: WorkFolder, fields: dict[str, Any], started: dt.datetime, ending: Ending
) -> None:
    """Write the record and put it in place with the artefacts; a damaged work folder is the cell's outcome."""
    made, damage = work.collect()
    if damage:
        fields = _damaged(fields, "; ".join(damage))
    try:
        _write(assignment, work, made, fields, started, ending)
    except (RecordError, TypeError) as error:
        damaged = _damaged({"stage": str(fields.get("stage", "start"))}, f"wrote an invalid record: {error}")
        _write(assignment, work, made, damaged, started, ending)
    replace_folder(made, assignment.folder, work.aside)


def _damaged(fields: dict[str, Any], damage: str) -> dict[str, Any]:
    """Return the fields of a cell that damaged its work folder, which is its outcome unless its process was ended."""
    reason = f"the engine, or another plugin, {damage}"
    outcome = fields.get("outcome")
    if outcome in (Outcome.CRASHED, Outcome.TIMEOUT, Outcome.OUT_OF_MEMORY, Outcome.INTERRUPTED):
        return fields | {"reason": f"{fields.get('reason', '')}; {reason}"}
    return fields | {"outcome": Outcome.ENGINE_ERROR, "reason": reason}


def unwritable(output: Path, error: OSError) -> CampaignError:
    """Return the error for an output folder that cannot be written."""
    met = f"output folder {output} cannot be written ({error.strerror or error})"
    return CampaignError(f"{met}; free some space or choose another with output=FOLDER; existing records are kept")


def _run_child(assignment: Assignment, work: WorkFolder) -> Ending:
    cell = assignment.cell
    request = {
        "cell": cell.plain(),
        "folder": str(work.made.absolute()),
        "memory_bytes": memory_bytes(cell),
    }
    # Not the strict JSON of records: a parameter may be infinite.
    work.request.write_text(json.dumps(request), encoding="utf-8")
    return run_process(
        "harness.campaign.child",
        [str(work.request.absolute()), str(work.report.absolute())],
        output=work.output,
        environment=_child_environment(cell),
        time_s=cell.limits.time_s,
        memory_bytes=memory_bytes(cell),
        forgiven_s=lambda: min(waited_s(work.reported()[0]), cell.limits.wait_s),
    )


def _child_environment(cell: Cell) -> dict[str, str]:
    """Return the variables of a cell's process: libraries size their pools when they are loaded."""
    return {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",  # the order in which the driver lists them, too
        SPIN_VARIABLE: os.environ.get(SPIN_VARIABLE, SPIN_COUNT),
        **{f"{pool}_NUM_THREADS": str(cell.device.threads) for pool in ("OMP", "OPENBLAS", "MKL", "NUMBA")},
    }


def memory_bytes(cell: Cell) -> int:
    """Return the cell's limit of resident memory in bytes: the given one, or four fifths of the machine's memory."""
    if cell.limits.memory_gb is not None:
        return int(cell.limits.memory_gb * _GB)
    return int(memory_total() * _MEMORY_SHARE)


def _concluded(fields: dict[str, Any], ending: Ending, assignment: Assignment, *, damaged: bool) -> dict[str, Any]:
    """Return the report's fields with the outcome.

    An outcome written by the child stands, however its process ended.
    """
    limits, stage = assignment.cell.limits, fields.get("stage", "start")
    if damaged:
        return _damaged(fields, f"damaged {REPORT_FILE}, in which the cell reports its results")
    if "outcome" in fields:
        return fields
    if ending.limit is Outcome.TIMEOUT and stage == WAIT_STAGE:
        reason = f"waited {waited_s(fields):.0f} s for the {assignment.cell.device.kind}, held by {fields['behind']}"
        return fields | {"outcome": Outcome.TIMEOUT, "reason": f"{reason}; end that, or raise limits.wait_s"}
    if ending.limit is Outcome.TIMEOUT:
        reason = f"not finished after {limits.time_s:g} s, in stage {stage!r}; raise limits.time_s"
        return fields | {"outcome": Outcome.TIMEOUT, "reason": reason}
    if ending.limit is Outcome.OUT_OF_MEMORY:
        met = f"{ending.peak_bytes / _GB:.3g} GB resident in stage {stage!r}"
        reason = f"{met}, and the limit is {memory_bytes(assignment.cell) / _GB:.3g} GB; raise limits.memory_gb"
        return fields | {"outcome": Outcome.OUT_OF_MEMORY, "reason": reason}
    how = f"by {ending.signal_name}" if ending.signal_name else f"with exit status {ending.status}"
    if ending.signal_name == "SIGKILL":
        how += ", as by the system when memory runs out,"
    return fields | {"outcome": Outcome.CRASHED, "reason": f"the process died {how} in stage {stage!r}"}


def _write(
    assignment: Assignment,
    work: WorkFolder,
    made: Path,
    fields: Mapping[str, Any],
    started: dt.datetime,
    ending: Ending,
) -> None:
    cell = assignment.cell
    reported = {name: value for name, value in fields.items() if name not in _BETWEEN_US}
    plain = cell.plain()
    config = {name: value for name, value in plain.items() if name not in ("labels", "sources", "graph_sources")}
    seeds = {
        f"{owner}.seed": values["seed"]
        for owner, values in (("algorithm", cell.parameters), ("graph", cell.graph_parameters))
        if isinstance(values.get("seed"), int)
    }
    failed = fields["outcome"] != Outcome.OK
    record = (
        _EMPTY
        | reported
        | {
            "schema": SCHEMA_VERSION,
            "sweep": assignment.sweep,
            "cell": assignment.key,
            "started": started.isoformat(timespec="seconds"),
            "seconds": ending.seconds,
            "config": config,
            "labels": cell.labels,
            "round": cell.round,
            "schedule": fields.get("schedule", cell.schedule),
            "sources": cell.sources,
            "seeds": seeds,
            "artefacts": sorted(path.name for path in made.iterdir() if path.name != OUTPUT_FILE),
            "environment": {
                **environment(),
                "threads": cell.device.threads,
                "other_cores": fields.get("others"),
                "peak_bytes": ending.peak_bytes,
                "gpu_peak_bytes": fields.get("gpu_peak_bytes"),
                "gpu": fields.get("gpu"),
            },
            "output": _tail(work) if failed else "",
        }
    )
    write_record(made, record)


def _tail(work: WorkFolder) -> str:
    lines = work.printed(_TAIL_BYTES).splitlines()[-_TAIL_LINES:]
    return "\n".join(lines)[-TEXT_LIMIT:]
