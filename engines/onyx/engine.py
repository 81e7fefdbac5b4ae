"""The Onyx engine."""

from __future__ import annotations

from engines.onyx import cpu_pull, cpu_push
from engines.onyx.schedule import OnyxSchedule
from harness.api import CpuEngine, Device, FoldGroup, Graph, Program, change_driven, fold_groups, unfolded


class OnyxEngine(CpuEngine):
    """Feature-aware, change-driven, folded (thesis ch. 4-6); see :class:`OnyxSchedule` for what each option means."""

    schedule: OnyxSchedule

    def __init__(self, schedule: OnyxSchedule) -> None:
        super().__init__(schedule)
        self.feature_aware = schedule.feature_aware
        self.change_driven = schedule.change_driven
        self.direction = schedule.direction
        self.rebuild_every = schedule.rebuild if schedule.direction == "push" else 0
        self.gathered: list[FoldGroup] = []

    def refusal(self, program: Program, graph: Graph, features: int, device: Device) -> str:
        """Why this schedule cannot run the program; empty when it can."""
        reason = super().refusal(program, graph, features, device)
        if reason:
            return reason
        for name in OnyxSchedule.GPU_ONLY:
            if getattr(self.schedule, name) is not None:
                return f"schedule option {name} has no meaning on the CPU; leave it unset"
        if self.change_driven and self.direction == "push":
            forms = change_driven(program)
            return forms if isinstance(forms, str) else ""
        return ""

    def groups(self) -> tuple[FoldGroup, ...]:
        """Folded as the schedule says."""
        return fold_groups(self.program, self.schedule.direction) if self.schedule.fold else unfolded(self.program)

    def plan(self) -> None:
        """Kernels and steps of the direction."""
        self.gathered = []
        (cpu_pull if self.schedule.direction == "pull" else cpu_push).plan(self)
