"""EMOGI style on CUDA devices: runs the plans of :mod:`engines.outofmemory.emogi.cuda_plan`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engines.outofmemory.emogi.cuda_executor import EmogiExecutor
from engines.outofmemory.emogi.cuda_plan import plan
from harness.api import DeviceFacts
from harness.api.cuda import CUDA, CudaEngine

if TYPE_CHECKING:
    from engines.outofmemory.schedules import EmogiSchedule
    from harness.api import GraphFacts, No, Program
    from harness.api.cuda import CudaPlan


class EmogiCudaEngine(CudaEngine):
    """Push from active vertices over edges in host memory."""

    schedule: EmogiSchedule
    executor_type = EmogiExecutor

    def plan(self, program: Program, graph: GraphFacts, features: int, device: DeviceFacts = CUDA) -> CudaPlan | No:
        """Return the plan of a program, or why it cannot run."""
        return plan(program, self.schedule, graph, features, device)
