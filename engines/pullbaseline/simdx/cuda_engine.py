"""SIMD-X style on CUDA devices: Active - Compute - Combine, pulling without atomics (Liu & Huang 2019).

Vertices stand in three lists by in-degree: a thread computes a small one, a warp a middle one, a block a large one, and
what its threads have is combined by shuffles and by way of shared memory. For BSP programs like ours SIMD-X pulls along
all edges in every superstep.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from engines.pullbaseline.schedules import SimdxSchedule
from harness.api import EdgeReduce, Launch, ThreadEngine, combine_threads

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

COMPUTE = """
    @kernel
    for (Id i = first + {worker}::number(); i < last; i += {worker}::all()) {{
        const Id v = {vertices}[i];
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
# The list, who works on a vertex of it, the function of threads.cuh that combines what the workers' threads have.
LISTS = (("small", "Thread", ""), ("middle", "Warp", "combined_in_warp"), ("large", "Block", "combined_in_block"))


class SimdxCudaEngine(ThreadEngine):
    """Pull, all edges every superstep, vertices listed by degree."""

    schedule: SimdxSchedule
    direction = "pull"
    templates = Path(__file__).parent

    def bytes_needed(self) -> int:
        """Device memory, with the lists."""
        return super().bytes_needed() + 4 * self.graph.num_vertices

    def transform(self) -> dict[str, NDArray[Any]]:
        """The vertices of each list, ascending (uint32)."""
        degree, warp, block = self.graph.in_degrees, self.schedule.warp_degree, self.schedule.block_degree
        masks = (degree < warp, (degree >= warp) & (degree <= block), (degree >= warp) & (degree > block))
        lists = {}
        for (name, _, _), mask in zip(LISTS, masks, strict=True):
            listed = np.flatnonzero(mask).astype(np.uint32)
            self.pieces[name] = [
                (int(np.searchsorted(listed, first)), int(np.searchsorted(listed, last))) for first, last in self.sides
            ]
            lists[f"{name}_vertices"] = listed
        return lists

    def plan_reduction(self, stage: EdgeReduce) -> None:
        """Compute and combine for one list after another."""
        threads = {"Thread": 1, "Warp": 32, "Block": self.block}
        for name, worker, function in LISTS:
            signature = [
                ("first", "Id"), ("last", "Id"), (f"{name}_vertices", "ids"), ("in_offsets", "arcs"),
                ("in_neighbours", "ids"),
            ]  # fmt: skip
            template = COMPUTE.format(worker=worker, vertices=f"{name}_vertices")
            builder = self.builder(f"{stage.name}_{name}", template, signature)
            builder.bind("src", "edge", "u")
            builder.bind("edge", "edge", "e", "csc_")
            builder.bind("dst", "vertex", "v")
            builder.comment("edge", stage)
            total = builder.accumulator("total", stage.message, stage.reducer, "vertex")
            builder.accumulate(total, stage.message, stage.reducer, "edge")
            if function:
                combine_threads(builder, total, stage.message, stage.reducer, "combine", function)
            builder.store(f"vertex_{stage.into}", "v", stage.message, total, "store")
            self.launches.append(Launch(builder.finish(), name, threads[worker]))
