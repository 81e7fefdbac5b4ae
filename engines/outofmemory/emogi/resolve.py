"""EMOGI's schedule with every option filled in."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engines.outofmemory.schedules import EmogiSchedule
    from harness.api import DeviceFacts


def resolve(schedule: EmogiSchedule, device: DeviceFacts) -> EmogiSchedule:
    """Return the schedule with every option that is None filled in; on the CPU those of ``GPU_ONLY`` stay None."""
    schedule = schedule.with_place()
    if device.kind == "cpu":
        return schedule
    access, frontier = schedule.access or "aligned", schedule.frontier or "flags"
    return replace(schedule, access=access, frontier=frontier, counters=bool(schedule.counters))
