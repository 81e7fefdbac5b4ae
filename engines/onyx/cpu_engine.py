"""Onyx on the CPU."""

from __future__ import annotations

from engines.onyx import cpu_plan
from engines.onyx.policy import DEFAULT
from engines.onyx.schedule import OnyxSchedule
from harness.api import (
    DeviceFacts,
    GraphFacts,
    No,
    Program,
)
from harness.api.cpu import (
    CpuEngine,
    CpuPlan,
)


class OnyxCpuEngine(CpuEngine):
    """Feature-aware, change-driven, folded (thesis ch. 4-6); see :class:`OnyxSchedule` for the meaning of each
    option."""

    schedule: OnyxSchedule
    policy = DEFAULT

    def plan(self, program: Program, graph: GraphFacts, features: int, device: DeviceFacts) -> CpuPlan | No:
        """Return the plan of the schedule (:func:`engines.onyx.cpu_plan.plan`)."""
        return cpu_plan.plan(program, self.schedule, graph, features, device, self.runs, self.policy)
