"""Edge updates as steps of a superstep: of all edges, or of the rows whose inputs have moved."""

from __future__ import annotations

from typing import Literal

import numpy as np

from harness.language.analysis import FoldGroup
from harness.lowering.cpu.active_sources import ActiveSources
from harness.lowering.cpu.edge_kernels import UpdateKernels
from harness.lowering.cpu.frontier import count_kernel
from harness.lowering.cpu.partition import balanced_bounds
from harness.lowering.cpu.step_engine import StepEngine
from harness.lowering.edge_order import places
from harness.lowering.layout import aligned_zeros

DENSE_SHARE = 0.6  # of the edges; from this share on, one pass over all is cheaper than a pass and copying what moved


class EdgeUpdates:
    """One edge update of an engine.

    All values are computed from those before the step, so there are two buffers. A step over all edges writes every
    value to the second buffer, and the two buffers swap. A step over dirty rows writes only edges that moved to the
    second buffer, and they are copied at once. Between steps the first buffer holds the value of every edge, and the
    second holds nothing that is read.
    """

    def __init__(self, engine: StepEngine, active_sources: ActiveSources, group: FoldGroup) -> None:
        self.engine, self.active_sources, self.group = engine, active_sources, group
        order: Literal["csc", "csr"] = "csc" if engine.direction == "pull" else "csr"
        self.kernels = UpdateKernels(
            engine.tracking, group, engine.layout, order, engine.ids, feature_aware=engine.feature_aware
        )
        self.name = engine.tracking.name(group)
        graph, memory, stage = engine.graph, engine.memory, self.kernels.stage
        shape = engine.program.properties[stage.updates].shape
        self.current, self.spare = f"{order}_{stage.updates}", f"next_{order}_{stage.updates}"
        memory.need([self.current])
        memory.add(self.spare, aligned_zeros(graph.num_edges * engine.layout.stride(shape), np.float32))
        memory.add("reverse", graph.in_edge_ids)
        if order == "csc":
            memory.add("places", places(graph))
        self.bounds = balanced_bounds(graph.csr.offsets, 0, graph.num_vertices, engine.threads)
        engine.most_parts = max(engine.most_parts, len(self.bounds))
        engine.add_kernel(self.kernels.everything())
        if engine.change_driven:
            self._plan_changes()

    def _plan_changes(self) -> None:
        engine, memory = self.engine, self.engine.memory
        dirty = f"dirty_{self.name}"
        memory.add_flags(dirty, True)
        if self.kernels.reads_itself:
            memory.add_flags(f"next_{dirty}", False)
        of_destinations = set(engine.tracking.destinations(self.group))
        marks = {"own": [dirty]} | ({"in": [dirty]} if of_destinations else {})
        self.active_sources.plan(self.group, marks=marks)
        self.active_sources.updates.append(self.group)
        engine.add_kernel(count_kernel(engine.tracking, self.group, engine.layout, flag="dirty"))
        engine.add_kernel(self.kernels.changes())
        if self.kernels.reads_reverse:
            memory.add_flags("fresh", False)
            memory.add(f"far_{self.name}", np.zeros(engine.graph.num_edges, np.bool_))
            engine.add_kernel(self.kernels.commit())

    def everything(self) -> None:
        """Update all edges."""
        self._run(self.name)
        arrays = self.engine.memory.arrays
        arrays[self.current], arrays[self.spare] = arrays[self.spare], arrays[self.current]
        self.engine.edges += self.engine.graph.num_edges

    def changes(self) -> None:
        """Update the edges of dirty rows, or all edges if most are in dirty rows."""
        engine = self.engine
        if engine.superstep_index == 0:
            self.active_sources.all_propagated(self.group)  # all rows are dirty
        elif engine.tracking.sources(self.group):
            self.active_sources.mark(self.group)
        _, arcs = self.active_sources.count(self.group, flag="dirty")
        dirty = f"dirty_{self.name}"
        if arcs > DENSE_SHARE * engine.graph.num_edges:
            self.everything()
            engine.memory.set_flags(dirty, False)
        elif arcs:
            self._run(f"{self.name}_changes")
            if self.kernels.reads_reverse:
                engine.call(f"{self.name}_commit", len(self.bounds) - 1, bounds=self.bounds)
            engine.edges += arcs
        if self.kernels.reads_itself:
            engine.memory.swap_flags(dirty, f"next_{dirty}")

    def _run(self, kernel: str) -> None:
        engine, parts = self.engine, len(self.bounds) - 1
        engine.workers = engine.threads  # there may be many dirty rows although few sources are active
        engine.call(kernel, parts, bounds=self.bounds)
        engine.moved += int(engine.memory.arrays["counts"][:parts].sum())
