"""Tigr style on CUDA devices: runs the plans of :mod:`engines.pushbaseline.tigr.cuda_plan`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engines.pushbaseline.tigr.cuda_plan import plan
from harness.api import DeviceFacts
from harness.api.cuda import CUDA, CudaEngine

if TYPE_CHECKING:
    from engines.pushbaseline.schedules import TigrSchedule
    from harness.api import GraphFacts, No, Program
    from harness.api.cuda import CudaPlan


class TigrCudaEngine(CudaEngine):
    """Push, all virtual nodes every superstep."""

    schedule: TigrSchedule

    def plan(self, program: Program, graph: GraphFacts, features: int, device: DeviceFacts = CUDA) -> CudaPlan | No:
        """Return the plan of a program, or why it cannot run."""
        return plan(program, self.schedule, graph, features, device)
