"""The engine on CUDA devices: plans, runs, and reports the order in which edges were updated."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from engines.lonestar.choice import FIGURES, candidates, chosen, explained, unfit
from engines.lonestar.counts import lost_share
from engines.lonestar.cuda_executor import LonestarExecutor
from engines.lonestar.cuda_plan import plan
from engines.lonestar.cuda_probe import cuda_figures
from engines.lonestar.cuda_tables import CudaBatches
from engines.lonestar.stamps import serial_order
from harness.api import DeviceFacts, EngineFailure, No, Yes, cuda_unavailable
from harness.api.cuda import CUDA, CudaEngine
from harness.api.figures import device_name, figures_of, known_figures

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from engines.lonestar.schedule import LonestarSchedule
    from harness.api import Device, Graph, GraphFacts, Inputs, Phases, Program
    from harness.api.cuda import CudaPlan


class LonestarCudaEngine(CudaEngine):
    """Updates both ends of edges in place, by lane groups.

    ``deterministic``: for batches. Otherwise the order of edges depends on which locks are free.
    """

    schedule: LonestarSchedule
    executor_type = LonestarExecutor
    _estimates = ""

    def plan(self, program: Program, graph: GraphFacts, features: int, device: DeviceFacts = CUDA) -> CudaPlan | No:
        """Return the plan of a program, or why it cannot run. ``device``: figures for ``order=auto``."""
        taken = chosen(program, self.schedule, graph, features, device)
        return taken if isinstance(taken, No) else plan(program, taken, graph, features)

    def supports(self, program: Program, graph: Graph, features: int, device: Device) -> Yes | No:
        """Return whether the program can run under this schedule on this graph.

        ``order=auto`` on a device that is not measured yet may need as much memory as any order.
        """
        known = self._facts_of(device)
        if self.schedule.order == "auto" and not known.figures:
            return self._most(program, graph.facts, features)
        found = self.plan(program, graph.facts, features, known)
        return found if isinstance(found, No) else Yes(found.bytes_needed, found.host_bytes)

    def generate(self, program: Program, graph: Graph, features: int, device: Device) -> None:
        """Plan, without a device. Raises EngineFailure if the program cannot run."""
        known = self._facts_of(device)
        found = self.plan(program, graph.facts, features, known)
        if isinstance(found, No):
            raise EngineFailure(found.reason)
        self.planned = found
        if self.schedule.order == "auto":
            self._estimates = explained(program, self.schedule, graph.facts, features, known)

    # order=auto -------------------------------------------------------------------------------------------------------
    def _facts_of(self, device: Device, *, measure: bool = False) -> DeviceFacts:
        """Return what is known of a device; ``measure`` it for ``order=auto`` if the cache has no figures of it."""
        if self.schedule.order != "auto" or cuda_unavailable(device.index):
            return CUDA
        found = known_figures(FIGURES, device)
        if found is None and measure:
            found = figures_of(FIGURES, device, lambda: cuda_figures(device.index))
        return DeviceFacts("cuda", name=device_name(device), figures=found or ())

    def _most(self, program: Program, facts: GraphFacts, features: int) -> Yes | No:
        """Return the largest answer of all orders that ``order=auto`` may take."""
        tried = candidates(program, self.schedule, facts)
        plans = [plan(program, replace(self.schedule, order=order), facts, features) for order in tried]
        found = [one for one in plans if not isinstance(one, No)]
        if not found:
            reasons = [unfit(program, self.schedule, facts), *(one.reason for one in plans if isinstance(one, No))]
            return No(next(filter(None, reasons), "no order runs the program"))
        return Yes(max(one.bytes_needed for one in found), max(one.host_bytes for one in found))

    def build(self, program: Program, graph: Graph, features: int, device: Device, phases: Phases) -> None:
        """Build what needs no device; nothing if ``order=auto`` has to measure it first."""
        if self.schedule.order != "auto" or self._facts_of(device).figures:
            super().build(program, graph, features, device, phases)

    @property
    def taken(self) -> LonestarSchedule:
        """The schedule with every option filled in, after :meth:`generate`."""
        schedule: LonestarSchedule = self.planned.schedule
        return schedule

    def prepare(self, program: Program, graph: Graph, features: int, device: Device, phases: Phases) -> None:
        """Build, load the kernels, upload. Raises DeviceUnavailable, CompilationFailed, MemoryError, EngineFailure."""
        if self.schedule.order == "auto" and not self._facts_of(device).figures:
            with phases.alone("probe"):
                self._facts_of(device, measure=True)
        super().prepare(program, graph, features, device, phases)
        self.deterministic = self.taken.ordered_by_batches

    def memory_model(self, program: Program, graph: Graph, features: int, inputs: Inputs) -> No:
        """Return why accesses are not counted."""
        return No("the passes of this engine depend on which locks are free, and the model runs a fixed superstep")

    # the order of edges -----------------------------------------------------------------------------------------------
    def ordered_superstep(self) -> Mapping[str, NDArray[np.integer[Any]] | float]:
        """Run one superstep; return the order of batches, or one that locks have led to (:mod:`.stamps`).

        Without locks, the share of updates that were lost.
        """
        executor, steps = self.lonestar, [step.name for step in self.lonestar.steps]
        if self.taken.ordered_by_batches:
            self.run(1)
            order = executor.store.table(CudaBatches(executor.schedule)).batches.edges
            return dict.fromkeys(steps, order)
        if len(steps) > 1:
            raise EngineFailure("stamps are taken of one step in place, and the program has several")
        graph = executor.store.graph
        stamps, counters = self._observed(graph)
        if self.taken.order == "hogwild":
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
        """Return the estimates of ``order=auto``, the schedule, the kernels, the source, and the passes after a run."""
        passes = self._executor.passes if isinstance(self._executor, LonestarExecutor) else {}
        passes_text = [f"passes of {step}: {count:,} in the last superstep" for step, count in passes.items()]
        return "\n\n".join([*([self._estimates] if self._estimates else []), super().explain(), *passes_text])
