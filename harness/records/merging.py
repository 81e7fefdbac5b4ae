"""Copy the sweeps of several machines into one folder, with the environments kept apart."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.records.interleaved_rounds import machine_of
from harness.records.schema import Record, RecordError
from harness.records.store import files_below, read_record, replace_folder, restore_folder, write_json, write_record

SWEEP_FILE = "sweep.json"


def merge(sources: Sequence[Path], into: Path) -> list[Path]:
    """Copy every sweep below ``sources`` to ``into``; return the folders written, sorted.

    A sweep becomes one sweep for each machine that ran it, ``SWEEP@HOST-HASH``: reports never compare times of two
    sweeps. Its records keep everything but the name of the sweep. HASH identifies machine and software, so that a host
    with a new driver is another machine. Of two records of one cell the later one is kept; merging again changes
    nothing.

    Raises RecordError for a source without sweeps and for an invalid record.
    """
    written: set[Path] = set()
    for source in sources:
        found = files_below(source, SWEEP_FILE)
        if not found:
            raise RecordError(f"{source} has no sweep; name a folder written by onyx-harness (results, or one sweep)")
        for description in found:
            written |= _merge_sweep(description, into)
    return sorted(written)


def _merge_sweep(description: Path, into: Path) -> set[Path]:
    sweep = json.loads(description.read_text(encoding="utf-8"))
    machines: dict[str, dict[str, Record]] = {}
    for cell in sweep["cells"]:
        path = description.parent / cell["cell"] / "record.json"
        if path.is_file():
            record = read_record(path)
            machines.setdefault(_name(sweep["sweep"], record), {})[cell["cell"]] = record
    for name, records in machines.items():
        for cell, record in records.items():
            _copy(description.parent / cell, into / name / cell, {**record, "sweep": name})
        _describe(into / name / SWEEP_FILE, {**sweep, "sweep": name}, set(records))
    return {into / name for name in machines}


def _name(sweep: str, record: Record) -> str:
    """Return the name of the part of a sweep that one machine ran."""
    host = re.sub(r"[^A-Za-z0-9_-]", "", str(record["environment"].get("host") or ""))[:20] or "unknown"
    machine = hashlib.blake2b(machine_of(record).encode(), digest_size=3).hexdigest()
    own = sweep.partition("@")[0]  # of a sweep that was merged before
    return f"{own}@{host}-{machine}"


def _copy(source: Path, place: Path, record: Mapping[str, Any]) -> None:
    """Copy the folder of a cell with its artefacts, unless ``place`` has a record that is as new.

    Until it is complete, the copy is in a folder that readers of records pass over. Raises OSError.
    """
    known, made, aside = (place / "record.json", *(place.with_name(f".{place.name}.{end}") for end in ("new", "old")))
    restore_folder(place, aside)  # of a merge that was killed
    for left in (made, aside):
        shutil.rmtree(left, ignore_errors=True)
    if known.is_file() and read_record(known)["started"] >= record["started"]:
        return
    try:
        shutil.copytree(source, made)
        write_record(made, record)
        replace_folder(made, place, aside)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _describe(path: Path, description: Mapping[str, Any], cells: set[str]) -> None:
    """Write the description of a merged sweep: the cells that it had, and those added now."""
    known = json.loads(path.read_text(encoding="utf-8"))["cells"] if path.is_file() else []
    names = {cell["cell"] for cell in known}
    added = [cell for cell in description["cells"] if cell["cell"] in cells - names]
    write_json(path, {**description, "cells": [*known, *added]})


__all__ = ["merge"]
