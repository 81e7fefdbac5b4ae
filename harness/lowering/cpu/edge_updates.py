"""Edge updates as passes of a superstep: of all edges, or of the rows whose inputs have moved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from harness.language.analysis import FoldGroup
from harness.lowering.buffers import Holds, Order
from harness.lowering.cpu.buffers import CpuBuffer
from harness.lowering.cpu.edge_kernels import UpdateKernels
from harness.lowering.cpu.frontier import count_kernel
from harness.lowering.cpu.plan import PlanDraft
from harness.lowering.cpu.run import Run, Step
from harness.lowering.cpu.tables import SourceParts
from harness.lowering.edge_tables import Places, Reverse


@dataclass(frozen=True)
class EdgeUpdatePass:
    """One edge update.

    All values are computed from those before the step, so there are two buffers. A step over all edges writes every
    value to the second buffer, and the two buffers swap. A step over dirty rows writes only edges that moved to the
    second buffer, and they are copied at once. Between steps the first buffer holds the value of every edge, and the
    second holds nothing that is read.

    ``current``, ``spare``: the two buffers. ``reads_sources``: the update reads changing properties of vertices.
    ``reads_reverse``: old values that it writes are read from the reverse edges. ``reads_itself``: what it writes makes
    rows of the same update dirty.
    """

    name: str
    current: str
    spare: str
    num_edges: int
    change_driven: bool
    reads_sources: bool
    reads_reverse: bool
    reads_itself: bool

    def bound(self, run: Run) -> Step:
        """Return the step that updates edges."""
        bounds = run.active_sources.bounds
        parts, memory, dirty = len(bounds) - 1, run.memory, f"dirty_{self.name}"

        def update(kernel: str) -> None:
            run.workers = run.threads  # there may be many dirty rows although few sources are active
            run.call(kernel, parts, bounds=bounds)
            run.moved += int(memory.arrays["counts"][:parts].sum())

        def everything() -> None:
            update(self.name)
            memory.swap(self.current, self.spare)
            run.edges += self.num_edges

        def changes() -> None:
            if run.superstep_index == 0:
                run.active_sources.all_propagated(self.name)  # all rows are dirty
            elif self.reads_sources:
                run.active_sources.mark(self.name)
            _, edges = run.active_sources.count(self.name, flag="dirty")
            if edges > run.rules.policy.update_share * self.num_edges:
                everything()
                memory.set_flags(dirty, False)
            elif edges:
                update(f"{self.name}_changes")
                if self.reads_reverse:
                    run.call(f"{self.name}_commit", parts, bounds=bounds)
                run.edges += edges
            if self.reads_itself:
                memory.swap_flags(dirty, f"next_{dirty}")

        return changes if self.change_driven else everything


def plan_update(draft: PlanDraft, group: FoldGroup) -> None:
    """Add the kernels of an edge update, by row of sources."""
    setting, tracking = draft.setting, draft.setting.tracking
    order: Literal["csc", "csr"] = "csc" if setting.direction == "pull" else "csr"
    kernels = UpdateKernels(tracking, group, setting.layout, order, setting.ids, feature_aware=setting.feature_aware)
    name, stage = tracking.name(group), kernels.stage
    prop, edges = setting.program.properties[stage.updates], setting.facts.num_edges
    current, spare = f"{order}_{stage.updates}", f"next_{order}_{stage.updates}"
    draft.buffer(CpuBuffer.of_property(prop, Order(order), setting.facts, setting.layout))
    draft.buffer(CpuBuffer.of_values(spare, Holds.SECOND, prop, edges, setting.layout))
    draft.table(Reverse())
    draft.table(SourceParts(setting.partition))
    if order == "csc":
        draft.table(Places())
    draft.kernels.append(kernels.everything())
    if setting.change_driven:
        _plan_changes(draft, group, kernels)
    draft.passes.append(
        EdgeUpdatePass(
            name,
            current,
            spare,
            edges,
            setting.change_driven,
            bool(tracking.sources(group)),
            kernels.reads_reverse,
            kernels.reads_itself,
        )
    )


def _plan_changes(draft: PlanDraft, group: FoldGroup, kernels: UpdateKernels) -> None:
    setting, tracking = draft.setting, draft.setting.tracking
    name = tracking.name(group)
    dirty = f"dirty_{name}"
    draft.flags(dirty, Holds.DIRTY, name, True)
    if kernels.reads_itself:
        draft.flags(f"next_{dirty}", Holds.SECOND, name, False)
    marks = {"own": [dirty]} | ({"in": [dirty]} if tracking.destinations(group) else {})
    draft.frontier(group, marks=marks)
    draft.kernels.append(count_kernel(tracking, group, setting.layout, flag="dirty"))
    draft.kernels.append(kernels.changes())
    if kernels.reads_reverse:
        draft.flags("fresh", Holds.FRESH, name, False)
        draft.array(f"far_{name}", Holds.FAR, name, "bool", setting.facts.num_edges)
        draft.kernels.append(kernels.commit())
