"""SIMD-X style: Active - Compute - Combine, pulling without atomics (Liu & Huang 2019).

Vertices are in three lists by in-degree, and each list is processed differently: small ones one at a time, middle ones
with more loads in flight, large ones by all threads together, with partial results combined at the end. Compute and
combine are one kernel; every vertex step is its own kernel. For BSP programs, such as those here, SIMD-X pulls along
all edges in every superstep.

On the CPU a thread replaces a warp; rows are vector values, as in all engines.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engines.pullbaseline.schedules import SimdxSchedule
from harness.api import (
    DeviceFacts,
    EdgeReduce,
    EdgeUpdate,
    Graph,
    GraphFacts,
    GraphReduce,
    No,
    Program,
    unfolded,
)
from harness.api.cpu import (
    CpuEngine,
    CpuPlan,
    CpuPolicy,
    CpuSetting,
    Holds,
    Kernel,
    KernelBuilder,
    LoweredProgram,
    PlanDraft,
    Run,
    Step,
    Structure,
    Table,
    VertexReduce,
    plan_graph,
    plan_named,
    plan_update,
    plan_vertices,
    unsupported,
)

PREFETCH_DISTANCE = 32  # edges

COMPUTE = """
    @part
    for i in range(bounds[t], bounds[t + 1]):
        v = at({listed}, i)
        @vertex
        for e in range({first}, {last}):
            u = at(in_neighbours, e)
            @edge
        @after
"""
OF_VERTEX = COMPUTE.format(listed="vertices", first="at(in_offsets, v)", last="at(in_offsets, v + 1)")
OF_SLICE = COMPUTE.format(listed="slice_vertex", first="at(slice_first, i)", last="at(slice_last, i)")

COMBINE = """
    @part
    for i in range(bounds[t], bounds[t + 1]):
        v = at(vertices, i)
        @vertex
        for j in range(at(slices_of, i), at(slices_of, i + 1)):
            @edge
        @after
"""
LISTS = ("small", "middle", "large")
PIECES_PER_THREAD = 16


class SimdxCpuEngine(CpuEngine):
    """Pull, all edges every superstep, vertices listed by degree."""

    schedule: SimdxSchedule

    def plan(self, program: Program, graph: GraphFacts, features: int, device: DeviceFacts) -> CpuPlan | No:
        """Return the plan of the schedule (:func:`plan`)."""
        return plan(program, self.schedule, graph, features, device, self.runs)


def plan(
    program: Program, schedule: SimdxSchedule, graph: GraphFacts, features: int, device: DeviceFacts,
    runs: CpuPolicy,
) -> CpuPlan | No:  # fmt: skip
    """Plan compute and combine, then the vertex steps; No with the reason if a program cannot run."""
    for name in SimdxSchedule.GPU_ONLY:
        if getattr(schedule, name) is not None:
            return No(f"schedule option {name} has no meaning on the CPU; leave it unset")
    reason = unsupported(LoweredProgram.of(program).program, graph, features, change_driven=False, tracks_edges=True)
    if reason:
        return No(reason)
    setting = CpuSetting.of(program, graph, features, device, unfolded, direction="pull", policy=runs)
    draft = PlanDraft(setting)
    lists = DegreeLists(schedule.warp_degree, schedule.block_degree, setting.threads, setting.alternates)
    for group in setting.tracking.groups:
        stage = group.stages[0]
        if isinstance(stage, GraphReduce):
            plan_graph(draft, stage)
        elif isinstance(stage, EdgeReduce):
            plan_pull(draft, stage, lists)
        elif isinstance(stage, EdgeUpdate):
            plan_update(draft, group)
        elif isinstance(stage, VertexReduce):
            plan_named(draft, stage)
        else:
            plan_vertices(draft, group)
    return draft.finish("SimdxCpuEngine", schedule.with_place())


# the three lists ------------------------------------------------------------------------------------------------------
Lists = Mapping[str, NDArray[np.int64]]


@dataclass(frozen=True)
class DegreeLists(Table[tuple[Lists, ...]]):
    """The lists of the vertices of each side, by in-degree, and the slices of large vertices."""

    warp_degree: int
    block_degree: int
    threads: int
    alternate: bool

    def of(self, graph: Graph) -> tuple[Lists, ...]:
        """Return the lists of the left and of the right side, or of all vertices."""
        count = graph.num_vertices
        left = graph.bipartite[0] if self.alternate and graph.bipartite else count
        ends = ((0, left), (left, count)) if self.alternate else ((0, count),)
        return tuple(self._lists(graph.csc.offsets, first, last) for first, last in ends)

    def slices(self, graph: GraphFacts) -> int:
        """Return the number of slices of all large vertices."""
        size, large = max(1, self.block_degree), self.block_degree + 1
        return sum(-(-degree // size) * count for degree, count in graph.in_degrees.counts if degree >= large)

    def nbytes(self, graph: GraphFacts) -> int:
        """Return the bytes of all arrays, at most."""
        bounds = 4 * 2 * (self.threads * PIECES_PER_THREAD + 1)
        return 8 * (2 * graph.num_vertices + 2 + 3 * self.slices(graph) + bounds)

    def _lists(self, offsets: NDArray[np.int64], first: int, last: int) -> Lists:
        """Return the lists of the vertices ``first..last``, their parts of about equal edges, and the slices of large
        ones."""
        degree = np.diff(offsets[first : last + 1])
        warp, block = self.warp_degree, self.block_degree
        masks = (degree < warp, (degree >= warp) & (degree <= block), (degree >= warp) & (degree > block))
        lists = {name: first + np.flatnonzero(mask) for name, mask in zip(LISTS, masks, strict=True)}
        for name in LISTS:
            lists[f"{name}_bounds"] = self._parts(np.diff(offsets)[lists[name]])
        return lists | self._slices(offsets, lists["large"])

    def _parts(self, degrees: NDArray[np.int64]) -> NDArray[np.int64]:
        cost = np.concatenate([[0], np.cumsum(degrees + 2)])
        parts = int(min(self.threads * PIECES_PER_THREAD, max(1, cost[-1] // 2048)))
        return np.searchsorted(cost, np.linspace(0, cost[-1], parts + 1)).astype(np.int64)

    def _slices(self, offsets: NDArray[np.int64], large: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
        """Return ranges of at most ``block_degree`` in-edges of the large vertices; ``slices_of[i]`` is vertex i's
        first."""
        size = max(1, self.block_degree)
        count = -(-(offsets[large + 1] - offsets[large]) // size)
        slices_of = np.concatenate([[0], np.cumsum(count)]).astype(np.int64)
        vertex = np.repeat(large, count)
        within = np.arange(len(vertex)) - np.repeat(slices_of[:-1], count)
        first = offsets[vertex] + within * size
        last = np.minimum(first + size, offsets[vertex + 1])
        parts = min(self.threads * PIECES_PER_THREAD, max(1, len(vertex)))
        bounds = np.linspace(0, len(vertex), parts + 1).astype(np.int64)
        return {
            "slice_vertex": vertex, "slice_first": first, "slice_last": last, "slice_bounds": bounds,
            "slices_of": slices_of,
        }  # fmt: skip


# compute and combine --------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class PullPass:
    """One edge reduction over the three lists."""

    name: str
    lists: DegreeLists

    def bound(self, run: Run) -> Step:
        """Return the step that pulls along all edges."""
        offsets, of_sides = run.store.structure(Structure.IN_OFFSETS), run.store.table(self.lists)

        def step() -> None:
            lists, ends = of_sides[run.superstep_index % len(of_sides)], run.bounds
            for name in ("small", "middle"):
                bounds = lists[f"{name}_bounds"]
                run.call(f"{self.name}_{name}", len(bounds) - 1, bounds=bounds, vertices=lists[name])
            if len(lists["large"]):
                slices = {name: lists[name] for name in ("slice_vertex", "slice_first", "slice_last")}
                bounds = lists["slice_bounds"]
                run.call(f"{self.name}_slices", len(bounds) - 1, bounds=bounds, **slices)
                bounds, of = lists["large_bounds"], lists["slices_of"]
                vertices = lists["large"]
                run.call(f"{self.name}_combine", len(bounds) - 1, bounds=bounds, vertices=vertices, slices_of=of)
            run.edges += int(offsets[ends[-1]] - offsets[ends[0]])

        return step


def plan_pull(draft: PlanDraft, stage: EdgeReduce, lists: DegreeLists) -> None:
    """Add the kernels and the pass of one edge reduction."""
    draft.kernels.append(compute_kernel(draft, stage, "small"))
    draft.kernels.append(compute_kernel(draft, stage, "middle", prefetches=True))
    draft.kernels.append(slice_kernel(draft, stage))
    draft.kernels.append(combine_kernel(draft, stage))
    setting = draft.setting
    length = lists.slices(setting.facts) * setting.layout.stride(stage.message.shape)
    draft.array(f"reduced_{stage.into}", Holds.WORK, stage.into, "float32", max(1, length))
    draft.table(lists)
    draft.passes.append(PullPass(stage.name, lists))


def _builder(draft: PlanDraft, name: str, template: str, signature: list[tuple[str, str]]) -> KernelBuilder:
    """Return a builder; the first array of the signature lists the vertices of its items."""
    builder = KernelBuilder(
        name, draft.setting.program, draft.setting.layout, template, [("bounds", "i64"), *signature], dynamic=True,
        items=signature[0][0],
    )  # fmt: skip
    builder.bind("src", "edge", "u")
    builder.bind("dst", "vertex", "v")
    return builder


def _reduce(draft: PlanDraft, builder: KernelBuilder, stage: EdgeReduce, array: str, index: str) -> Kernel:
    draft.bind_edges(builder, [stage], "csc")
    total = builder.start_accumulator("total", stage.message, stage.reducer, "vertex")
    builder.accumulate_in_runs(
        total, stage.into, stage.message, stage.reducer, start="vertex", block="edge", end="after", at="e"
    )
    builder.store(array, index, stage.message, total, "after")
    return builder.finish()


def compute_kernel(draft: PlanDraft, stage: EdgeReduce, name: str, *, prefetches: bool = False) -> Kernel:
    """Build the kernel that computes and combines for one vertex of the list ``name`` at a time."""
    signature = [("vertices", "i64"), ("in_offsets", "offsets"), ("in_neighbours", draft.setting.ids)]
    builder = _builder(draft, f"{stage.name}_{name}", OF_VERTEX, signature)
    if prefetches:
        builder.prefetch_sources([stage], "in_neighbours", PREFETCH_DISTANCE)
    return _reduce(draft, builder, stage, f"vertex_{stage.into}", "v")


def slice_kernel(draft: PlanDraft, stage: EdgeReduce) -> Kernel:
    """Build the kernel that computes and combines for one slice of a large vertex at a time."""
    signature = [
        ("slice_vertex", "i64"), ("slice_first", "i64"), ("slice_last", "i64"), ("in_neighbours", draft.setting.ids)
    ]  # fmt: skip
    builder = _builder(draft, f"{stage.name}_slices", OF_SLICE, signature)
    builder.prefetch_sources([stage], "in_neighbours", PREFETCH_DISTANCE)
    return _reduce(draft, builder, stage, f"reduced_{stage.into}", "i")


def combine_kernel(draft: PlanDraft, stage: EdgeReduce) -> Kernel:
    """Build the kernel that combines the slices of every large vertex."""
    signature = [("vertices", "i64"), ("slices_of", "i64")]
    builder = _builder(draft, f"{stage.name}_combine", COMBINE, signature)
    builder.bind("slice", "edge", "j", "reduced_")
    total = builder.start_accumulator("total", stage.message, stage.reducer, "vertex")
    builder.accumulate_in_runs(
        total, stage.into, builder.reading("slice", stage.into), stage.reducer, start="vertex", block="edge",
        end="after", at="j",
    )  # fmt: skip
    builder.store(f"vertex_{stage.into}", "v", stage.message, total, "after")
    return builder.finish()
