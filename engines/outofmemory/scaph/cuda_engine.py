"""Scaph style on CUDA devices (Zheng et al. 2020)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engines.outofmemory.scaph.cuda_executor import ScaphCudaExecutor
from engines.outofmemory.scaph.cuda_plan import plan
from engines.outofmemory.scaph.cuda_windows import windows_of
from harness.api import DeviceFacts
from harness.api.cuda import CUDA, CudaEngine

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engines.outofmemory.schedules import ScaphSchedule
    from harness.api import GraphFacts, No, Program
    from harness.api.cuda import CudaPlan


class ScaphCudaEngine(CudaEngine):
    """Push from active vertices over subgraphs that are copied, packed, or read in place.

    With ``rounds`` or ``low_rounds`` above 1, a run goes on until it has settled.
    """

    schedule: ScaphSchedule
    executor_type = ScaphCudaExecutor

    def __init__(self, schedule: ScaphSchedule) -> None:
        super().__init__(schedule)
        self.stepwise = not schedule.repeats

    def plan(self, program: Program, graph: GraphFacts, features: int, device: DeviceFacts = CUDA) -> CudaPlan | No:
        """Return the plan of a program, or why it cannot run."""
        return plan(program, self.schedule, graph, features)

    def resolved_options(self) -> Mapping[str, Any]:
        """Return the resolved options, with the threads that pack rows if the plan has windows for packed rows."""
        options = dict(super().resolved_options())
        if windows_of(self.planned).stagings:
            from engines.outofmemory.scaph.packing import Packer  # loads the compiler

            options["extract_threads"] = Packer(self.planned.schedule.extract_threads).parts
        return options
