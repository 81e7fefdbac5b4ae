"""Onyx on CUDA devices: runs the plans of :mod:`engines.onyx.cuda_plan`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from engines.onyx.cuda_bottom_up import explained
from engines.onyx.cuda_plan import plan
from engines.onyx.policy import DEFAULT
from harness.api import DeviceFacts
from harness.api.cuda import CUDA, CudaEngine, PersistentExecutor

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from engines.onyx.schedule import OnyxSchedule
    from harness.api import GraphFacts, No, Program
    from harness.api.cuda import CudaPlan


class OnyxCudaEngine(CudaEngine):
    """Feature-aware, change-driven, folded (thesis ch. 4-6); see :class:`OnyxSchedule` for its options."""

    schedule: OnyxSchedule
    policy = DEFAULT
    executor_type = PersistentExecutor

    def plan(self, program: Program, graph: GraphFacts, features: int, device: DeviceFacts = CUDA) -> CudaPlan | No:
        """Return the plan of a program, or why it cannot run."""
        return plan(program, self.schedule, graph, features, device, self.policy)

    def explain(self) -> str:
        """Explain the engine, which work a persistent kernel combines, and what pulls skip."""
        combined, lines = self.planned.combined, []
        if combined is not None:
            names = [launch.kernel.name for launch in (*combined.steps, *combined.measuring.launches)]
            lines.append(f"persistent: one launch runs all supersteps, in steps {', '.join(names)}")
        if self.planned.schedule.direction == "adaptive":
            lines.append(explained(self.planned.program, self.planned.schedule))
        return "\n".join([*lines, super().explain()])

    def narrow(self, stale: NDArray[np.bool_], senders: NDArray[np.bool_]) -> None:
        """Begin with the stale vertices.

        A pull recomputes only these vertices, if no stage needs the results of a reduction at other vertices. A push
        sends extrema from the senders. Kept sums are built first.
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
