"""The floor of a cell's time: the least work of its run, over the rates of its device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from harness.campaign.cell import Cell
from harness.campaign.device_rates import rates_of
from harness.campaign.least_work import WORK
from harness.records import Mark, RecordError
from harness.records.floor import Work, floor_of
from harness.records.outcome import Outcome
from harness.records.schema import Solve

_checked: set[tuple[str, int]] = set()  # devices that this process has measured again


def floor_fields(cell: Cell, fields: Mapping[str, Any], child_environment: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields ``floor`` and ``marks`` of a record from those of a report.

    If a run took less than its floor, the device is measured again, at most once in a process: a rate that was measured
    on a busy machine is too low. A run that takes less than the new floor is marked.

    Raises RecordError for a damaged report, CacheError.
    """
    if fields["outcome"] != Outcome.OK or WORK not in fields:
        return {}
    try:
        work, solve = msgspec.convert(fields[WORK], Work), msgspec.convert(fields["solve"], Solve)
    except (KeyError, msgspec.ValidationError) as error:
        raise RecordError(f"this is not the report of a run: {error}") from error
    if not work["bytes"]:  # the engine counts no supersteps
        return {}
    device, gpu = cell.device, fields.get("gpu")
    rates = rates_of(device, gpu, child_environment)
    floor = floor_of(work, rates) if rates else None
    place = device.kind, device.index
    if floor and floor["seconds"] > solve["minimum"] and place not in _checked:
        _checked.add(place)
        rates = rates_of(device, gpu, child_environment, again=True)
        floor = floor_of(work, rates) if rates else None
    below = floor is not None and floor["seconds"] > solve["minimum"]
    return {"floor": floor, "marks": [*fields.get("marks", ()), *([Mark.BELOW_FLOOR] if below else [])]}
