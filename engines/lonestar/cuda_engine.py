"""The engine on CUDA devices: plans, runs, and tells the order in which edges were updated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from engines.lonestar.counts import leads_to_columns, lost_share
from engines.lonestar.cuda_executor import LonestarExecutor
from engines.lonestar.cuda_plan import plan
from engines.lonestar.cuda_tables import CudaBatches
from engines.lonestar.stamps import serial_order
from harness.api import EngineFailure, No
from harness.api.cuda import CUDA, CudaEngine

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from engines.lonestar.schedule import LonestarSchedule
    from harness.api import Device, DeviceFacts, Graph, GraphFacts, Inputs, Phases, Program, Yes
    from harness.api.cuda import CudaPlan


class LonestarCudaEngine(CudaEngine):
    """Updates both ends of edges in place, by teams of lanes.

    ``deterministic``: for batches. Otherwise the order of edges depends on which locks are free.
    """

    schedule: LonestarSchedule
    executor_type = LonestarExecutor

    def plan(self, program: Program, graph: GraphFacts, features: int, device: DeviceFacts = CUDA) -> CudaPlan | No:
        """Return the plan of a program, or why it cannot run."""
        return plan(program, self.schedule, graph, features)

    def supports(self, program: Program, graph: Graph, features: int, device: Device) -> Yes | No:
        """Return whether the program can run under this schedule on this graph."""
        found = super().supports(program, graph, features, device)
        reason = "" if isinstance(found, No) else self._unfit(program, graph)
        return No(reason) if reason else found

    def generate(self, program: Program, graph: Graph, features: int, device: Device) -> None:
        """Plan, without a device. Raises EngineFailure if the program cannot run."""
        super().generate(program, graph, features, device)
        reason = self._unfit(program, graph)
        if reason:
            raise EngineFailure(reason)

    def _unfit(self, program: Program, graph: Graph) -> str:
        """Return why the edges of a graph cannot run under the schedule; empty if they can."""
        if graph.has_self_loops:
            return f"{program.name} updates both ends of an edge, and the graph has self-loops"
        if self.schedule.of_sides and not leads_to_columns(graph):
            return (
                f"order={self.schedule.order} needs a bipartite graph whose edges lead from its left to its right side"
            )
        return ""

    def prepare(self, program: Program, graph: Graph, features: int, device: Device, phases: Phases) -> None:
        """Build, load the kernels, upload. Raises DeviceUnavailable, CompilationFailed, MemoryError, EngineFailure."""
        super().prepare(program, graph, features, device, phases)
        self.deterministic = self.schedule.ordered_by_batches

    def memory_model(self, program: Program, graph: Graph, features: int, inputs: Inputs) -> No:
        """Return why accesses are not counted."""
        return No("the passes of this engine depend on which locks are free, and the model runs a fixed superstep")

    # the order of edges -----------------------------------------------------------------------------------------------
    def ordered_superstep(self) -> Mapping[str, NDArray[np.integer[Any]] | float]:
        """Run one superstep; return the order of batches, or one that locks have led to (:mod:`.stamps`).

        Without locks, the share of updates that were lost.
        """
        executor, steps = self.lonestar, [step.name for step in self.lonestar.steps]
        if self.schedule.ordered_by_batches:
            self.run(1)
            order = executor.store.table(CudaBatches(executor.schedule)).batches.edges
            return dict.fromkeys(steps, order)
        if len(steps) > 1:
            raise EngineFailure("stamps are taken of one step in place, and the program has several")
        graph = executor.store.graph
        stamps, counters = self._observed(graph)
        if self.schedule.order == "hogwild":
            degrees = np.diff(graph.csr.offsets) + np.diff(graph.csc.offsets)
            return {steps[0]: lost_share(degrees, counters)}
        order = serial_order(graph.csc.neighbours, graph.csc.row_of_edge, stamps)
        return {steps[0]: np.asarray(graph.in_edge_ids)[order]}

    def _observed(self, graph: Graph) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Run one superstep in which edges take stamps; return them, int32[E, 2] by CSC, and the counts, int32[V]."""
        import cupy

        executor = self.lonestar
        arrays = executor.arrays
        kept = {name: arrays[name] for name in ("stamps", "counters")}
        arrays["stamps"] = cupy.full(2 * graph.num_edges, 2**32 - 1, np.uint32)
        arrays["counters"] = cupy.zeros(graph.num_vertices, np.uint32)
        arrays["taking"].fill(1)
        executor.wait()
        executor.checks_locks = True
        try:
            self.run(1)
            found = [arrays[name].get().astype(np.uint32).view(np.int32) for name in ("stamps", "counters")]
        finally:
            executor.checks_locks = False
            arrays.update(kept)
            arrays["taking"].fill(0)
            executor.wait()
        return found[0].reshape(-1, 2), found[1]

    @property
    def lonestar(self) -> LonestarExecutor:
        """The executor that :meth:`prepare` made."""
        executor = self.executor
        assert isinstance(executor, LonestarExecutor)
        return executor

    def explain(self) -> str:
        """Return the schedule, the mapping, the kernels, the source, and, after a superstep, the passes."""
        passes = self._executor.passes if isinstance(self._executor, LonestarExecutor) else {}
        told = [f"passes of {step}: {count:,} in the last superstep" for step, count in passes.items()]
        return "\n\n".join([super().explain(), *told])
