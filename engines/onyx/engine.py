"""The Onyx engine."""

from __future__ import annotations

from itertools import pairwise

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
        self.was_sparse = False  # the pull before recomputed dirty destinations only

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

    def missed(self) -> list[str]:
        """What is not folded, not tracked or not vectorised here, and why."""
        reasons = []
        if not self.schedule.feature_aware:
            reasons.append("rows as vector values: feature_aware is off")
        if not self.schedule.fold:
            reasons.append("stages in one kernel: fold is off")
        elif self.schedule.direction == "push":
            reasons.append("vertex steps in one kernel with edges: owners of destinations push, not owners of sources")
        for before, after in pairwise(self.tracking.groups if self.schedule.fold else ()):
            names = f"{self.tracking.name(before)} with {self.tracking.name(after)}"
            reasons.append(f"folding {names}: one needs what the other makes of all vertices or edges")
        forms = change_driven(self.program)
        if not self.change_driven:
            reasons.append("propagating changes only: change_driven is off")
        elif isinstance(forms, str):
            reasons.append(f"pushing changes: {forms}; destinations of sources that moved are recomputed instead")
        return reasons

    def plan(self) -> None:
        """Kernels and steps of the direction."""
        self.gathered = []
        (cpu_pull if self.schedule.direction == "pull" else cpu_push).plan(self)
