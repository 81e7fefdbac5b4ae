"""SIMD-X's schedule on a GPU with every option filled in that is known before kernels are compiled."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from engines.pullbaseline.simdx.activity import Activity, activity
from harness.api import concrete

if TYPE_CHECKING:
    from engines.pullbaseline.schedules import SimdxSchedule
    from harness.api import Program

BIN_SIZE = 64  # fig. 8: smaller bins overflow too often, larger ones delay the ballot filter too long
PULL_SHARE = 0.3  # of all edges (sec. 5)


def resolve(schedule: SimdxSchedule, program: Program, features: int) -> SimdxSchedule:
    """Return the schedule with every option that is None filled in; given options are kept.

    ``program``: lowered. Options that do not apply stay None: those of ``SimdxSchedule.TASKS_ONLY`` for programs
    without active vertices, and ``bin_size`` for the ballot filter. ``resident_blocks`` also stays None: the number of
    resident blocks depends on the registers of the compiled kernels.
    """
    schedule = schedule.with_place()
    if not isinstance(activity(program), Activity):
        return replace(schedule, fusion=schedule.fusion or _fusion_without_activity(schedule, program, features))
    chosen = schedule.filter or "jit"
    return replace(
        schedule,
        filter=chosen,
        bin_size=None if chosen == "ballot" else schedule.bin_size or BIN_SIZE,
        pull_share=PULL_SHARE if schedule.pull_share is None else schedule.pull_share,
        fusion=schedule.fusion or "push_pull",
    )


def _fusion_without_activity(schedule: SimdxSchedule, program: Program, features: int) -> str:
    """Return ``none`` for programs with several features: fused, their kernels take more registers."""
    single = all(math.prod(concrete(prop.shape, features)) == 1 for prop in program.properties.values())
    return "push_pull" if single or schedule.resident_blocks is not None else "none"
