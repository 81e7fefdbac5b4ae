"""Records read back from a folder of results, in the order in which their sweeps asked for them."""

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
    """A folder holds no record; the message names it."""


@dataclass(frozen=True)
class Results:
    """The records of one or several sweeps, the number of cells that these asked for, and the baseline and the layout
    that they named (None where they named none or several)."""

    records: tuple[Record, ...]
    cells: int
    baseline: str | None
    layout: Layout | None


def read_results(folder: Path) -> Results:
    """What is on record below ``folder``, which is a sweep's own or holds several.

    NothingFound when there is no record; RecordError when one cannot be read.
    """
    found = [(path, record) for path, record in read_records(folder)]
    if not found:
        raise NothingFound(f"{folder} holds no records; name a folder that onyx-harness wrote (results, or one sweep)")
    sweeps = {path.parent: _sweep(path) for path in files_below(folder, SWEEP_FILE)}
    order = {
        place / str(cell["cell"]): number
        for number, (place, cell) in enumerate(
            (place, cell) for place, told in sweeps.items() for cell in told["cells"]
        )
    }
    last = len(order)
    found.sort(key=lambda item: (order.get(item[0].parent, last), item[1]["sweep"], item[1]["started"]))
    unlisted = sum(path.parent not in order for path, _ in found)
    baselines = {told.get("baseline") for told in sweeps.values()}
    baseline = baselines.pop() if len(baselines) == 1 else None
    layouts = [told.get("layout") for told in sweeps.values()]
    layout = layouts[0] if layouts and all(other == layouts[0] for other in layouts) else None
    return Results(
        tuple(record for _, record in found), len(order) + unlisted, baseline, layout and Layout.from_plain(layout)
    )


def _sweep(path: Path) -> Mapping[str, Any]:
    told: Any = json.loads(path.read_text(encoding="utf-8"))
    return told if isinstance(told, dict) and isinstance(told.get("cells"), list) else {"cells": []}
