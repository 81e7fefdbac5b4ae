"""Gunrock style: advance - filter - compute over an explicit frontier (Wang et al. 2016).

*Advance* visits the edges of the sources in the frontier and combines their messages at the destinations. *Filter*
makes the next frontier from the changes. *Compute* steps vertices. Every operator is its own kernel, intermediate
values go through memory, and only changes are propagated.

On the CPU a thread owns a range of destinations and advances all of the frontier's edges into it. No atomics are
needed, which are the slowest operation on a CPU. Rows are vector values, as in all engines.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engines.pushbaseline.schedules import GunrockSchedule
from harness.api import (
    HUB_ARGUMENTS,
    CpuEngine,
    Device,
    FoldGroup,
    Graph,
    GraphReduce,
    KeptAccumulators,
    Kernel,
    KernelBuilder,
    Program,
    SentEdges,
    add_change_sums,
    balanced_bounds,
    change_driven,
    change_prefix,
    collect_changes,
    hub_runs,
    owned_edges,
    owner_bounds,
    push_template,
    sum_hubs_in_runs,
    unfolded,
    write_back,
)

ADVANCE = """
u = at(frontier, i)
first = at(owned, u * cuts + t)
stop = at(owned, u * cuts + t + 1)
if first == stop:
    continue
@source
for e in range(first, stop):
    {arc}
    v = at(out_neighbours, e)
    @edge
"""

MOVED = """if not at({active}, u) and not at({changed}, e):
        continue"""

COMPUTE = """
    @part
    for i in range(bounds[t], bounds[t + 1]):
        v = at(frontier, i)
        @vertex
"""
PARTS_PER_THREAD = 8
SMALLEST_PART = 1024  # vertices


class GunrockCpuEngine(CpuEngine):
    """Push, change-driven, one kernel per operator."""

    schedule: GunrockSchedule
    direction = "push"
    change_driven = True

    def refusal(self, program: Program, graph: Graph, features: int, device: Device) -> str:
        """Return why this schedule cannot run the program; empty if it can."""
        reason = super().refusal(program, graph, features, device)
        if reason:
            return reason
        if self.schedule.balance is not None:
            return "schedule option balance has no meaning on the CPU; leave it unset"
        forms = change_driven(program)
        return forms if isinstance(forms, str) else ""

    def narrow(self, stale: NDArray[np.bool_], senders: NDArray[np.bool_]) -> None:
        """Begin with the frontier of the senders; kept sums must first be built from all vertices."""
        if self.accumulators.extrema:
            self.begin_with(stale, senders)

    def groups(self) -> tuple[FoldGroup, ...]:
        """Return one group per edge operator; consecutive vertex steps share a frontier, with one kernel per step."""
        groups: list[FoldGroup] = []
        for group in unfolded(self.program):
            if group.kind == "vertex" and groups and groups[-1].kind == "vertex":
                groups[-1] = FoldGroup("vertex", (*groups[-1].stages, *group.stages))
            else:
                groups.append(group)
        return tuple(groups)

    def plan(self) -> None:
        """Plan advance, filter and compute in the order of the stages."""
        forms = change_driven(self.program)
        assert not isinstance(forms, str)
        self.deltas = {form.reduction.name: form for form in forms}
        self.accumulators = KeptAccumulators.of(self.program, self.graph.facts, forms, self.schedule.rebuild)
        self.advanced: list[FoldGroup] = []
        self.sent_edges: dict[str, SentEdges] = {}
        out, into = self.graph.csr, self.graph.csc
        bounds = owner_bounds(into.offsets, self.threads)
        self.memory.add("owned", owned_edges(out.offsets, out.neighbours, bounds))
        self.runs = hub_runs(self.graph, bounds)
        self.runs.place(self.memory)
        self.everyone = np.arange(self.graph.num_vertices, dtype=np.int64)
        for group in self.tracking.groups:
            stage = group.stages[0]
            if isinstance(stage, GraphReduce):
                self.plan_graph(stage)
            elif group.kind == "vertex":
                self.plan_compute(group)
            elif group.kind == "update":
                self.plan_update(group)
            else:
                self.plan_advance(group)
        self.steps.append(lambda: self.active_sources.count_moved(self.advanced))

    # compute ----------------------------------------------------------------------------------------------------
    def plan_compute(self, group: FoldGroup) -> None:
        """Add a kernel for every vertex step of a run; all of them process the frontier of dirty vertices."""
        name = self.tracking.name(group)
        self.memory.add_flags(f"dirty_{name}", True)
        for step in group.vertex_steps:
            builder = KernelBuilder(
                step.name, self.program, self.layout, COMPUTE, [("bounds", "i64"), ("frontier", "i64")]
            )
            builder.bind("v", "vertex", "v")
            live = self.tracking.live([step])
            writes = [(written, value) for written, value in step.values if written in live]
            write_back(builder, self.tracking, group, writes, "vertex")
            self.add_kernel(builder.finish())
        self.steps.append(lambda: self.compute(group))

    def compute(self, group: FoldGroup) -> None:
        """Step the vertices of the frontier."""
        dirty = self.memory.arrays[f"dirty_{self.tracking.name(group)}"]
        first, last = int(self.bounds[0]), int(self.bounds[-1])
        frontier = first + np.flatnonzero(dirty[first:last])
        dirty[first:last] = False
        parts = min(self.threads * PARTS_PER_THREAD, -(-len(frontier) // SMALLEST_PART))
        bounds = np.linspace(0, len(frontier), parts + 1).astype(np.int64)
        for step in group.vertex_steps:
            self.call(step.name, parts, bounds=bounds, frontier=frontier)

    # advance and filter -----------------------------------------------------------------------------------------
    def plan_advance(self, group: FoldGroup) -> None:
        """Add the kernels of one edge operator."""
        (stage,) = group.edge_stages
        self.advanced.append(group)
        add_change_sums(self, group.edge_stages)
        self.active_sources.plan(group)
        self.sent_edges[stage.name] = SentEdges(self, group)
        for changes in (False, True):
            self.add_kernel(self.advance_kernel(group, changes=changes))
        self.steps.append(lambda: self.advance(group))

    def advance_kernel(self, group: FoldGroup, *, changes: bool) -> Kernel:
        """Build the kernel that sends whole messages, or their changes, from the frontier."""
        (stage,) = group.edge_stages
        name = f"{stage.name}_changes" if changes else stage.name
        signature = [
            *HUB_ARGUMENTS, ("frontier", "i64"), ("owned", "i64"), ("out_offsets", "offsets"),
            ("out_neighbours", self.ids),
        ]  # fmt: skip
        arc = ""
        if changes and self.sent_edges[stage.name].reads:
            active, changed = f"active_{stage.name}", self.sent_edges[stage.name].changed
            signature += [(active, "flag"), (changed, "flag")]
            arc = MOVED.format(active=active, changed=changed)
        builder = KernelBuilder(name, self.program, self.layout, push_template("i", ADVANCE.format(arc=arc)), signature)
        builder.blocks["part"].line("cuts = len(hub_bounds)")
        builder.bind("src", "source", "u")
        builder.bind("sent", "source", "u", f"sent_{stage.name}_")
        self.bind_edges(builder, [stage], "csr", stage.name)
        builder.bind("dst", "edge", "v")
        message = self.deltas[stage.name].message if changes else stage.message
        readers = self.tracking.stale_groups(stage.into) if changes else ()
        prefix = change_prefix(self, stage) if changes else "vertex_"
        marks = [f"dirty_{self.tracking.name(reader)}" for reader in readers]
        builder.push(stage, message, "edge", marks, prefix=prefix)
        sum_hubs_in_runs(builder, [stage], self.memory, len(self.runs.hubs), prefix=prefix)
        return builder.finish()

    def advance(self, group: FoldGroup) -> None:
        """Run one advance over the frontier of the sources that moved."""
        (stage,) = group.edge_stages
        first, last = (int(end) for end in self.sides[(self.superstep_index + 1) % len(self.sides)][[0, -1]])
        rebuild, sent_edges = self.rebuilding(), self.sent_edges[stage.name]
        active = self.memory.arrays[f"active_{stage.name}"][first:last]
        if rebuild:
            frontier = self.everyone[first:last]
            self.call(f"clear_{stage.into}", len(self.bounds) - 1, bounds=self.bounds)
        else:
            frontier = first + np.flatnonzero(active | sent_edges.sources[first:last] if sent_edges.reads else active)
        name = stage.name if rebuild else f"{stage.name}_changes"
        runs = {
            "run_starts": np.zeros(self.threads, np.int64),
            "run_ends": np.searchsorted(frontier, self.runs.ends).astype(np.int64, copy=False),
        }
        self.call(name, self.threads, frontier=frontier, **runs)
        if not rebuild:
            collect_changes(self, group.edge_stages)
        offsets = self.graph.csr.offsets
        counted = len(self.advanced) == len(self.sides) == 1 and not self.tracking.moved_before(group)
        if rebuild:
            self.edges += int(offsets[last] - offsets[first])
        elif counted:
            self.edges += self.active_sources.arcs[stage.name]  # counted when the frontier was made
        else:
            self.edges += int(np.diff(offsets[first : last + 1])[active].sum())
        if rebuild:
            self.active_sources.all_propagated(group, first=first, last=last)
            sent_edges.all_propagated()
            for reader in self.tracking.stale_groups(stage.into):
                self.memory.set_flags(f"dirty_{self.tracking.name(reader)}", True)
        else:
            self.edges += sent_edges.propagated()
            parts = balanced_bounds(offsets, first, last, self.threads)
            self.call(f"sent_{stage.name}", len(parts) - 1, bounds=parts)
