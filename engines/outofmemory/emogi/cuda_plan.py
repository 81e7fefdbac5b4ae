"""EMOGI style on CUDA devices: push from the vertices that moved, over edges in host memory (Min et al. 2020).

Kernels test the flags of all vertices, as the original does. A superstep has one traversal of edges and one update of
vertices. A program without a change-driven form pushes from all vertices in every superstep.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from engines.outofmemory.emogi.cuda_access_patterns import count_template, reads_ahead, visit_template
from engines.outofmemory.emogi.resolve import resolve
from harness.api import EdgeReduce, No, change_driven, mutable, reads
from harness.api.cuda import (
    CHANGING,
    IDENTITY,
    NEVER,
    OVER,
    REBUILDING,
    KeptAccumulators,
    LoweredProgram,
    Over,
    ThreadPlanner,
    Thresholds,
    Visits,
    collect_kernel,
    cuda_write_back,
    refusal,
    store_sent,
    thread_setting,
    work,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engines.outofmemory.schedules import EmogiSchedule
    from harness.api import DeviceFacts, FoldGroup, GraphFacts, Program
    from harness.api.cuda import Condition, CudaKernel, CudaKernelBuilder, CudaPlan, CudaSetting, Delta

FOLDER = Path(__file__).parent
# If nearly all sources are active, whole messages read as many edges as changes, and rounding errors do not add up.
REBUILD_SHARE = 0.9
LANES = {"naive": 1.0, "merged": 32.0, "aligned": 32.0, "chunk": 4.0, "tiled": 1.0}  # that read the edges of one vertex
# Patterns in which a warp looks at 32 vertices at a time, and the blocks of their kernels that a multiprocessor can run
# at once, at least, with up to 4 features and with more. Without a number the compiler aims at more blocks, and more
# kernels spill registers.
AT_ONCE = (5, 4)
BATCHED = ("merged", "aligned", "chunk")
REQUESTS, COUNTED = "requests", 5  # requests of 32, 64, 96 and 128 bytes, and elements read
CACHED = "cached_requests"  # the same for edges that are cached on the device

LIST = """
    @kernel
    for (Id base = first + blockIdx.x * BLOCK; base < last; base += threads_of_grid()) {{
        const Id v = base + threadIdx.x;
        append(v < last && ({wanted}), v, frontier, listed);
    }}
"""
EMPTY = """
    @kernel
    if (blockIdx.x == 0 && threadIdx.x == 0) listed[0] = 0;
"""
# The steps of a vertex run if its flag is set. The flag is cleared first, because a step may set it again.
DIRTY = """
    @kernel
    for (Id v = first + thread_of_grid(); v < last; v += threads_of_grid()) {{
        if (!({wanted})) continue;
        {flag}[v] = false;
        @visit
    }}
"""
SENT = """
    @kernel
    for (Id v = first + thread_of_grid(); v < last; v += threads_of_grid()) {{
        if (!{flag}[v] && !run->rebuilding) continue;
        {flag}[v] = false;
        @visit
    }}
"""
EVERYONE = """
    @kernel
    for (Id v = first + thread_of_grid(); v < last; v += threads_of_grid()) {
        @visit
    }
"""


def plan(
    program: Program, schedule: EmogiSchedule, facts: GraphFacts, features: int, device: DeviceFacts
) -> CudaPlan | No:
    """Return the plan of a program on a CUDA device, or why it cannot run."""
    lowered = LoweredProgram.of(program, masked=True)
    reason = refused(lowered.program, schedule, facts, features)
    if reason:
        return No(reason)
    resolved = resolve(schedule, device)
    return planned(lowered, resolved, facts, features).draft.finish(resolved, FOLDER, Thresholds(rebuild=REBUILD_SHARE))


def planned(lowered: LoweredProgram, schedule: EmogiSchedule, facts: GraphFacts, features: int) -> EmogiPlanner:
    """Return the planner of a program that is not refused, which has planned its stages.

    ``schedule``: with every option filled in.
    """
    forms = change_driven(lowered.program)
    tracked = isinstance(forms, tuple | list) and not refusal(lowered.program, facts, features, change_driven=True)
    deltas = forms if tracked and not isinstance(forms, str) else ()
    kept = KeptAccumulators.of(lowered.program, facts, deltas, schedule.rebuild) if tracked else None
    setting = thread_setting(lowered, facts, features, "push", change_driven=tracked, accumulators=kept)
    planner = EmogiPlanner(setting, deltas, schedule)
    planner.plan_stages()
    return planner


def refused(program: Program, schedule: EmogiSchedule, facts: GraphFacts, features: int) -> str:
    """Return why a schedule cannot run a lowered program; empty if no reason is known before planning."""
    if schedule.access == "tiled" and schedule.frontier == "list":
        return "access=tiled reads rows of consecutive vertices, which lists do not have; give frontier=flags"
    if schedule.cache_mb and schedule.frontier == "list":
        return "cache_mb caches edges of consecutive vertices, which a list does not have; give frontier=flags"
    if schedule.counters:
        for stage in (stage for stage in program.stages if isinstance(stage, EdgeReduce)):
            for space, name in _edge_inputs(program, stage):
                if program.properties[name].shape or space == "reverse":
                    return (
                        f"counters=true models one number for every edge, and {stage.name} reads other "
                        f"numbers of {name!r}; omit counters"
                    )
    return refusal(program, facts, features)


def _edge_inputs(program: Program, stage: EdgeReduce) -> set[tuple[str, str]]:
    """Return the input properties of edges that a reduction reads: pairs of *edge* or *reverse*, and the name."""
    return {
        (space, name) for space, name in reads(stage) if space in ("edge", "reverse") and not mutable(program, name)
    }


class EmogiPlanner(ThreadPlanner):
    """Plan traversals, updates and stores in the order of the stages.

    ``deltas``: the change-driven forms of the reductions. Without them every superstep pushes from all vertices.
    """

    def __init__(self, setting: CudaSetting, deltas: Sequence[Delta], schedule: EmogiSchedule) -> None:
        super().__init__(setting)
        self.schedule, self.access = schedule, str(schedule.access)
        self.deltas = {form.reduction.name: form for form in deltas}
        self.listing = schedule.frontier == "list"
        if self.listing:
            self.draft.own(work("frontier", setting.facts.num_vertices, "uint32"), work("listed", 1, "uint32"))

    # vertices ---------------------------------------------------------------------------------------------------------
    def plan_vertices(self, group: FoldGroup) -> None:
        """Plan the steps of vertices that received messages or changed; of all vertices if changes are not tracked."""
        if not self.tracking.change_driven:
            super().plan_vertices(group)
            return
        name = self.tracking.name(group)
        changed = [f"changed_{value}" for value in self.tracking.of_graph(group)]
        wanted = " || ".join([f"dirty_{name}[v]", *(f"{flag}[0]" for flag in changed)])
        signature = [("first", "Id"), ("last", "Id"), (f"dirty_{name}", "flag"), *((flag, "flags") for flag in changed)]
        builder = self.builder(name, DIRTY.format(wanted=wanted, flag=f"dirty_{name}"), signature)
        builder.bind("v", "visit", "v")
        for step in group.vertex_steps:
            builder.comment("visit", step)
        cuda_write_back(builder, self.tracking, group, "visit")
        self.draft.add(builder.finish(), Over.VERTICES, 1)

    # edges ------------------------------------------------------------------------------------------------------------
    def plan_reduction(self, stage: EdgeReduce) -> None:
        """Plan a push from the sources that moved, and the store of what was sent.

        If changes are not tracked, all sources push, and nothing is stored.
        """
        if not self.tracking.change_driven:
            self.draft.add(self.clear_kernel(stage), Over.VERTICES, 1)
            self._traverse(stage, changes=False)
            return
        group = next(group for group in self.tracking.groups if stage in group.stages)
        if self.deltas[stage.name].kind == "monotone":
            self.draft.begin_with(f"vertex_{stage.into}", IDENTITY[stage.reducer])
            self.draft.add(self.everyone_kernel(stage), Over.ALL_VERTICES, 1)
            self._traverse(stage, changes=False)
        else:
            stride = self.layout.stride(stage.message.shape)
            self.draft.own(work(f"change_{stage.into}", self.setting.facts.num_vertices * stride))
            self.draft.add(self.clear_kernel(stage, unless=OVER | CHANGING), Over.VERTICES, 1)
            self.draft.add(self.everyone_kernel(stage), Over.ALL_VERTICES, 1)
            self._traverse(stage, changes=False, unless=OVER | CHANGING)
            self._traverse(stage, changes=True, unless=OVER | REBUILDING)
            self.draft.add(self.clear_kernel(stage, array="change", unless=OVER | CHANGING), Over.VERTICES, 1)
            self.draft.add(collect_kernel(self.setting, stage, OVER | REBUILDING), Over.VERTICES, 1)
        self.draft.add(self.sent_kernel(group), Over.SOURCES, 1)

    def _traverse(self, stage: EdgeReduce, *, changes: bool, unless: Condition = OVER) -> None:
        """Add the launches that list active vertices, read their edges, and count the requests."""
        over, listing = Over.SOURCES, self.listing and self.tracking.change_driven
        if listing:
            self.draft.add(self.builder(f"empty_{stage.name}", EMPTY, [("listed", "list")]).finish(unless=unless),
                           Over.ALL_VERTICES, 1, blocks=1)  # fmt: skip
            flag = f"active_{stage.name}"
            signature = [("first", "Id"), ("last", "Id"), (flag, "flags"), ("frontier", "list"), ("listed", "list")]
            template = LIST.format(wanted=f"{flag}[v] || run->rebuilding")
            self.draft.add(self.builder(f"list_{stage.name}", template, signature).finish(unless=unless), over, 1)
        flags = f"active_{stage.name}" if self.tracking.change_driven and not listing else ""
        visits = Visits(flags, every=REBUILDING if flags else NEVER)
        kernel = self.push_kernel(stage, listing, changes=changes).finish(unless=unless, visits=visits)
        if self.access in BATCHED:
            kernel = replace(kernel, bounds=f"BLOCK, {AT_ONCE[self.layout.features > 4]}")
        self.draft.add(kernel, over, LANES[self.access])
        if self.schedule.counters:
            self._count(stage, kernel, listing, unless)

    def _visit(self, stage: EdgeReduce, listing: bool) -> tuple[str, list[tuple[str, str]]]:
        """Return the C++ condition under which the vertex ``u`` is active, and the arguments of a kernel over rows."""
        signature = [("first", "Id"), ("last", "Id"), ("out_offsets", "offsets")]
        if listing:
            return "true", [*signature, ("frontier", "ids"), ("listed", "ids")]
        if not self.tracking.change_driven:
            return "true", signature
        flag = f"active_{stage.name}"
        return f"{flag}[u] || run->rebuilding", [*signature, (flag, "flags")]

    def push_kernel(self, stage: EdgeReduce, listing: bool, *, changes: bool) -> CudaKernelBuilder:
        """Return the builder of a kernel that sends whole messages, or their changes."""
        tracked, (active, signature) = self.tracking.change_driven, self._visit(stage, listing)
        template = visit_template(self.access, active, listing=listing, counted=tracked)
        name = f"{stage.name}_changes" if changes else stage.name
        builder = self.builder(name, template, [*signature, ("out_neighbours", "ids")])
        builder.bind("src", "source", "u")
        builder.bind("sent", "source", "u", f"sent_{stage.name}_")
        builder.bind_edge(stage, "edge", "csr")
        if reads_ahead(self.access):
            self._read_ahead(builder, stage)
        builder.bind("dst", "edge", "v")
        builder.comment("edge", stage)
        if tracked:
            builder.counter("visited", "&run->edges")
        extremum = tracked and self.deltas[stage.name].kind == "monotone"
        message = self.deltas[stage.name].message if changes else stage.message
        target = "change" if changes else "vertex"
        builder.reduce_into(
            f"{target}_{stage.into}", "v", message, stage.reducer, "edge", taken="taken" if extremum else ""
        )
        for reader in self.tracking.stale_groups(stage.into) if changes or extremum else ():
            flag = builder.argument(f"dirty_{self.tracking.name(reader)}", "flag")
            builder.blocks["edge"].line(f"if ({'taken && ' if extremum else ''}!{flag}[v]) {flag}[v] = true;")
        return builder

    def _read_ahead(self, builder: CudaKernelBuilder, stage: EdgeReduce) -> None:
        """Read given numbers of edges ahead, with the ids of their neighbours. Others are read when they are needed."""
        for space, name in sorted(_edge_inputs(self.program, stage)):
            prop = self.program.properties[name]
            if space == "edge" and not prop.shape and prop.dtype == "float":
                array = builder.argument(f"csr_{name}", "input")
                builder.blocks["declare"].line(f"float {array}_ahead[AHEAD];")
                builder.blocks["ahead"].line(f"{array}_ahead[i] = {array}[e];")
                builder.bind_scalar("edge", name, "edge", f"{array}_ahead[i]")

    def everyone_kernel(self, stage: EdgeReduce) -> CudaKernel:
        """Build the kernel that flags all vertices in every group that reads a rebuilt result."""
        builder = self.builder(f"everyone_{stage.into}", EVERYONE)
        for reader in self.tracking.stale_groups(stage.into):
            flag = builder.argument(f"dirty_{self.tracking.name(reader)}", "flag")
            builder.blocks["visit"].line(f"{flag}[v] = true;")
        return builder.finish(unless=OVER | CHANGING)

    def sent_kernel(self, group: FoldGroup) -> CudaKernel:
        """Build the kernel that stores what active sources have sent, and clears their flags."""
        name = self.tracking.name(group)
        signature = [("first", "Id"), ("last", "Id"), (f"active_{name}", "flag")]
        builder = self.builder(f"sent_{name}", SENT.format(flag=f"active_{name}"), signature)
        store_sent(builder, self.tracking, group, "visit")
        return builder.finish()

    def _count(self, stage: EdgeReduce, kernel: CudaKernel, listing: bool, unless: Condition) -> None:
        """Add the kernel that counts the requests of a traversal for one edge array, times the number of arrays."""
        active, signature = self._visit(stage, listing)
        before, flagged = self._visit(stage, listing=False)
        template = count_template(self.access, active, before, listing=listing)
        signature = [*dict.fromkeys([*signature, *flagged]), (REQUESTS, "counts")]
        builder = self.builder(f"count_{kernel.name}", template, signature)
        arrays = 1 + len(_edge_inputs(self.program, stage))
        for number in range(COUNTED):
            name = builder.counter(f"counted_{number}", f"{REQUESTS} + {number}")
            value = f"read.of_sectors[{number}]" if number < COUNTED - 1 else "read.edges"
            builder.blocks["total"].line(f"{name} = {arrays} * {value};")
        self.draft.own(work(REQUESTS, COUNTED, "int64", start=0))
        if self.schedule.cache_mb:
            self.draft.own(work(CACHED, COUNTED, "int64", start=0))
        self.draft.add(builder.finish(unless=unless), Over.SOURCES, LANES[self.access])
