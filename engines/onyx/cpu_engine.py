"""Onyx on the CPU."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from engines.onyx import cpu_plan
from engines.onyx.direction_choice import estimates
from engines.onyx.direction_costs import FIGURES
from engines.onyx.policy import DEFAULT
from engines.onyx.schedule import OnyxSchedule
from harness.api import DeviceFacts, GraphFacts, No, Program, Yes
from harness.api.cpu import (
    CpuEngine,
    CpuPlan,
)
from harness.api.figures import device_name, figures_of, known_figures

if TYPE_CHECKING:
    from harness.api import Device, Graph, Phases

UNKNOWN_SHARE = 0.5  # below 1


class OnyxCpuEngine(CpuEngine):
    """Feature-aware, change-driven, folded (thesis ch. 4-6); see :class:`OnyxSchedule` for the meaning of each
    option."""

    schedule: OnyxSchedule
    policy = DEFAULT

    def plan(self, program: Program, graph: GraphFacts, features: int, device: DeviceFacts) -> CpuPlan | No:
        """Return the plan of the schedule (:func:`engines.onyx.cpu_plan.plan`)."""
        return cpu_plan.plan(program, self.schedule, graph, features, device, self.runs, self.policy)

    def facts_of(self, device: Device) -> DeviceFacts:
        """Return the facts of a device; with its figures, if the share of *adaptive* is to be estimated and the cache
        has them.
        """
        return self._facts_of(device, measure=False)

    def _facts_of(self, device: Device, *, measure: bool) -> DeviceFacts:
        facts = super().facts_of(device)
        if not estimates(self.schedule, default=True):
            return facts
        one = replace(device, threads=1)  # the figures are those of a thread
        figures = known_figures(FIGURES, one)
        if figures is None and measure:
            from engines.onyx.cpu_probe import cpu_figures

            figures = figures_of(FIGURES, one, lambda: cpu_figures(facts.cache_bytes))
        return replace(facts, name=device_name(one), figures=figures or ())

    def _unmeasured(self, device: Device) -> bool:
        """Return whether the device has to be measured before it is planned for."""
        return device.kind == "cpu" and estimates(self.schedule, default=True) and not self.facts_of(device).figures

    def supports(self, program: Program, graph: Graph, features: int, device: Device) -> Yes | No:
        """Return whether the program can run under this schedule on this graph.

        Nothing is measured here, since other cells may run. A device that is not measured yet is planned for with a
        share below 1, with which a run may also pull; this takes the most memory.
        """
        if not self._unmeasured(device):
            return super().supports(program, graph, features, device)
        share_by, dense_share = ("fitted", None) if self.schedule.direction is None else (None, UNKNOWN_SHARE)
        schedule = replace(self.schedule, share_by=share_by, dense_share=dense_share)
        facts = self.facts_of(device)
        found = cpu_plan.plan(program, schedule, graph.facts, features, facts, self.runs, self.policy)
        return found if isinstance(found, No) else Yes(found.bytes_needed)

    def generate(self, program: Program, graph: Graph, features: int, device: Device) -> None:
        """Plan; measure the device before, if that is needed. Raises EngineFailure if the program is refused."""
        if self._unmeasured(device):
            self._facts_of(device, measure=True)
        super().generate(program, graph, features, device)

    def prepare(self, program: Program, graph: Graph, features: int, device: Device, phases: Phases) -> None:
        """Measure the device if that is needed, while no other cell runs; plan, compile, allocate."""
        if self._unmeasured(device):
            with phases.alone("probe"):
                self._facts_of(device, measure=True)
        super().prepare(program, graph, features, device, phases)
