"""SIMD-X style on CUDA devices: Active - Compute - Combine (Liu & Huang 2019).

Vertices are in three lists by degree: a thread computes a small one, a warp a middle one, a block a large one. The
values of its threads are combined by shuffles and through shared memory. Programs with active vertices
(:mod:`engines.pullbaseline.simdx.activity`) compute from lists of these, push or pull, in kernels fused with a global
barrier (:mod:`engines.pullbaseline.simdx.task_engine`). For other programs, which are bulk-synchronous (BSP), SIMD-X
pulls along all edges in every superstep.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from engines.pullbaseline.schedules import SimdxSchedule
from engines.pullbaseline.simdx.activity import IDENTITY, activity
from engines.pullbaseline.simdx.bulk import fused_superstep
from engines.pullbaseline.simdx.sources import made_at_sources
from engines.pullbaseline.simdx.task_engine import TaskEngine
from engines.pullbaseline.simdx.tasks import SIZES, WORKERS
from harness.api import (
    EdgeReduce,
    Graph,
    GraphReduce,
    Launch,
    Measuring,
    Over,
    Pieces,
    Program,
    Tables,
    by_side,
    combine_threads,
    named_apart,
    turned,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from harness.api import Inputs, Mapped

COMPUTE = """
    @kernel
    for (Id i = first + {worker}::number(); i < last; i += {worker}::all()) {{
        const Id v = {size}_vertices[i];
        const Arc end = in_offsets[v + 1];
        @vertex
        for (Arc e = in_offsets[v] + {worker}::member(); e < end; e += {worker}::SIZE) {{
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


class SimdxCudaEngine(TaskEngine):
    """Active vertices if a program has them; else pull, all edges every superstep; vertices listed by degree."""

    schedule: SimdxSchedule
    templates = Path(__file__).parent
    most_ahead = 1  # fused kernels: every register reduces the number of resident blocks

    def refusal(self, program: Program, graph: Graph, features: int) -> str:
        """Return why this schedule cannot run the program; empty if it can."""
        reason = super().refusal(program, graph, features)
        bulk = activity(program)
        if reason or not isinstance(bulk, str):
            return reason
        for name in SimdxSchedule.TASKS_ONLY:
            if getattr(self.schedule, name) is not None:
                return f"schedule option {name} is for active vertices, and {program.name} has none: {bulk}"
        if self.schedule.fusion == "all":
            return f"{program.name} has one direction, so fusion=all is fusion=push_pull: {bulk}"
        return ""

    def plan(self) -> None:
        """Plan the steps of a superstep in order; if fused, the kernel that runs all of them."""
        super().plan()
        if self.fused and isinstance(self.active, str):
            measured = super().plan_measuring()
            named = named_apart([*self.launches, *measured.launches])
            self.steps, self.measured = named[: len(self.launches)], named[len(self.launches) :]
            ahead = len(measured.ahead)
            kernel = fused_superstep(
                self.steps, len(self.sides), Measuring(self.measured[:ahead], self.measured[ahead:])
            )
            self.launches = [Launch(kernel, Over.ALL_VERTICES, 1, tuple(sorted(turned(self.steps))))]

    def plan_measuring(self) -> Measuring:
        """Return no launches for fused kernels, which measure movement themselves."""
        return Measuring() if self.fused and isinstance(self.active, str) else super().plan_measuring()

    def own_arrays(self) -> dict[str, tuple[int, type[np.generic]]]:
        """Return the engine's arrays with the ranges of the steps of a fused superstep."""
        found = super().own_arrays()
        if self.fused and isinstance(self.active, str):
            found["bounds"] = (2 * len(self.sides) * len(self.steps + self.measured), np.int64)
        return found

    def most_blocks(self) -> int | None:
        """Return the number of blocks that have a slot for their part of a sum over the graph."""
        places = [
            self.rooms[f"partial_{stage.into}"] // self.layout.stride(stage.value.shape)
            for stage in self.program.stages
            if isinstance(stage, GraphReduce)
        ]
        return min(places, default=None) if isinstance(self.active, str) else None

    def reset(self, inputs: Inputs, state: Mapping[str, NDArray[np.generic]] | None = None) -> None:
        """Reset all properties to their initial state.

        Parts of sums over the graph that no block of a fused kernel writes are set to the identity.
        """
        super().reset(inputs, state)
        if not self.fused or not isinstance(self.active, str):
            return
        for stage in self.program.stages:
            if isinstance(stage, GraphReduce):
                self.memory.arrays[f"partial_{stage.into}"].fill(IDENTITY[stage.reducer])
        steps = self.steps + self.measured
        ranges = [self.ranges.bounds(step.over, side) for side in range(len(self.sides)) for step in steps]
        self.memory.arrays["bounds"][: 2 * len(ranges)].set(np.array(ranges, np.int64).ravel())

    def queue(self, first: int, wanted: int, past: Any) -> None:
        """Queue supersteps; a fused bulk-synchronous program runs all of them in one launch."""
        if self.fused and isinstance(self.active, str):
            self.launch_together(past, self.blocks_of)
        else:
            super().queue(first, wanted, past)

    def rewritten(self, program: Program) -> Program:
        """Return the program with messages computed at their sources, if every vertex sends one in every superstep."""
        return made_at_sources(program) if isinstance(activity(program), str) else program

    def bytes_needed(self) -> int:
        """Return the bytes of device memory, with the lists."""
        return super().bytes_needed() + 4 * self.graph.num_vertices

    def transform(self) -> Tables:
        """Return the vertices of each list by in-degree, sorted (uint32)."""
        masks = zip(SIZES, self.by_degree(self.graph.in_degrees), strict=True)
        lists = {size: np.flatnonzero(mask).astype(np.uint32) for size, mask in masks}
        pieces = {size: by_side(listed, self.sides) for size, listed in lists.items()}
        return Tables({f"{size}_vertices": listed for size, listed in lists.items()}, pieces)

    def mappings(self) -> Sequence[Mapped]:
        """Return the access patterns of the traversals here and of those shared by thread engines."""
        from engines.pullbaseline.simdx.cuda_walks import MAPPINGS

        return (*MAPPINGS, *super().mappings())

    def modelled_launches(self) -> Sequence[Launch]:
        """Return the launches, with the steps of a fused superstep as separate launches."""
        return self.steps if self.fused and isinstance(self.active, str) else self.launches

    def plan_reduction(self, stage: EdgeReduce) -> None:
        """Plan compute and combine, one list after another."""
        for size, worker in WORKERS.items():
            signature = [
                ("first", "Id"), ("last", "Id"), (f"{size}_vertices", "ids"), ("in_offsets", "arcs"),
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
            self.launches.append(Launch(builder.finish(), Pieces(size), LANES.get(worker, self.block)))
