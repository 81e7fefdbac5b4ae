"""Gunrock's schedule with every option filled in."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engines.pushbaseline.schedules import GunrockSchedule
    from harness.api import DeviceFacts


def resolve(schedule: GunrockSchedule, device: DeviceFacts) -> GunrockSchedule:
    """Return the schedule with every option that is None filled in; on the CPU those of ``GPU_ONLY`` stay None."""
    schedule = schedule.with_place()
    return schedule if device.kind == "cpu" else replace(schedule, balance=schedule.balance or "block")
