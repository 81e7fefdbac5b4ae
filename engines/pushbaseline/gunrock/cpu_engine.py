"""Gunrock style: advance - filter - compute over an explicit frontier (Wang et al. 2016).

*Advance* visits the edges of the sources in the frontier and combines their messages at the destinations. *Filter*
makes the next frontier from the changes. *Compute* steps vertices. Every operator is its own kernel, intermediate
values go through memory, and only changes are propagated.

On the CPU a thread owns a range of destinations and advances all of the frontier's edges into it. No atomics are
needed, which are the slowest operation on a CPU. Rows are vector values, as in all engines.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engines.pushbaseline.gunrock.resolve import resolve
from engines.pushbaseline.schedules import GunrockSchedule
from harness.api import (
    DeviceFacts,
    FoldGroup,
    GraphFacts,
    GraphReduce,
    No,
    Program,
    change_driven,
)
from harness.api.cpu import (
    HUB_ARGUMENTS,
    CpuEngine,
    CpuPlan,
    CpuPolicy,
    CpuSetting,
    Holds,
    Hubs,
    Kernel,
    KernelBuilder,
    LoweredProgram,
    Owned,
    PlanDraft,
    Resending,
    Run,
    SentEdges,
    Step,
    Structure,
    add_change_sums,
    change_prefix,
    plan_count,
    plan_graph,
    plan_sent_edges,
    plan_update,
    push_template,
    steps_folded,
    sum_hubs_in_runs,
    unsupported,
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
    {edge}
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

    def plan(self, program: Program, graph: GraphFacts, features: int, device: DeviceFacts) -> CpuPlan | No:
        """Return the plan of the schedule (:func:`plan`)."""
        return plan(program, self.schedule, graph, features, device, self.runs)


# planning -------------------------------------------------------------------------------------------------------------
def plan(
    program: Program, schedule: GunrockSchedule, graph: GraphFacts, features: int, device: DeviceFacts,
    runs: CpuPolicy,
) -> CpuPlan | No:  # fmt: skip
    """Plan advance, filter and compute in the order of the stages; No with the reason if a program cannot run."""
    reason = refusal(program, schedule, graph, features)
    if reason:
        return No(reason)
    setting = CpuSetting.of(
        program, graph, features, device, operators, direction="push", changes=True, rebuild=schedule.rebuild,
        policy=runs,
    )  # fmt: skip
    draft, advanced = PlanDraft(setting), []
    for group in setting.tracking.groups:
        stage = group.stages[0]
        if isinstance(stage, GraphReduce):
            plan_graph(draft, stage)
        elif group.kind == "vertex":
            plan_compute(draft, group)
        elif group.kind == "update":
            plan_update(draft, group)
        else:
            advanced.append(setting.tracking.name(group))
            plan_advance(draft, group)
    plan_count(draft, tuple(advanced))
    # begins with the frontier of the senders; kept sums must first be built from all vertices
    narrowing = Resending() if setting.accumulators.extrema else None
    return draft.finish("GunrockCpuEngine", resolve(schedule, device), narrowing=narrowing)


def refusal(program: Program, schedule: GunrockSchedule, graph: GraphFacts, features: int) -> str:
    """Return why this schedule cannot run the program; empty if it can."""
    lowered = LoweredProgram.of(program).program
    reason = unsupported(lowered, graph, features, change_driven=True, tracks_edges=True)
    if reason:
        return reason
    for name in GunrockSchedule.GPU_ONLY:
        if getattr(schedule, name) is not None:
            return f"schedule option {name} has no meaning on the CPU; leave it unset"
    forms = change_driven(lowered)
    return forms if isinstance(forms, str) else ""


def operators(program: Program) -> tuple[FoldGroup, ...]:
    """Return one group per edge operator; consecutive vertex steps share a frontier, with one kernel per step."""
    return steps_folded(program)


# compute --------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class ComputePass:
    """A run of vertex steps on the frontier of vertices that are flagged in ``dirty``; ``kernels``: one per step."""

    dirty: str
    kernels: tuple[str, ...]

    def bound(self, run: Run) -> Step:
        """Return the step that steps the vertices of the frontier."""

        def step() -> None:
            dirty = run.memory.arrays[self.dirty]
            first, last = int(run.bounds[0]), int(run.bounds[-1])
            frontier = first + np.flatnonzero(dirty[first:last])
            dirty[first:last] = False
            parts = min(run.threads * PARTS_PER_THREAD, -(-len(frontier) // SMALLEST_PART))
            bounds = np.linspace(0, len(frontier), parts + 1).astype(np.int64)
            for kernel in self.kernels:
                run.call(kernel, parts, bounds=bounds, frontier=frontier)

        return step


def plan_compute(draft: PlanDraft, group: FoldGroup) -> None:
    """Add a kernel for every vertex step of a run; all of them process the frontier of dirty vertices."""
    setting, tracking = draft.setting, draft.setting.tracking
    name = tracking.name(group)
    draft.flags(f"dirty_{name}", Holds.DIRTY, name, True)
    for step in group.vertex_steps:
        signature = [("bounds", "i64"), ("frontier", "i64")]
        builder = KernelBuilder(step.name, setting.program, setting.layout, COMPUTE, signature)
        builder.bind("v", "vertex", "v")
        live = tracking.live([step])
        writes = [(written, value) for written, value in step.values if written in live]
        write_back(builder, tracking, group, writes, "vertex")
        draft.kernels.append(builder.finish())
    draft.passes.append(ComputePass(f"dirty_{name}", tuple(step.name for step in group.vertex_steps)))


# advance and filter ---------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class AdvancePass:
    """One edge operator.

    ``collecting``: kernels that add sums of changes to accumulators. ``stale``: flags of the readers of the
    accumulator. ``counted``: the edges of the frontier were counted when it was made.
    """

    name: str
    into: str
    edges: SentEdges
    hubs: Hubs
    collecting: tuple[str, ...]
    stale: tuple[str, ...]
    counted: bool

    def bound(self, run: Run) -> Step:
        """Return the step that advances."""
        return Advance(self, run).step


class Advance:
    """An advance in a run."""

    def __init__(self, plan: AdvancePass, run: Run) -> None:
        self.plan, self.run = plan, run
        self.offsets = run.store.structure(Structure.OUT_OFFSETS)
        self.everyone = np.arange(run.rules.graph.num_vertices, dtype=np.int64)
        self.hubs = run.store.table(plan.hubs)

    def step(self) -> None:
        """Advance over the frontier of the sources that moved."""
        plan, run, offsets = self.plan, self.run, self.offsets
        first, last = (int(end) for end in run.sides[(run.superstep_index + 1) % len(run.sides)][[0, -1]])
        rebuild, edges = run.rebuilding(), plan.edges
        active = run.memory.arrays[f"active_{plan.name}"][first:last]
        if rebuild:
            frontier = self.everyone[first:last]
            run.call(f"clear_{plan.into}", len(run.bounds) - 1, bounds=run.bounds)
        else:
            moved = active | run.memory.arrays[edges.rows][first:last] if edges.reads else active
            frontier = first + np.flatnonzero(moved)
        runs = {
            "run_starts": np.zeros(run.threads, np.int64),
            "run_ends": np.searchsorted(frontier, self.hubs.ends).astype(np.int64, copy=False),
        }
        run.call(plan.name if rebuild else f"{plan.name}_changes", run.threads, frontier=frontier, **runs)
        if rebuild:
            run.edges += int(offsets[last] - offsets[first])
            run.active_sources.all_propagated(plan.name, first=first, last=last)
            edges.all_propagated(run)
            for flags in plan.stale:
                run.memory.set_flags(flags, True)
            return
        for kernel in plan.collecting:
            run.call(kernel, len(run.bounds) - 1, bounds=run.bounds)
        if plan.counted:
            run.edges += run.active_sources.edges[plan.name]
        else:
            run.edges += int(np.diff(offsets[first : last + 1])[active].sum())
        run.edges += edges.propagated(run)
        parts = run.rules.partition.bounds(offsets, first, last)
        run.call(f"sent_{plan.name}", len(parts) - 1, bounds=parts)


def plan_advance(draft: PlanDraft, group: FoldGroup) -> None:
    """Add the kernels and the pass of one edge operator."""
    setting, tracking = draft.setting, draft.setting.tracking
    (stage,) = group.edge_stages
    hubs = Hubs(setting.threads)
    draft.table(Owned(setting.threads))
    draft.table(hubs)
    collecting = add_change_sums(draft, [stage])
    draft.frontier(group)
    edges = plan_sent_edges(draft, group)
    for changes in (False, True):
        draft.kernels.append(advance_kernel(draft, group, edges, changes=changes))
    stale = tuple(f"dirty_{tracking.name(reader)}" for reader in tracking.stale_groups(stage.into))
    single = sum(bool(other.edge_stages) for other in tracking.groups) == 1 and not setting.alternates
    counted = single and not tracking.moved_before(group)
    draft.passes.append(AdvancePass(stage.name, stage.into, edges, hubs, collecting, stale, counted))


def advance_kernel(draft: PlanDraft, group: FoldGroup, edges: SentEdges, *, changes: bool) -> Kernel:
    """Build the kernel that sends whole messages, or their changes, from the frontier."""
    setting, tracking = draft.setting, draft.setting.tracking
    (stage,) = group.edge_stages
    name = f"{stage.name}_changes" if changes else stage.name
    signature = [
        *HUB_ARGUMENTS, ("frontier", "i64"), ("owned", "i64"), ("out_offsets", "offsets"),
        ("out_neighbours", setting.ids),
    ]  # fmt: skip
    edge = ""
    if changes and edges.reads:
        active, changed = f"active_{stage.name}", edges.changed
        signature += [(active, "flag"), (changed, "flag")]
        edge = MOVED.format(active=active, changed=changed)
    template = push_template("i", ADVANCE.format(edge=edge))
    builder = KernelBuilder(name, setting.program, setting.layout, template, signature, items="frontier")
    builder.blocks["part"].line("cuts = len(hub_bounds)")
    builder.bind("src", "source", "u")
    builder.bind("sent", "source", "u", f"sent_{stage.name}_")
    draft.bind_edges(builder, [stage], "csr", stage.name)
    builder.bind("dst", "edge", "v")
    messages = {form.reduction.name: form.message for form in setting.forms}
    readers = tracking.stale_groups(stage.into) if changes else ()
    prefix = change_prefix(setting, stage) if changes else "vertex_"
    marks = [f"dirty_{tracking.name(reader)}" for reader in readers]
    builder.push(stage, messages[stage.name] if changes else stage.message, "edge", marks, prefix=prefix)
    sum_hubs_in_runs(draft, builder, [stage], prefix=prefix)
    return builder.finish()
