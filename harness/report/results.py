"""Read the records in a folder of results, in the order of their sweeps' cells."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.records import Record, read_records
from harness.records.store import files_below
from harness.report.layout import Layout

SWEEP_FILE = "sweep.json"


class NothingFound(ValueError):
    """A folder contains no record; the message names it."""


@dataclass(frozen=True)
class Results:
    """The records of one or several sweeps, and the number of cells that the sweeps requested.

    ``baseline`` and ``layout`` are those of the sweeps; None if there are none or different ones.
    """

    records: tuple[Record, ...]
    cells: int
    baseline: str | None
    layout: Layout | None


def read_results(folder: Path) -> Results:
    """Read the records below ``folder``, the folder of one sweep or of several.

    Raises NothingFound if there is no record, RecordError if one cannot be read.
    """
    found = [(path, record) for path, record in read_records(folder)]
    if not found:
        raise NothingFound(f"{folder} has no records; name a folder written by onyx-harness (results, or one sweep)")
    sweeps = {path.parent: _sweep(path) for path in files_below(folder, SWEEP_FILE)}
    order = {
        place / str(cell["cell"]): number
        for number, (place, cell) in enumerate(
            (place, cell) for place, sweep in sweeps.items() for cell in sweep["cells"]
        )
    }
    last = len(order)
    found.sort(key=lambda item: (order.get(item[0].parent, last), item[1]["sweep"], item[1]["started"]))
    unlisted = sum(path.parent not in order for path, _ in found)
    baselines = {sweep.get("baseline") for sweep in sweeps.values()}
    baseline = baselines.pop() if len(baselines) == 1 else None
    layouts = [sweep.get("layout") for sweep in sweeps.values()]
    layout = layouts[0] if layouts and all(other == layouts[0] for other in layouts) else None
    return Results(
        tuple(record for _, record in found), len(order) + unlisted, baseline, layout and Layout.from_plain(layout)
    )


def _sweep(path: Path) -> Mapping[str, Any]:
    sweep: Any = json.loads(path.read_text(encoding="utf-8"))
    return sweep if isinstance(sweep, dict) and isinstance(sweep.get("cells"), list) else {"cells": []}
