"""Passes that most engines have: vertex steps, reductions over the graph, counting what has moved."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from harness.language.analysis import FoldGroup
from harness.language.program import GraphReduce, Reducer, VertexReduce
from harness.language.reference import segment_reduce
from harness.lowering.buffers import Holds
from harness.lowering.cpu.plan import PlanDraft
from harness.lowering.cpu.run import Run, Step
from harness.lowering.cpu.tables import SideParts
from harness.lowering.cpu.vertex_kernels import fill_kernel, graph_kernel, named_kernel, vertex_kernel


@dataclass(frozen=True)
class VertexPass:
    """Vertex steps in one kernel."""

    kernel: str

    def bound(self, run: Run) -> Step:
        """Return the step that runs the kernel over the vertices that a superstep updates."""
        counts = run.memory.arrays["counts"]

        def step() -> None:
            parts = len(run.bounds) - 1
            run.call(self.kernel, parts, bounds=run.bounds)
            run.moved += int(counts[:parts].sum())

        return step


@dataclass(frozen=True)
class GraphPass:
    """A reduction over the graph, of partial results by part. ``stale``: flags that a new value sets."""

    kernel: str
    into: str
    reducer: Reducer
    stride: int
    parts: SideParts
    stale: tuple[str, ...]

    def bound(self, run: Run) -> Step:
        """Return the step that reduces on all threads and combines the partial results in float64."""
        (whole,) = run.store.table(self.parts)
        partial, target = run.memory.arrays[f"partial_{self.kernel}"], f"graph_{self.into}"

        def step() -> None:
            run.workers = run.threads
            run.call(self.kernel, len(whole) - 1, bounds=whole)
            rows = partial.reshape(-1, self.stride).astype(np.float64)
            total = segment_reduce(rows, np.array([0, len(rows)]), self.reducer).astype(np.float32).reshape(-1)
            value = run.memory.arrays[target]
            if self.stale and not np.array_equal(total, value):
                for flags in self.stale:
                    run.memory.set_flags(flags, True)
            value[:] = total

        return step


@dataclass(frozen=True)
class NamedPass:
    """A reduction at named vertices: clear the accumulator ``into``, and reduce the value of every vertex."""

    kernel: str
    into: str

    def bound(self, run: Run) -> Step:
        """Return the step that clears and reduces."""

        def step() -> None:
            run.workers = run.threads
            for kernel in (f"clear_{self.into}", self.kernel):
                run.call(kernel, len(run.bounds) - 1, bounds=run.bounds)

        return step


@dataclass(frozen=True)
class CountMoved:
    """Count the active sources of the groups at the end of a superstep."""

    groups: tuple[str, ...]

    def bound(self, run: Run) -> Step:
        """Return the step that counts."""

        def step() -> None:
            run.moved += run.active_sources.count_moved(self.groups)

        return step


def plan_vertices(draft: PlanDraft, group: FoldGroup) -> None:
    """Add a kernel for a group of vertex steps."""
    setting = draft.setting
    kernel = vertex_kernel(setting.tracking, group, setting.layout, feature_aware=setting.feature_aware)
    draft.kernels.append(kernel)
    if setting.change_driven:
        draft.flags(f"dirty_{kernel.name}", Holds.DIRTY, kernel.name, True)
    draft.passes.append(VertexPass(kernel.name))


def plan_graph(draft: PlanDraft, stage: GraphReduce) -> None:
    """Add a kernel for a reduction over the graph. Under change tracking a new value makes its readers stale."""
    setting, tracking, graph = draft.setting, draft.setting.tracking, draft.setting.facts
    draft.kernels.append(graph_kernel(setting.program, stage, setting.layout, feature_aware=setting.feature_aware))
    stride = setting.layout.stride(stage.value.shape)
    parts = setting.partition.count(graph.num_vertices, graph.num_edges)
    draft.array(f"partial_{stage.name}", Holds.WORK, stage.into, "float32", parts * stride)
    whole = SideParts(setting.partition, alternate=False)
    draft.table(whole)
    readers = [g for g in tracking.groups if g.kind != "graph" and stage.into in tracking.of_graph(g)]
    stale = tuple(f"dirty_{tracking.name(reader)}" for reader in readers) if setting.change_driven else ()
    draft.passes.append(GraphPass(stage.name, stage.into, stage.reducer, stride, whole, stale))


def plan_named(draft: PlanDraft, stage: VertexReduce) -> None:
    """Add the kernels of a reduction at named vertices; changes are not tracked."""
    setting = draft.setting
    kernel = named_kernel(setting.program, stage, setting.layout, feature_aware=setting.feature_aware)
    draft.kernels += [fill_kernel(setting.program, stage, setting.layout), kernel]
    draft.passes.append(NamedPass(stage.name, stage.into))


def plan_count(draft: PlanDraft, gathered: tuple[str, ...]) -> None:
    """Add the count of active sources at the end of a superstep."""
    draft.passes.append(CountMoved(draft.counted(gathered)))
