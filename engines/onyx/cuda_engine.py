"""Onyx on CUDA devices: runs the plans of :mod:`engines.onyx.cuda_plan`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from engines.onyx.cuda_bottom_up import explained
from engines.onyx.cuda_executor import OnyxExecutor
from engines.onyx.cuda_plan import plan
from engines.onyx.cuda_probe import cuda_figures
from engines.onyx.cuda_tracking_policy import TrackedRuns
from engines.onyx.direction_choice import DirectionChoice, estimates, meaningless
from engines.onyx.direction_costs import FIGURES
from engines.onyx.policy import DEFAULT
from harness.api import DeviceFacts, EngineFailure, No, Yes, cuda_unavailable
from harness.api.cuda import CUDA, CudaEngine
from harness.api.figures import device_name, figures_of, known_figures

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from engines.onyx.schedule import OnyxSchedule
    from harness.api import Device, Graph, GraphFacts, Phases, Program
    from harness.api.cuda import CudaPlan


class OnyxCudaEngine(CudaEngine):
    """Feature-aware, change-driven, folded (thesis ch. 4-6); see :class:`OnyxSchedule` for its options."""

    schedule: OnyxSchedule
    policy = DEFAULT
    executor_type = OnyxExecutor
    choice: DirectionChoice | None = None

    def plan(self, program: Program, graph: GraphFacts, features: int, device: DeviceFacts = CUDA) -> CudaPlan | No:
        """Return the plan of a program, or why it cannot run."""
        reason = meaningless(self.schedule, device)
        return No(reason) if reason else plan(program, self.schedule, graph, features, device, self.policy)

    # the share from which supersteps pull -----------------------------------------------------------------------------
    def facts_of(self, device: Device, *, measure: bool = False) -> DeviceFacts:
        """Return the facts of a device.

        ``measure``: probe the device if the share is to be estimated and the cache has no figures. Otherwise, figures
        in the cache are read for any schedule that may be *adaptive*, so that :meth:`explain` and records have
        estimates beside a given or fitted share.
        """
        if self.schedule.direction in ("push", "pull") or cuda_unavailable(device.index):
            return CUDA
        found = known_figures(FIGURES, device)
        if found is None and measure and estimates(self.schedule, default=False):
            found = figures_of(FIGURES, device, lambda: cuda_figures(device.index))
        return DeviceFacts("cuda", name=device_name(device), figures=found or ())

    def supports(self, program: Program, graph: Graph, features: int, device: Device) -> Yes | No:
        """Return whether the program can run under this schedule on this graph.

        The device need not be measured for this, because the share does not change the memory.
        """
        known = self.facts_of(device)
        if estimates(self.schedule, default=False) and not known.figures and not cuda_unavailable(device.index):
            schedule = replace(self.schedule, share_by="fitted")
            found = plan(program, schedule, graph.facts, features, known, self.policy)
        else:
            found = self.plan(program, graph.facts, features, known)
        return found if isinstance(found, No) else Yes(found.bytes_needed, found.host_bytes)

    def generate(self, program: Program, graph: Graph, features: int, device: Device) -> None:
        """Plan, without a device. Raises EngineFailure if the program cannot run."""
        known = self.facts_of(device)
        found = self.plan(program, graph.facts, features, known)
        if isinstance(found, No):
            raise EngineFailure(found.reason)
        self.planned = found
        self.choice = DirectionChoice.of(self.schedule, found.schedule, found.program, features, graph.facts, known)

    def build(self, program: Program, graph: Graph, features: int, device: Device, phases: Phases) -> None:
        """Build what needs no device; build nothing if the device has to be measured first."""
        if self.facts_of(device).figures or not estimates(self.schedule, default=False):
            super().build(program, graph, features, device, phases)

    def prepare(self, program: Program, graph: Graph, features: int, device: Device, phases: Phases) -> None:
        """Measure the device if necessary, build, load the kernels, and upload.

        Raises DeviceUnavailable, CompilationFailed, MemoryError, EngineFailure.
        """
        if estimates(self.schedule, default=False) and not self.facts_of(device).figures:
            with phases.alone("probe"):
                self.facts_of(device, measure=True)
        super().prepare(program, graph, features, device, phases)
        assert isinstance(self.executor, OnyxExecutor)
        self.executor.choice, self.executor.rebuild = self.choice, self.schedule.rebuild

    # descriptions -----------------------------------------------------------------------------------------------------
    def explain(self) -> str:
        """Explain the engine, its choice of directions, the steps of a persistent kernel, and what pulls skip."""
        combined, lines = self.planned.combined, []
        if combined is not None:
            names = [launch.kernel.name for launch in (*combined.steps, *combined.measuring.launches)]
            lines.append(f"persistent: one launch runs all supersteps, in steps {', '.join(names)}")
        if self.planned.schedule.direction == "adaptive":
            lines.append(explained(self.planned.program, self.planned.schedule))
        if isinstance(self.planned.extension, TrackedRuns):
            lines += self.planned.extension.shares
        if self.choice is None:
            return "\n".join([*lines, super().explain()])
        schedule, _, rest = super().explain().partition("\nkernel ")
        return "\n".join([*lines, schedule, *self.choice.lines, f"kernel {rest}"])

    def narrow(self, stale: NDArray[np.bool_], senders: NDArray[np.bool_]) -> None:
        """Begin with only the stale vertices.

        A pull recomputes only these vertices if no stage needs the results of a reduction at other vertices. A push of
        extrema sends from the senders. Sums that are kept are built first.
        """
        planned, tracking = self.planned, self.planned.tracking
        if not tracking.change_driven or any(group.kind == "update" for group in tracking.groups):
            return
        if planned.direction == "push":
            if planned.accumulators.extrema:
                self.executor.begin_with(stale, senders)
            return
        between = {name for group in tracking.groups for name in tracking.live(group.stages)}
        properties = [planned.program.properties[name] for name in between]
        if not any(prop.role == "temporary" and prop.place == "vertex" for prop in properties):
            self.executor.begin_with(stale, np.zeros_like(senders))
