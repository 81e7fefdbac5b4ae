"""SIMD-X style on CUDA devices: kernels that run many supersteps, and lists of active vertices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from engines.pullbaseline.simdx.activity import IDENTITY, activity
from engines.pullbaseline.simdx.cuda_plan import block_buffers, is_fused
from engines.pullbaseline.simdx.loops import AlternatingLoop, FusedLoop
from engines.pullbaseline.simdx.residency import Residency, residency_of
from engines.pullbaseline.simdx.task_run import start_tasks
from engines.pullbaseline.simdx.tasks import FAILED
from harness.api import EngineFailure, GraphReduce, RunStatistics, Superstep
from harness.api.cuda import CudaExecutor, queue_ahead

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from engines.pullbaseline.schedules import SimdxSchedule
    from harness.api import Inputs
    from harness.api.cuda import CudaBuffer, CudaPlan, DeviceStore, Loop


class SimdxExecutor(CudaExecutor):
    """Run a plan of SIMD-X.

    ``active``: the program's activity, or why it has none. ``fused``: one launch runs many supersteps. ``resident``:
    the residency of every fused kernel, once it is loaded. ``blocks_of``: the number of blocks that it is launched
    with. ``filters``: of every superstep of a run.
    """

    def __init__(self, plan: CudaPlan, store: DeviceStore) -> None:
        self.schedule: SimdxSchedule = plan.schedule
        self.active, self.fused = activity(plan.program), is_fused(plan.schedule)
        self.resident: dict[str, Residency] = {}
        self.blocks_of: dict[str, int] = {}
        loop: Loop = queue_ahead
        if self.fused:
            loop = (FusedLoop if isinstance(self.active, str) else AlternatingLoop)(self.blocks_of)
        super().__init__(plan, store, loop)
        self.filters: list[str] = []

    # fused kernels ----------------------------------------------------------------------------------------------------
    def load(self) -> None:
        """Load the kernels, and find the blocks of fused ones. Raises EngineFailure if too few are
        resident."""
        super().load()
        for kernel in self.plan.kernels if self.fused else ():
            found = residency_of(self.functions[kernel.name], self.attributes, self.plan.threads)
            self.resident[kernel.name] = found
            taken = found.take(kernel.name, self.schedule.resident_blocks)
            self.blocks_of[kernel.name] = min(taken, self._most_blocks() or taken)

    def _most_blocks(self) -> int | None:
        """Return the number of blocks that have a slot for their part of a sum over the graph; None: no limit."""
        plan = self.plan
        slots = [
            plan.named[f"partial_{stage.into}"].length // plan.layout.stride(stage.value.shape)
            for stage in plan.program.stages
            if isinstance(stage, GraphReduce)
        ]
        return min(slots, default=None)

    def buffers(self) -> Iterable[CudaBuffer]:
        """Return the buffers of the plan, with bins for the threads of the blocks that are launched."""
        if not self.fused or isinstance(self.active, str):
            return self.plan.buffers
        sized = block_buffers(self.plan.schedule, max(self.blocks_of.values()))
        return ({**self.plan.named, **{buffer.name: buffer for buffer in sized}}).values()

    # running ----------------------------------------------------------------------------------------------------------
    def reset(self, inputs: Inputs, state: Mapping[str, NDArray[np.generic]]) -> None:
        """Reset all properties to their initial state, and list the active vertices.

        Parts of sums over the graph that no block of a fused kernel writes are set to the identity.
        """
        super().reset(inputs, state)
        import cupy

        if not isinstance(self.active, str):
            self.filters = []  # for figs. 7 and 11
            active = start_tasks(self.active, self.plan, self.store, self.arrays)
            self.state.note(active=active)
            cupy.cuda.Device().synchronize()
        elif self.plan.combined:
            self._set_bounds()

    def _set_bounds(self) -> None:
        """Set the bounds of the work of every step of the kernel that runs whole supersteps."""
        plan, combined = self.plan, self.plan.combined
        assert combined is not None
        for stage in plan.program.stages:
            if isinstance(stage, GraphReduce):
                self.arrays[f"partial_{stage.into}"].fill(IDENTITY[stage.reducer])
        steps = (*combined.steps, *combined.measuring.launches)
        bounds = [self.ranges.bounds(step.over, side) for side in range(len(plan.sides)) for step in steps]
        self.arrays["bounds"][: 2 * len(bounds)].set(np.array(bounds, np.int64).ravel())

    def run(self, max_supersteps: int) -> RunStatistics:
        """Run until settled or for ``max_supersteps`` more supersteps.

        Raises EngineFailure if a bin overflows and the schedule allows only the online filter.
        """
        statistics = super().run(max_supersteps)
        if self.schedule.filter == "online" and int(self.arrays["tasks"][FAILED]):
            done = self.run_in_progress.done
            raise EngineFailure(
                f"a bin of {self.plan.schedule.bin_size} vertices overflowed in superstep {done}, and the "
                "online filter is the only one; give filter=jit, or a larger bin_size"
            )
        return statistics

    def superstep_of(self, active: int, edges: int, dense: int) -> Superstep:
        """Return the superstep's statistics with the direction; ``dense`` also encodes the filter (see
        ``Superstep::how``)."""
        if isinstance(self.active, str):
            return super().superstep_of(active, edges, dense)
        self.filters.append("ballot" if dense & 2 else "online")
        return Superstep(active, edges, "pull" if dense & 1 else "push")
