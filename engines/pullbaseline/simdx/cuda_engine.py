"""SIMD-X style on CUDA devices: runs the plans of :mod:`engines.pullbaseline.simdx.cuda_plan`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from engines.pullbaseline.simdx.activity import IDENTITY, activity
from engines.pullbaseline.simdx.cuda_plan import block_buffers, is_fused, plan
from engines.pullbaseline.simdx.residency import Residency, residency_of
from engines.pullbaseline.simdx.task_run import by_degree, start_tasks
from engines.pullbaseline.simdx.tasks import FAILED, SIZES
from harness.api import DeviceFacts, EngineFailure, GraphReduce, RunStatistics, Superstep
from harness.api.cuda import CUDA, CudaEngine, Tables, by_side

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from engines.pullbaseline.schedules import SimdxSchedule
    from harness.api import Device, Graph, GraphFacts, Inputs, No, Program
    from harness.api.cuda import Buffer, CudaPlan, Mapped

TURNS = 2  # times that the fused kernels are queued before the host tests whether the run has ended


class SimdxCudaEngine(CudaEngine):
    """Active vertices if a program has them; else pull, all edges every superstep; vertices listed by degree.

    ``active``: the program's activity, or why it has none. ``resident``: the residency of every fused kernel, once it
    is loaded. ``blocks_of``: the number of blocks that it is launched with. ``filters``: of every superstep of a run.
    """

    schedule: SimdxSchedule

    # planning ---------------------------------------------------------------------------------------------------------
    def plan(self, program: Program, graph: GraphFacts, features: int, device: DeviceFacts = CUDA) -> CudaPlan | No:
        """Return the plan of a program, or why it cannot run."""
        return plan(program, self.schedule, graph, features, device)

    def generate(self, program: Program, graph: Graph, features: int, device: Device) -> None:
        """Plan, without a device. Raises EngineFailure if the program cannot run."""
        super().generate(program, graph, features, device)
        self.active = activity(self.planned.program)
        self.resident: dict[str, Residency] = {}
        self.blocks_of: dict[str, int] = {}

    def tables_of(self, plan: CudaPlan, graph: Graph) -> Tables:
        """Return the vertices of each list by in-degree, sorted (uint32)."""
        masks = zip(SIZES, by_degree(graph.in_degrees, self.schedule), strict=True)
        lists = {size: np.flatnonzero(mask).astype(np.uint32) for size, mask in masks}
        pieces = {size: by_side(listed, plan.sides) for size, listed in lists.items()}
        return Tables({f"{size}_vertices": listed for size, listed in lists.items()}, pieces)

    def mappings(self) -> Sequence[Mapped]:
        """Return the access patterns of the traversals here and of those shared by thread engines."""
        from engines.pullbaseline.simdx.cuda_walks import MAPPINGS

        return MAPPINGS

    def explain(self) -> str:
        """Explain the engine, with the reason if a program has no active vertices, and the blocks of fused kernels."""
        told = [f"bulk-synchronous: {self.active}"] if isinstance(self.active, str) else []
        blocks = [f"{name}: {blocks} blocks, all resident" for name, blocks in self.blocks_of.items()]
        if self.fused and self.planned.schedule.resident_blocks is None and not blocks:
            blocks = ["resident_blocks: as many as the device holds at once, known once the kernels are loaded"]
        return "\n".join([*told, *blocks, super().explain()])

    def resolved_options(self) -> Mapping[str, Any]:
        """Return the resolved options, with the blocks of fused kernels once these are loaded.

        ``resident_blocks`` is a list, in the order of the kernels, if these have different numbers of blocks.
        """
        blocks = list(self.blocks_of.values())
        found = {"resident_blocks": blocks[0] if len(set(blocks)) == 1 else blocks} if blocks else {}
        return {**super().resolved_options(), **found}

    @property
    def fused(self) -> bool:
        """Whether one launch runs many supersteps."""
        return is_fused(self.planned.schedule)

    # fused kernels ----------------------------------------------------------------------------------------------------
    def _load(self, device: Any) -> None:
        super()._load(device)
        for kernel in self.planned.kernels if self.fused else ():
            found = residency_of(self.functions[kernel.name], device.attributes, self.planned.threads)
            self.resident[kernel.name] = found
            taken = found.take(kernel.name, self.schedule.resident_blocks)
            self.blocks_of[kernel.name] = min(taken, self._most_blocks() or taken)

    def _most_blocks(self) -> int | None:
        """Return the number of blocks that have a slot for their part of a sum over the graph; None: no limit."""
        plan = self.planned
        slots = [
            plan.named[f"partial_{stage.into}"].length // plan.layout.stride(stage.value.shape)
            for stage in plan.program.stages
            if isinstance(stage, GraphReduce)
        ]
        return min(slots, default=None)

    def buffers(self) -> Iterable[Buffer]:
        """Return the buffers of the plan, with bins for the threads of the blocks that are launched."""
        if not self.fused or isinstance(self.active, str):
            return self.planned.buffers
        sized = block_buffers(self.planned.schedule, max(self.blocks_of.values()))
        return ({**self.planned.named, **{buffer.name: buffer for buffer in sized}}).values()

    def _launch_together(self, past: Any, names: Iterable[str]) -> None:
        """Queue fused kernels in order. The driver refuses a kernel whose blocks are not all resident at once."""
        arrays = {**self.memory.arrays, "run": self.state.array, "past": past}
        arguments = {kernel.name: tuple(arrays[name] for name in kernel.arguments) for kernel in self.planned.kernels}
        for name in names:
            grid, block = (self.blocks_of[name],), (self.planned.threads,)
            self.functions[name](grid, block, arguments[name], enable_cooperative_groups=True)

    # running ----------------------------------------------------------------------------------------------------------
    def reset(self, inputs: Inputs, state: Mapping[str, NDArray[np.generic]] | None = None) -> None:
        """Reset all properties to their initial state, and list the active vertices.

        Parts of sums over the graph that no block of a fused kernel writes are set to the identity.
        """
        super().reset(inputs, state)
        import cupy

        if not isinstance(self.active, str):
            self.filters: list[str] = []  # of every superstep, for figs. 7 and 11
            active = start_tasks(self.active, self.planned, self.graph, self.tables, self.memory.arrays)
            self.state.note(active=active)
            cupy.cuda.Device().synchronize()
        elif self.planned.combined:
            self._set_bounds()

    def _set_bounds(self) -> None:
        """Set the bounds of the work of every step of the kernel that runs whole supersteps."""
        plan, combined = self.planned, self.planned.combined
        assert combined is not None
        for stage in plan.program.stages:
            if isinstance(stage, GraphReduce):
                self.memory.arrays[f"partial_{stage.into}"].fill(IDENTITY[stage.reducer])
        steps = (*combined.steps, *combined.measuring.launches)
        bounds = [self.ranges.bounds(step.over, side) for side in range(len(plan.sides)) for step in steps]
        self.memory.arrays["bounds"][: 2 * len(bounds)].set(np.array(bounds, np.int64).ravel())

    def run(self, max_supersteps: int) -> RunStatistics:
        """Run until settled or for ``max_supersteps`` more supersteps.

        Raises EngineFailure if a bin overflows and the schedule allows only the online filter.
        """
        statistics = super().run(max_supersteps)
        if self.schedule.filter == "online" and int(self.memory.arrays["tasks"][FAILED]):
            raise EngineFailure(
                f"a bin of {self.planned.schedule.bin_size} vertices overflowed in superstep {self.done}, and the "
                "online filter is the only one; give filter=jit, or a larger bin_size"
            )
        return statistics

    def queue(self, first: int, wanted: int, past: Any) -> None:
        """Queue supersteps.

        A fused bulk-synchronous program runs all of them in one launch. Fused kernels of a program with active vertices
        are queued alternately; a kernel ends at once if the direction is not its own.
        """
        if not self.fused:
            super().queue(first, wanted, past)
        elif isinstance(self.active, str):
            self._launch_together(past, self.blocks_of)
        else:
            self._queue_alternately(wanted, past)

    def _queue_alternately(self, wanted: int, past: Any) -> None:
        done = -1
        while True:
            self._launch_together(past, TURNS * list(self.blocks_of))
            found = self.state.fields()
            if found["settled"] or found["superstep"] >= wanted:
                return
            if found["superstep"] == done:
                raise EngineFailure(f"the fused kernels stand still at superstep {done}; run with fusion=none")
            done = found["superstep"]

    def superstep_of(self, active: int, edges: int, dense: int) -> Superstep:
        """Return the superstep's statistics with the direction; ``dense`` also encodes the filter (see
        ``Superstep::how``)."""
        if isinstance(self.active, str):
            return super().superstep_of(active, edges, dense)
        self.filters.append("ballot" if dense & 2 else "online")
        return Superstep(active, edges, "pull" if dense & 1 else "push")
