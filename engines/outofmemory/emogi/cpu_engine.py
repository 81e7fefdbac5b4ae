"""EMOGI style on the CPU: push from the vertices that moved, over edges in memory-mapped files.

The operators are those of the push baselines. Options of a GPU's accesses are refused: a processor has no lanes that
share a request, and the operating system decides which pages of the files are in memory.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from engines.outofmemory.emogi.resolve import resolve
from engines.pushbaseline.gunrock import cpu_engine as changes
from engines.pushbaseline.schedules import GunrockSchedule, TigrSchedule
from engines.pushbaseline.tigr import cpu_engine as everything
from harness.api import No, change_driven
from harness.api.cpu import CpuEngine, LoweredProgram, unsupported

if TYPE_CHECKING:
    from engines.outofmemory.schedules import EmogiSchedule
    from harness.api import DeviceFacts, GraphFacts, Program
    from harness.api.cpu import CpuPlan, CpuPolicy

WHOLE_ROWS = 1 << 31  # no row is split


class EmogiCpuEngine(CpuEngine):
    """Push from active vertices over edges in files; from all vertices if changes cannot be tracked."""

    schedule: EmogiSchedule

    def plan(self, program: Program, graph: GraphFacts, features: int, device: DeviceFacts) -> CpuPlan | No:
        """Return the plan of the schedule (:func:`plan`)."""
        return plan(program, self.schedule, graph, features, device, self.runs)


def plan(
    program: Program, schedule: EmogiSchedule, graph: GraphFacts, features: int, device: DeviceFacts, runs: CpuPolicy
) -> CpuPlan | No:
    """Return the plan of a program, or the reason why it cannot run, such as an option that only a GPU has."""
    for name in schedule.GPU_ONLY:
        if getattr(schedule, name) is not None:
            return No(f"schedule option {name} has no meaning on the CPU; leave it unset")
    resolved = resolve(schedule, device)
    if resolved.edges == "managed":
        return No("edges=managed has no meaning on the CPU, which has no link to a device; leave it unset")
    lowered = LoweredProgram.of(program).program
    reason = unsupported(lowered, graph, features, change_driven=True, tracks_edges=True)
    if reason or isinstance(change_driven(lowered), str):
        whole = TigrSchedule(degree_bound=WHOLE_ROWS, edges=resolved.edges)
        made = everything.plan(program, whole, graph, features, device, runs)
    else:
        moved = GunrockSchedule(rebuild=schedule.rebuild, edges=resolved.edges)
        made = changes.plan(program, moved, graph, features, device, runs)
    return made if isinstance(made, No) else replace(made, schedule=resolved, title="EmogiCpuEngine")
