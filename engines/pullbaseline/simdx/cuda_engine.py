"""SIMD-X style on CUDA devices: runs the plans of :mod:`engines.pullbaseline.simdx.cuda_plan`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engines.pullbaseline.simdx.activity import activity
from engines.pullbaseline.simdx.cuda_executor import SimdxExecutor
from engines.pullbaseline.simdx.cuda_plan import is_fused, plan
from harness.api.cuda import CUDA, CudaEngine

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engines.pullbaseline.schedules import SimdxSchedule
    from harness.api import DeviceFacts, GraphFacts, No, Program
    from harness.api.cuda import CudaPlan


class SimdxCudaEngine(CudaEngine):
    """Active vertices if a program has them; else pull, all edges every superstep; vertices listed by degree.

    ``blocks_of``: the number of blocks of every fused kernel, once it is loaded.
    """

    schedule: SimdxSchedule
    executor_type = SimdxExecutor

    # planning ---------------------------------------------------------------------------------------------------------
    def plan(self, program: Program, graph: GraphFacts, features: int, device: DeviceFacts = CUDA) -> CudaPlan | No:
        """Return the plan of a program, or why it cannot run."""
        return plan(program, self.schedule, graph, features, device)

    @property
    def blocks_of(self) -> Mapping[str, int]:
        """The number of blocks that each fused kernel is launched with; empty until they are loaded."""
        return self._executor.blocks_of if isinstance(self._executor, SimdxExecutor) else {}

    def explain(self) -> str:
        """Explain the engine, with the reason if a program has no active vertices, and the blocks of fused kernels."""
        active, schedule = activity(self.planned.program), self.planned.schedule
        heading = [f"bulk-synchronous: {active}"] if isinstance(active, str) else []
        blocks = [f"{name}: {blocks} blocks, all resident" for name, blocks in self.blocks_of.items()]
        if is_fused(schedule) and schedule.resident_blocks is None and not blocks:
            blocks = ["resident_blocks: as many as the device holds at once, known once the kernels are loaded"]
        return "\n".join([*heading, *blocks, super().explain()])

    def resolved_options(self) -> Mapping[str, Any]:
        """Return the resolved options, with the blocks of fused kernels once these are loaded.

        ``resident_blocks`` is a list, in the order of the kernels, if these have different numbers of blocks.
        """
        blocks = list(self.blocks_of.values())
        found = {"resident_blocks": blocks[0] if len(set(blocks)) == 1 else blocks} if blocks else {}
        return {**super().resolved_options(), **found}
