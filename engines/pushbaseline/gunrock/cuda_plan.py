"""Gunrock style on CUDA devices: advance - filter - compute over an explicit frontier (Wang et al. 2016).

*Advance* distributes the edges that leave a frontier over threads. It sends the message of each edge, or its change,
with one atomic operation per feature. Its output has a slot for every edge with the destination, empty if a minimum or
maximum did not change. *Filter* makes frontiers of the sources that moved, and of the output of an advance, without
duplicates. *Compute* steps the vertices of a frontier. Every operator is its own kernel.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from engines.pushbaseline.gunrock.resolve import resolve
from harness.api import (
    No,
    change_driven,
)
from harness.api.cuda import (
    CHANGING,
    IDENTITY,
    OVER,
    REBUILDING,
    KeptAccumulators,
    LoweredProgram,
    Over,
    ThreadPlanner,
    Thresholds,
    collect_kernel,
    cuda_write_back,
    refusal,
    store_sent,
    thread_setting,
    work,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engines.pushbaseline.schedules import GunrockSchedule
    from harness.api import DeviceFacts, EdgeReduce, FoldGroup, GraphFacts, Program
    from harness.api.cuda import CudaKernel, CudaKernelBuilder, CudaPlan, CudaSetting, Delta

BLOCKS = 2048  # of kernels over frontiers, whose sizes only the device knows: about twice what an H100 holds at once
BALANCE = {"block": "BlockMapped", "merge_path": "MergePath"}
# If nearly all sources are active, whole messages cost no more than changes, and the rounding errors of atomic
# additions to hubs do not accumulate: ranks on an R-MAT graph were off by 4.6e-5 after 20 supersteps of changes.
REBUILD_SHARE = 0.9
FOLDER = Path(__file__).parent
EDGE_BITS = 33  # of gunrock.cuh
Signature = list[tuple[str, str]]

EMPTY = """
    @kernel
    if (blockIdx.x == 0 && threadIdx.x < {count}) sizes[threadIdx.x] = 0;
"""
FILTER = """
    @kernel
    for (Id base = first + blockIdx.x * BLOCK; base < last; base += threads_of_grid()) {{
        const Id v = base + threadIdx.x;
        const bool keep = v < last && ({wanted});
        if (keep) {flag}[v] = false;
        append(keep, v, {degree}, frontier, {starts}, sizes + {at});
    }}
"""
ADVANCE = """
    @kernel
    __shared__ Advance<{balance}> mine;
    const Size size = sizes[{at}];
    const Id all = {balance}::ranges(size), sharers = all < gridDim.x ? gridDim.x / max(all, 1u) : 1;
    for (Id number = blockIdx.x / sharers; number < all; number += gridDim.x / sharers) {{
        const EdgeRange range = {balance}::range(number, size, starts).part(blockIdx.x % sharers, sharers);
        mine.read(range, frontier, starts, out_offsets);
        for (EdgeId at = range.first + threadIdx.x; at < range.last; at += BLOCK) {{
            const int i = mine.find(at, range);
            const Id u = mine.vertices[i];
            const EdgeId e = mine.offsets[i] + (at - mine.starts[i]);
            const Id v = out_neighbours[e];
            @edge
            output[at] = {reached};
        }}
    }}
    if (blockIdx.x == 0 && threadIdx.x == 0) run->edges += edges_of(size);
"""
REACHED = """
    @kernel
    if (run->rebuilding) {{
        for (Id v = first + thread_of_grid(); v < last; v += threads_of_grid()) {{
            @everyone
        }}
    }} else {{
        const EdgeId edges = edges_of(sizes[{at}]);
        for (EdgeId at = thread_of_grid(); at < edges; at += threads_of_grid()) {{
            const Id v = output[at];
            if (v == NOWHERE) continue;
            @reached
        }}
    }}
"""
COMPUTE = """
    @kernel
    const Id count = vertices_of(sizes[{at}]);
    for (Id i = thread_of_grid(); i < count; i += threads_of_grid()) {{
        const Id v = frontier[i];
        @visit
    }}
"""
# A thread's vertices are one grid apart, so that short frontiers are spread over all threads.
COMPUTE_AHEAD = """
    @kernel
    const Id count = vertices_of(sizes[{at}]);
    for (size_t base = thread_of_grid(); base < count; base += {ahead} * size_t(threads_of_grid())) {{
        Id listed[{ahead}];
        struct {{
            @fields
        }} fetched[{ahead}];
        _Pragma("unroll") for (int n = 0; n < {ahead}; ++n) {{
            const size_t i = base + n * size_t(threads_of_grid());
            if (i < count) listed[n] = frontier[i];
        }}
        _Pragma("unroll") for (int n = 0; n < {ahead}; ++n) {{
            const Id v = listed[n];
            auto& got = fetched[n];
            if (base + n * size_t(threads_of_grid()) < count) {{
                @fetch
            }}
        }}
        _Pragma("unroll") for (int n = 0; n < {ahead}; ++n) {{
            const Id v = listed[n];
            const auto& got = fetched[n];
            if (base + n * size_t(threads_of_grid()) < count) {{
                @visit
            }}
        }}
    }}
"""
RANGE: Signature = [("first", "Id"), ("last", "Id")]


def plan(
    program: Program, schedule: GunrockSchedule, facts: GraphFacts, features: int, device: DeviceFacts
) -> CudaPlan | No:
    """Return the plan of a program on a CUDA device, or why it cannot run."""
    lowered = LoweredProgram.of(program, masked=True)
    reason = refused(lowered.program, schedule, facts, features)
    if reason:
        return No(reason)
    forms = change_driven(lowered.program)
    assert not isinstance(forms, str), forms
    resolved = resolve(schedule, device)
    kept = KeptAccumulators.of(lowered.program, facts, forms, schedule.rebuild)
    setting = thread_setting(lowered, facts, features, "push", change_driven=True, accumulators=kept)
    planner = GunrockPlanner(setting, forms, BALANCE[str(resolved.balance)])
    planner.plan_stages()
    return planner.draft.finish(resolved, FOLDER, Thresholds(rebuild=REBUILD_SHARE))


def refused(program: Program, schedule: GunrockSchedule, facts: GraphFacts, features: int) -> str:
    """Return why this schedule cannot run a lowered program; empty if it can, as far as known without planning."""
    if facts.num_edges >= 1 << EDGE_BITS:
        return f"a frontier counts its edges in {EDGE_BITS} bits, and the graph has {facts.num_edges:,}"
    reason = refusal(program, facts, features, change_driven=True)
    forms = "" if reason else change_driven(program)
    return forms if isinstance(forms, str) and forms else reason


class GunrockPlanner(ThreadPlanner):
    """Advance, filter and compute in the order of the stages.

    ``forms``: the change-driven forms of the reductions. ``balance``: the C++ type that divides an advance.
    """

    def __init__(self, setting: CudaSetting, forms: Sequence[Delta], balance: str) -> None:
        super().__init__(setting)
        self.balance = balance
        self.deltas = {form.reduction.name: form for form in forms}
        self.frontiers = len(self.tracking.groups)
        starts = "int64" if setting.many_edges else "uint32"
        self.draft.own(
            work("frontier", setting.facts.num_vertices, "uint32"), work("starts", setting.facts.num_vertices, starts),
            work("output", setting.facts.num_edges, "uint32"), work("sizes", self.frontiers, "uint64"),
        )  # fmt: skip
        builder = self.builder("empty_frontiers", EMPTY.format(count=self.frontiers), [("sizes", "sizes")])
        self.draft.add(builder.finish(), Over.ALL_VERTICES, 1, blocks=1)

    def _over_frontier(self, kernel: CudaKernel) -> None:
        self.draft.add(kernel, Over.ALL_VERTICES, 1, blocks=BLOCKS)

    # compute ----------------------------------------------------------------------------------------------------------
    def plan_vertices(self, group: FoldGroup) -> None:
        """Filter the vertices that were reached or changed, then step them."""
        name, at = self.tracking.name(group), self.tracking.groups.index(group)
        changed = [f"changed_{value}" for value in self.tracking.of_graph(group)]
        wanted = " || ".join([f"dirty_{name}[v]", *(f"{flag}[0]" for flag in changed)])
        signature = [*RANGE, (f"dirty_{name}", "flag"), *((flag, "flags") for flag in changed)]
        template = FILTER.format(wanted=wanted, flag=f"dirty_{name}", degree="0", starts="nullptr", at=at)
        filtered = self.builder(
            f"filter_{name}", template, [*signature, ("frontier", "list"), ("sizes", "sizes")]
        )  # fmt: skip
        self.draft.add(filtered.finish(), Over.VERTICES, 1)
        builder = self._compute_builder(name, at, self.ahead(group))
        builder.bind("v", builder.read_in("visit"), "v")
        for step in group.vertex_steps:
            builder.comment("visit", step)
        cuda_write_back(builder, self.tracking, group, "visit")
        self._over_frontier(builder.finish())

    def _compute_builder(self, name: str, at: int, ahead: int) -> CudaKernelBuilder:
        """Return a builder for a kernel over a frontier whose threads read ``ahead`` vertices before they visit any."""
        template = COMPUTE.format(at=at) if ahead == 1 else COMPUTE_AHEAD.format(at=at, ahead=ahead)
        return self.builder(name, template, [("frontier", "ids"), ("sizes", "sizes")])

    # advance ----------------------------------------------------------------------------------------------------------
    def plan_reduction(self, stage: EdgeReduce) -> None:
        """Filter the sources that moved, advance them, filter the output, and store what was sent."""
        group = next(group for group in self.tracking.groups if stage in group.stages)
        at, flag = self.tracking.groups.index(group), f"active_{stage.name}"
        template = FILTER.format(
            wanted=f"{flag}[v] || run->rebuilding", flag=flag, degree="keep ? out_offsets[v + 1] - out_offsets[v] : 0",
            starts="starts", at=at,
        )  # fmt: skip
        filtered = self.builder(
            f"filter_{stage.name}", template,
            [*RANGE, (flag, "flag"), ("out_offsets", "offsets"), ("frontier", "list"), ("starts", "places"),
             ("sizes", "sizes")],
        )  # fmt: skip
        if self.deltas[stage.name].kind == "monotone":
            self.draft.begin_with(f"vertex_{stage.into}", IDENTITY[stage.reducer])
        else:
            self.draft.add(self.clear_kernel(stage, unless=OVER | CHANGING), Over.VERTICES, 1)
        self.draft.add(filtered.finish(), Over.SOURCES, 1)
        if self.deltas[stage.name].kind == "monotone":
            self._over_frontier(self.advance_kernel(stage, at, changes=False).finish())
        else:
            self._over_frontier(self.advance_kernel(stage, at, changes=False).finish(unless=OVER | CHANGING))
            self._over_frontier(self.advance_kernel(stage, at, changes=True).finish(unless=OVER | REBUILDING))
        self.draft.add(self.reached_kernel(stage, at), Over.ALL_VERTICES, 1)
        if self.deltas[stage.name].kind != "monotone":
            stride = self.layout.stride(stage.message.shape)
            self.draft.own(work(f"change_{stage.into}", self.setting.facts.num_vertices * stride))
            self.draft.add(self.clear_kernel(stage, array="change", unless=OVER | CHANGING), Over.VERTICES, 1)
            self.draft.add(collect_kernel(self.setting, stage, OVER | REBUILDING), Over.VERTICES, 1)
        self._over_frontier(self.sent_kernel(group, at))

    def advance_kernel(self, stage: EdgeReduce, at: int, *, changes: bool) -> CudaKernelBuilder:
        """Return the builder of a kernel that sends whole messages, or their changes, from a frontier."""
        extremum = self.deltas[stage.name].kind == "monotone"
        reached = "taken ? v : NOWHERE" if extremum else "v"
        template = ADVANCE.format(balance=self.balance, at=at, reached=reached)
        signature = [
            ("frontier", "ids"), ("starts", "offsets"), ("sizes", "sizes"), ("output", "list"),
            ("out_offsets", "offsets"), ("out_neighbours", "ids"),
        ]  # fmt: skip
        builder = self.builder(f"{stage.name}_changes" if changes else stage.name, template, signature)
        builder.bind("src", "edge", "u")
        builder.bind("sent", "edge", "u", f"sent_{stage.name}_")
        builder.bind_edge(stage, "edge", "csr")
        builder.bind("dst", "edge", "v")
        builder.comment("edge", stage)
        message = self.deltas[stage.name].message if changes else stage.message
        target = "change" if changes else "vertex"
        taken = "taken" if extremum else ""
        builder.reduce_into(f"{target}_{stage.into}", "v", message, stage.reducer, "edge", taken=taken)
        return builder

    def reached_kernel(self, stage: EdgeReduce, at: int) -> CudaKernel:
        """Filter the output of an advance: flag the reached vertices in every group that reads the result."""
        signature = [*RANGE, ("output", "ids"), ("sizes", "sizes")]
        builder = self.builder(f"reached_{stage.into}", REACHED.format(at=at), signature)
        for reader in self.tracking.stale_groups(stage.into):
            flag = builder.argument(f"dirty_{self.tracking.name(reader)}", "flag")
            builder.blocks["everyone"].line(f"{flag}[v] = true;")
            builder.blocks["reached"].line(f"if (!{flag}[v]) {flag}[v] = true;")
        return builder.finish()

    def sent_kernel(self, group: FoldGroup, at: int) -> CudaKernel:
        """Build the kernel that stores what the sources of a frontier have sent."""
        name, sources = self.tracking.name(group), self.tracking.sources(group)
        builder = self._compute_builder(f"sent_{name}", at, self.ahead_of(sources))
        store_sent(builder, self.tracking, group, "visit")
        return builder.finish()
