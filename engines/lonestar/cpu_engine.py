"""The engine on the CPU: plans, runs, and reports the order in which edges were updated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engines.lonestar.choice import FIGURES, explained
from engines.lonestar.counts import lost_share
from engines.lonestar.cpu_kernels import counters_of, passes_of, stamps_of
from engines.lonestar.cpu_plan import plan
from engines.lonestar.cpu_probe import cpu_figures
from engines.lonestar.orders import Batches, BatchTable, GridTable
from engines.lonestar.schedule import LonestarSchedule
from engines.lonestar.stamps import serial_order
from harness.api import (
    Device,
    DeviceFacts,
    EdgeStep,
    Graph,
    GraphFacts,
    No,
    Phases,
    Program,
    RunStatistics,
    Superstep,
)
from harness.api.cpu import CpuEngine, CpuPlan, Run, Step, usable_threads
from harness.api.figures import device_name, figures_of


class LonestarCpuEngine(CpuEngine):
    """Updates both ends of edges in place, on several threads.

    ``deterministic``: for batches, and on one thread. Otherwise the order of edges depends on which locks are free.
    """

    schedule: LonestarSchedule
    _estimates = ""  # of order=auto, as text

    def plan(self, program: Program, graph: GraphFacts, features: int, device: DeviceFacts) -> CpuPlan | No:
        """Return the plan of the schedule (:func:`engines.lonestar.cpu_plan.plan`)."""
        return plan(program, self.schedule, graph, features, device, self.runs)

    def plan_on(self, program: Program, graph: Graph, features: int, device: Device) -> CpuPlan | No:
        """Return the plan for the threads of a device.

        With ``order=auto``, a device is measured if the cache has no figures of it.
        """
        if self.schedule.order == "auto" and device.kind == "cpu":
            return self.plan(program, graph.facts, features, self._measured(device))
        return super().plan_on(program, graph, features, device)

    def generate(self, program: Program, graph: Graph, features: int, device: Device) -> None:
        """Plan, and keep the text of the estimates of ``order=auto``; nothing is compiled. Raises EngineFailure."""
        super().generate(program, graph, features, device)
        if self.schedule.order == "auto":
            known = self._measured(device)
            self._estimates = explained(program, self.schedule, graph.facts, features, known)

    def _measured(self, device: Device) -> DeviceFacts:
        """Return the facts of a device with its figures, which are measured if the cache has none."""
        device = replace(device, threads=usable_threads(device))
        figures = figures_of(FIGURES, device, lambda: cpu_figures(device.threads))
        return DeviceFacts("cpu", device.threads, device_name(device), figures)

    @property
    def taken(self) -> LonestarSchedule:
        """The schedule with every option filled in, after :meth:`generate`."""
        assert self.planned is not None
        schedule = self.planned.schedule
        assert isinstance(schedule, LonestarSchedule)
        return schedule

    def prepare(self, program: Program, graph: Graph, features: int, device: Device, phases: Phases) -> None:
        """Plan, order the edges, compile and allocate. Raises EngineFailure for a refused program."""
        super().prepare(program, graph, features, device, phases)
        self.executor.loop = in_place_loop
        assert self.planned is not None
        self.deterministic = self.taken.ordered_by_batches or self.planned.rules.threads == 1
        self._steps = [stage.name for stage in program.stages if isinstance(stage, EdgeStep)]

    def ordered_superstep(self) -> Mapping[str, NDArray[np.integer[Any]] | float]:
        """Run one superstep; return the order of batches, or one that locks have led to (:mod:`.stamps`).

        Without locks, the share of updates that were lost.
        """
        assert self.planned is not None
        if self.taken.order == "hogwild":
            return self._lossy_superstep()
        if self.taken.ordered_by_batches:
            self.run(1)
            order = self._batches().edges
            return dict.fromkeys(self._steps, order)
        arrays, graph = self.executor.memory.arrays, self.executor.store.graph
        for step in self._steps:
            arrays[stamps_of(step)] = np.full(2 * graph.num_edges, -1, np.int32)
            arrays[counters_of(step)] = np.zeros(graph.num_vertices, np.int32)
        self.run(1)
        nothing = np.zeros(0, np.int32)
        found = {}
        for step in self._steps:
            stamps = arrays[stamps_of(step)].reshape(-1, 2)
            arrays[stamps_of(step)] = arrays[counters_of(step)] = nothing
            found[step] = serial_order(graph.csr.row_of_edge, graph.csr.neighbours, stamps)
        return found

    def _batches(self) -> Batches:
        assert self.planned is not None
        store, schedule = self.executor.store, self.planned.schedule
        if schedule.order == "grid":
            return store.table(GridTable(schedule))[0].batches
        return store.table(BatchTable(schedule)).batches

    def _lossy_superstep(self) -> dict[str, float]:
        arrays, graph = self.executor.memory.arrays, self.executor.store.graph
        for step in self._steps:
            arrays[counters_of(step)] = np.zeros(graph.num_vertices, np.int32)
        self.run(1)
        degrees = np.diff(graph.csr.offsets) + np.diff(graph.csc.offsets)
        found = {step: lost_share(degrees, arrays[counters_of(step)]) for step in self._steps}
        arrays |= {counters_of(step): np.zeros(0, np.int32) for step in self._steps}
        return found

    def explain(self) -> str:
        """Return the estimates of ``order=auto``, the schedule, the source, and, once prepared, batches or passes."""
        parts = [*([self._estimates] if self._estimates else []), super().explain()]
        if self._executor is not None and self.taken.order != "hogwild":
            parts.append(self._observed())
        return "\n\n".join(parts)

    def _observed(self) -> str:
        """Return the number and sizes of batches, or the passes of the last superstep."""
        if self.taken.ordered_by_batches:
            sizes = self._batches().sizes
            largest, median = int(sizes.max(initial=0)), float(np.median(sizes)) if len(sizes) else 0.0
            return f"{len(sizes):,} batches of {largest:,} edges at most, {median:,.0f} in the median"
        arrays = self.executor.memory.arrays
        return "; ".join(
            f"passes of {step}: {arrays[passes_of(step)][0]} in the last superstep" for step in self._steps
        )


def in_place_loop(run: Run, steps: Sequence[Step], movement: object, max_supersteps: int) -> RunStatistics:
    """Run a fixed number of supersteps, in each of which every vertex is active; supply their numbers."""
    statistics = RunStatistics(settled=False)
    vertices = run.rules.graph.num_vertices
    for _ in range(max_supersteps):
        run.begin_superstep()
        if "graph_superstep" in run.memory.arrays:
            run.memory.arrays["graph_superstep"][:] = run.superstep_index
        for step in steps:
            step()
        run.end_superstep()
        run.active = vertices
        statistics.supersteps.append(Superstep(vertices, run.edges, "dense"))
    return statistics
