"""Onyx on the CPU."""

from __future__ import annotations

from dataclasses import replace

from engines.onyx import cpu_plan
from engines.onyx.direction_choice import estimates
from engines.onyx.direction_costs import FIGURES
from engines.onyx.policy import DEFAULT
from engines.onyx.schedule import OnyxSchedule
from harness.api import (
    Device,
    DeviceFacts,
    GraphFacts,
    No,
    Program,
)
from harness.api.cpu import (
    CpuEngine,
    CpuPlan,
)
from harness.api.figures import device_name, figures_of


class OnyxCpuEngine(CpuEngine):
    """Feature-aware, change-driven, folded (thesis ch. 4-6); see :class:`OnyxSchedule` for the meaning of each
    option."""

    schedule: OnyxSchedule
    policy = DEFAULT

    def plan(self, program: Program, graph: GraphFacts, features: int, device: DeviceFacts) -> CpuPlan | No:
        """Return the plan of the schedule (:func:`engines.onyx.cpu_plan.plan`)."""
        return cpu_plan.plan(program, self.schedule, graph, features, device, self.runs, self.policy)

    def facts_of(self, device: Device) -> DeviceFacts:
        """Return the facts of a device; with its figures, measured if the cache has none, if the share of *adaptive* is
        to be estimated.
        """
        facts = super().facts_of(device)
        if not estimates(self.schedule, default=True):
            return facts
        from engines.onyx.cpu_probe import cpu_figures

        one = replace(device, threads=1)  # the figures are those of a thread
        figures = figures_of(FIGURES, one, lambda: cpu_figures(facts.cache_bytes))
        return replace(facts, name=device_name(one), figures=figures)
