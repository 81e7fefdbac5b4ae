"""SIMD-X style on CUDA devices: kernels that run many supersteps, and lists of active vertices."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from engines.pullbaseline.simdx.activity import activity
from engines.pullbaseline.simdx.cuda_plan import block_buffers, is_fused
from engines.pullbaseline.simdx.loops import AlternatingLoop
from engines.pullbaseline.simdx.task_run import start_tasks
from engines.pullbaseline.simdx.tasks import FAILED
from harness.api import EngineFailure, RunStatistics, Superstep
from harness.api.cuda import PersistentExecutor

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import numpy as np
    from numpy.typing import NDArray

    from engines.pullbaseline.schedules import SimdxSchedule
    from harness.api import Inputs
    from harness.api.cuda import CudaBuffer, CudaPlan, DeviceStore


class SimdxExecutor(PersistentExecutor):
    """Run a plan of SIMD-X.

    ``active``: the program's activity, or why it has none. ``filters``: of every superstep of a run.
    """

    remedy: ClassVar[str] = "give a smaller resident_blocks, or fusion=none"

    def __init__(self, plan: CudaPlan, store: DeviceStore) -> None:
        self.schedule: SimdxSchedule = plan.schedule
        self.active = activity(plan.program)
        alternates = is_fused(plan.schedule) and not isinstance(self.active, str)
        super().__init__(plan, store, AlternatingLoop if alternates else None)
        self.filters: list[str] = []

    @property
    def wanted_blocks(self) -> int | None:
        """The blocks that the schedule gives fused kernels."""
        return self.schedule.resident_blocks

    def buffers(self) -> Iterable[CudaBuffer]:
        """Return the buffers of the plan, with bins for the threads of the blocks that are launched."""
        if not self.persistent or isinstance(self.active, str):
            return self.plan.buffers
        sized = block_buffers(self.plan.schedule, max(self.blocks_of.values()))
        return ({**self.plan.named, **{buffer.name: buffer for buffer in sized}}).values()

    # running ----------------------------------------------------------------------------------------------------------
    def reset(self, inputs: Inputs, state: Mapping[str, NDArray[np.generic]]) -> None:
        """Reset all properties to their initial state, and list the active vertices."""
        super().reset(inputs, state)
        if not isinstance(self.active, str):
            self.filters = []  # for figs. 7 and 11
            active = start_tasks(self.active, self.plan, self.store, self.arrays)
            self.state.note(active=active)
            self.wait()

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
