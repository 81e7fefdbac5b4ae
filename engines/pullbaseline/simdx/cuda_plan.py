"""SIMD-X style on CUDA devices: Active - Compute - Combine (Liu & Huang 2019).

Vertices are in three lists by degree: a thread computes a small one, a warp a middle one, a block a large one. The
values of its threads are combined by shuffles and through shared memory. Programs with active vertices
(:mod:`engines.pullbaseline.simdx.activity`) compute from lists of these, push or pull, in kernels fused with a global
barrier. For other programs, which are bulk-synchronous (BSP), SIMD-X pulls along all edges in every superstep.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from engines.pullbaseline.schedules import SimdxSchedule
from engines.pullbaseline.simdx.activity import Activity, activity
from engines.pullbaseline.simdx.resolve import resolve
from engines.pullbaseline.simdx.tasks import SIZES, WORDS, WORKERS, TaskFunctions, task_kernels
from harness.api import No
from harness.api.cuda import (
    Listed,
    LoweredProgram,
    Over,
    PlanDraft,
    ThreadPlanner,
    Thresholds,
    WorkList,
    by_side,
    combine_threads,
    lock_buffer,
    made_at_sources,
    make_persistent,
    refusal,
    table,
    thread_builder,
    thread_setting,
    work,
)

if TYPE_CHECKING:
    from harness.api import (
        DeviceFacts,
        EdgeReduce,
        Graph,
        GraphFacts,
        Program,
    )
    from harness.api.cuda import (
        Bounds,
        CudaBuffer,
        CudaPlan,
        CudaSetting,
        Degrees,
    )

THREADS = 512  # of a block: a global barrier waits for half as many blocks as with 256
BLOCKS = 512  # of kernels that are not fused: about as many as an H100 holds at once
MOST_RESIDENT = 2048 * 160  # threads of a device, at most
FOLDER = Path(__file__).parent
COMPUTE = """
    @kernel
    for (Id i = first + {worker}::number(); i < last; i += {worker}::all()) {{
        const Id v = {size}_vertices[i];
        const EdgeId end = in_offsets[v + 1];
        @vertex
        for (EdgeId e = in_offsets[v] + {worker}::member(); e < end; e += {worker}::SIZE) {{
            const Id u = in_neighbours[e];
            @edge
        }}
        @combine
        if ({worker}::member() == 0) {{
            @store
        }}
    }}
"""
LANES = {"Thread": 1, "Warp": 32}


@dataclass(frozen=True)
class DegreeList(WorkList):
    """The vertices of a list by in-degree, sorted, uint32. ``size``: of :data:`SIZES`. ``least``, ``most``: the degrees
    of the list; ``most`` None: no limit. ``sides``: of vertices that supersteps update.
    """

    size: str
    least: int
    most: int | None
    sides: tuple[Bounds, ...]

    def of(self, graph: Graph) -> Listed:
        """Return the list."""
        degrees = graph.in_degrees
        fits = degrees >= self.least if self.most is None else (degrees >= self.least) & (degrees <= self.most)
        listed = np.flatnonzero(fits).astype(np.uint32)
        return Listed({f"{self.size}_vertices": listed}, by_side(listed, self.sides))

    def nbytes(self, graph: GraphFacts) -> int:
        """Return the bytes of the list."""
        return 4 * graph.in_degrees.between(self.least, self.most)


def lists_by_degree(schedule: SimdxSchedule, sides: tuple[Bounds, ...]) -> tuple[DegreeList, ...]:
    """Return the small, the middle and the large list."""
    warp, block = schedule.warp_degree, schedule.block_degree
    limits = (0, warp - 1), (warp, block), (block + 1, None)
    return tuple(DegreeList(size, *degrees, sides) for size, degrees in zip(SIZES, limits, strict=True))


def _list_buffers(setting: CudaSetting, schedule: SimdxSchedule) -> list[CudaBuffer]:
    lists = lists_by_degree(schedule, setting.sides)
    return [table(f"{one.size}_vertices", one.nbytes(setting.facts) // 4, one) for one in lists]


def plan(
    program: Program, schedule: SimdxSchedule, facts: GraphFacts, features: int, device: DeviceFacts
) -> CudaPlan | No:
    """Return the plan of a program on a CUDA device, or why it cannot run."""
    lowered = LoweredProgram.of(program, masked=True)
    reason = refused(lowered.program, schedule, facts, features)
    if reason:
        return No(reason)
    active = activity(lowered.program)
    if isinstance(active, str):
        lowered = replace(lowered, program=made_at_sources(lowered.program))
    resolved = resolve(schedule, lowered.program, features)
    if isinstance(active, str):
        draft = _bulk(lowered, resolved, facts, features)
        draft.own(*_list_buffers(draft.setting, resolved))
        return draft.finish(resolved, FOLDER)
    draft = _tasks(lowered, active, resolved, facts, features)
    draft.own(*_list_buffers(draft.setting, resolved))
    assert resolved.pull_share is not None
    thresholds = Thresholds(dense=resolved.pull_share)
    return draft.finish(resolved, FOLDER, thresholds, change_driven=True)


def refused(program: Program, schedule: SimdxSchedule, facts: GraphFacts, features: int) -> str:
    """Return why this schedule cannot run a lowered program; empty if it can, as far as known without planning."""
    reason, bulk = refusal(program, facts, features), activity(program)
    if reason or not isinstance(bulk, str):
        return reason
    for name in SimdxSchedule.TASKS_ONLY:
        if getattr(schedule, name) is not None:
            return f"schedule option {name} is for active vertices, and {program.name} has none: {bulk}"
    if schedule.fusion == "all":
        return f"{program.name} has one direction, so fusion=all is fusion=push_pull: {bulk}"
    return ""


def is_fused(schedule: SimdxSchedule) -> bool:
    """Return whether one launch runs many supersteps. ``schedule``: resolved."""
    return schedule.fusion != "none"


def _listed(degrees: Degrees, schedule: SimdxSchedule) -> tuple[int, int, int]:
    """Return the numbers of vertices in the small, the middle and the large list."""
    warp, block = schedule.warp_degree, schedule.block_degree
    return degrees.between(0, warp - 1), degrees.between(warp, block), degrees.between(block + 1)


# programs with active vertices ----------------------------------------------------------------------------------------
def _tasks(
    lowered: LoweredProgram, active: Activity, schedule: SimdxSchedule, facts: GraphFacts, features: int
) -> PlanDraft:
    """Return the draft of the kernels of the steps, or of the fused kernels, with the lists and the filters' state."""
    setting = thread_setting(lowered, facts, features, "push", block=THREADS)
    draft, vertices = PlanDraft(setting), facts.num_vertices
    functions = TaskFunctions(active, schedule, partial(thread_builder, setting))
    for kernel, alone in task_kernels(functions, schedule):
        draft.add(kernel, Over.ALL_VERTICES, 1, blocks=1 if alone else BLOCKS)
    lists = zip(SIZES, _listed(facts.out_degrees, schedule), strict=True)
    draft.own(*(work(f"{size}_active", count, "uint32") for size, count in lists))
    draft.own(
        *([lock_buffer(kernels=2)] if is_fused(schedule) else []),
        *block_buffers(schedule, MOST_RESIDENT // THREADS if is_fused(schedule) else BLOCKS),
    )
    draft.own(
        work("marks", vertices, "uint32", start=0), work("bits", vertices // 32 + 1, "uint32"),
        work("tasks", WORDS, "int64"),
    )  # fmt: skip
    draft.begin_with(f"vertex_{active.reduction.into}", active.identity)
    if active.adds:
        length = vertices * setting.layout.stride(active.reduction.message.shape)
        draft.own(work(f"sent_{active.metadata}", length, start=0))
    return draft


def block_buffers(schedule: SimdxSchedule, blocks: int) -> tuple[CudaBuffer, ...]:
    """Return the bins of the threads of ``blocks`` blocks, and what their warps find."""
    bins = (schedule.bin_size or 0) * blocks * THREADS
    return (
        work("bins", bins, "uint32"), work("bin_counts", blocks * THREADS, "uint32"),
        work("found", len(SIZES) * blocks * (1 + THREADS // 32), "uint32"),
    )  # fmt: skip


# bulk-synchronous programs --------------------------------------------------------------------------------------------
def _bulk(lowered: LoweredProgram, schedule: SimdxSchedule, facts: GraphFacts, features: int) -> PlanDraft:
    """Return the draft of the steps of a superstep; if fused, of the kernel that runs all of them."""
    block = THREADS if is_fused(schedule) else 0
    planner = BulkPlanner(thread_setting(lowered, facts, features, "pull", block=block), schedule)
    planner.plan_stages()
    draft = planner.draft
    if is_fused(schedule):
        make_persistent(draft, "fused_pull", schedule.resident_blocks)
    return draft


class BulkPlanner(ThreadPlanner):
    """Compute and combine, one list after another. A register more reduces the number of resident blocks."""

    most_ahead = 1

    def __init__(self, setting: CudaSetting, schedule: SimdxSchedule) -> None:
        super().__init__(setting)
        self.lists = {one.size: one for one in lists_by_degree(schedule, setting.sides)}

    def plan_reduction(self, stage: EdgeReduce) -> None:
        """Add compute and combine for each list."""
        for size, worker in WORKERS.items():
            signature = [
                ("first", "Id"), ("last", "Id"), (f"{size}_vertices", "ids"), ("in_offsets", "offsets"),
                ("in_neighbours", "ids"),
            ]  # fmt: skip
            template = COMPUTE.format(worker=worker, size=size)
            builder = self.builder(f"{stage.name}_{size}", template, signature)
            builder.bind("src", "edge", "u")
            builder.bind_edge(stage, "edge", "csc")
            builder.bind("dst", "vertex", "v")
            builder.comment("edge", stage)
            total = builder.accumulator("total", stage.message, stage.reducer, "vertex")
            builder.accumulate(total, stage.message, stage.reducer, "edge")
            combine_threads(builder, total, stage.message, stage.reducer, "combine", f"{worker}::combined")
            builder.store(f"vertex_{stage.into}", "v", stage.message, total, "store")
            self.draft.add(builder.finish(), self.lists[size], LANES.get(worker, self.setting.block), apart=stage.name)
