"""SIMD-X style: Active - Compute - Combine, pulling without atomics (Liu & Huang 2019).

Vertices are in three lists by in-degree, and each list is processed differently: small ones one at a time, middle ones
with more loads in flight, large ones by all threads together, with partial results combined at the end. Compute and
combine are one kernel; every vertex step is its own kernel. For BSP programs, such as those here, SIMD-X pulls along
all edges in every superstep.

On the CPU a thread replaces a warp; rows are vector values, as in all engines.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engines.pullbaseline.schedules import SimdxSchedule
from harness.api import (
    CpuEngine,
    Device,
    EdgeReduce,
    EdgeUpdate,
    FoldGroup,
    Graph,
    GraphReduce,
    Kernel,
    KernelBuilder,
    Program,
    unfolded,
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
OF_PIECE = COMPUTE.format(listed="piece_vertex", first="at(piece_first, i)", last="at(piece_last, i)")

COMBINE = """
    @part
    for i in range(bounds[t], bounds[t + 1]):
        v = at(vertices, i)
        @vertex
        for j in range(at(pieces_of, i), at(pieces_of, i + 1)):
            @edge
        @after
"""
LISTS = ("small", "middle", "large")
PIECES_PER_THREAD = 16


class SimdxCpuEngine(CpuEngine):
    """Pull, all edges every superstep, vertices listed by degree."""

    schedule: SimdxSchedule
    direction = "pull"

    def refusal(self, program: Program, graph: Graph, features: int, device: Device) -> str:
        """Return why this schedule cannot run the program; empty if it can."""
        for name in SimdxSchedule.GPU_ONLY:
            if getattr(self.schedule, name) is not None:
                return f"schedule option {name} has no meaning on the CPU; leave it unset"
        return super().refusal(program, graph, features, device)

    def groups(self) -> tuple[FoldGroup, ...]:
        """Return one group, and hence one kernel, per stage."""
        return unfolded(self.program)

    def plan(self) -> None:
        """Plan compute and combine, then the vertex steps."""
        self.lists = [self._lists(int(side[0]), int(side[-1])) for side in self.sides]
        for group in self.tracking.groups:
            stage = group.stages[0]
            if isinstance(stage, GraphReduce):
                self.plan_graph(stage)
            elif isinstance(stage, EdgeReduce):
                self.plan_pull(stage)
            elif isinstance(stage, EdgeUpdate):
                self.plan_update(group)
            else:
                self.plan_vertices(group)

    # the three lists --------------------------------------------------------------------------------------------
    def _lists(self, first: int, last: int) -> dict[str, NDArray[np.int64]]:
        """Return the lists of the vertices ``first..last``, their parts of about equal edges, and the pieces of large
        ones."""
        degree = np.diff(self.graph.csc.offsets[first : last + 1])
        warp, block = self.schedule.warp_degree, self.schedule.block_degree
        masks = (degree < warp, (degree >= warp) & (degree <= block), (degree >= warp) & (degree > block))
        lists = {name: first + np.flatnonzero(mask) for name, mask in zip(LISTS, masks, strict=True)}
        for name in LISTS:
            lists[f"{name}_bounds"] = self._parts(np.diff(self.graph.csc.offsets)[lists[name]])
        return lists | self._pieces(lists["large"])

    def _parts(self, degrees: NDArray[np.int64]) -> NDArray[np.int64]:
        cost = np.concatenate([[0], np.cumsum(degrees + 2)])
        parts = int(min(self.threads * PIECES_PER_THREAD, max(1, cost[-1] // 2048)))
        return np.searchsorted(cost, np.linspace(0, cost[-1], parts + 1)).astype(np.int64)

    def _pieces(self, large: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
        """Return ranges of at most ``block_degree`` in-edges of the large vertices; ``pieces_of[i]`` is vertex i's
        first."""
        offsets = self.graph.csc.offsets
        size = max(1, self.schedule.block_degree)
        count = -(-(offsets[large + 1] - offsets[large]) // size)
        pieces_of = np.concatenate([[0], np.cumsum(count)]).astype(np.int64)
        vertex = np.repeat(large, count)
        within = np.arange(len(vertex)) - np.repeat(pieces_of[:-1], count)
        first = offsets[vertex] + within * size
        last = np.minimum(first + size, offsets[vertex + 1])
        parts = min(self.threads * PIECES_PER_THREAD, max(1, len(vertex)))
        bounds = np.linspace(0, len(vertex), parts + 1).astype(np.int64)
        return {
            "piece_vertex": vertex, "piece_first": first, "piece_last": last, "piece_bounds": bounds,
            "pieces_of": pieces_of,
        }  # fmt: skip

    # kernels ----------------------------------------------------------------------------------------------------
    def plan_pull(self, stage: EdgeReduce) -> None:
        """Plan the kernels and the step of one edge reduction."""
        for name in ("small", "middle"):
            self.add_kernel(self.compute_kernel(stage, name))
        self.add_kernel(self.piece_kernel(stage))
        self.add_kernel(self.combine_kernel(stage))
        stride = self.layout.stride(stage.message.shape)
        pieces = max(len(lists["piece_vertex"]) for lists in self.lists)
        self.memory.add(f"reduced_{stage.into}", np.zeros(max(1, pieces * stride), np.float32))

        def step() -> None:
            lists = self.lists[self.superstep_index % len(self.lists)]
            for name in ("small", "middle"):
                bounds = lists[f"{name}_bounds"]
                self.call(f"{stage.name}_{name}", len(bounds) - 1, bounds=bounds, vertices=lists[name])
            if len(lists["large"]):
                pieces = {name: lists[name] for name in ("piece_vertex", "piece_first", "piece_last")}
                bounds = lists["piece_bounds"]
                self.call(f"{stage.name}_pieces", len(bounds) - 1, bounds=bounds, **pieces)
                bounds, of = lists["large_bounds"], lists["pieces_of"]
                self.call(
                    f"{stage.name}_combine", len(bounds) - 1, bounds=bounds, vertices=lists["large"], pieces_of=of
                )
            offsets, ends = self.graph.csc.offsets, self.bounds
            self.edges += int(offsets[ends[-1]] - offsets[ends[0]])

        self.steps.append(step)

    def _builder(self, name: str, template: str, signature: list[tuple[str, str]]) -> KernelBuilder:
        builder = KernelBuilder(
            name, self.program, self.layout, template, [("bounds", "i64"), *signature], dynamic=True
        )
        builder.bind("src", "edge", "u")
        builder.bind("dst", "vertex", "v")
        return builder

    def _reduce(self, builder: KernelBuilder, stage: EdgeReduce, array: str, index: str) -> Kernel:
        self.bind_edges(builder, [stage], "csc")
        total = builder.start_accumulator("total", stage.message, stage.reducer, "vertex")
        builder.accumulate_in_runs(
            total, stage.into, stage.message, stage.reducer, start="vertex", block="edge", end="after", at="e"
        )
        builder.store(array, index, stage.message, total, "after")
        return builder.finish()

    def compute_kernel(self, stage: EdgeReduce, name: str) -> Kernel:
        """Build the kernel that computes and combines for one vertex of a list at a time."""
        signature = [("vertices", "i64"), ("in_offsets", "offsets"), ("in_neighbours", self.ids)]
        builder = self._builder(f"{stage.name}_{name}", OF_VERTEX, signature)
        if name == "middle":
            builder.prefetch_sources([stage], "in_neighbours", PREFETCH_DISTANCE)
        return self._reduce(builder, stage, f"vertex_{stage.into}", "v")

    def piece_kernel(self, stage: EdgeReduce) -> Kernel:
        """Build the kernel that computes and combines for one piece of a large vertex at a time."""
        signature = [
            ("piece_vertex", "i64"), ("piece_first", "i64"), ("piece_last", "i64"), ("in_neighbours", self.ids)
        ]  # fmt: skip
        builder = self._builder(f"{stage.name}_pieces", OF_PIECE, signature)
        builder.prefetch_sources([stage], "in_neighbours", PREFETCH_DISTANCE)
        return self._reduce(builder, stage, f"reduced_{stage.into}", "i")

    def combine_kernel(self, stage: EdgeReduce) -> Kernel:
        """Build the kernel that combines the pieces of every large vertex."""
        signature = [("vertices", "i64"), ("pieces_of", "i64")]
        builder = self._builder(f"{stage.name}_combine", COMBINE, signature)
        builder.bind("piece", "edge", "j", "reduced_")
        total = builder.start_accumulator("total", stage.message, stage.reducer, "vertex")
        builder.accumulate_in_runs(
            total, stage.into, builder.reading("piece", stage.into), stage.reducer, start="vertex", block="edge",
            end="after", at="j",
        )  # fmt: skip
        builder.store(f"vertex_{stage.into}", "v", stage.message, total, "after")
        return builder.finish()
