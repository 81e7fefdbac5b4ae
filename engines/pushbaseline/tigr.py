"""Tigr style: virtual node splitting (Sabet et al. 2018).

Every vertex is split into virtual nodes of at most ``degree_bound`` out-edges, which makes the units of work alike; in
every superstep every virtual node pushes along its edges. There is no change-driven form.

On the CPU a thread owns a range of destinations, and the virtual nodes of the edges that end there: what is split is a
vertex's run of edges with each owner. Edges of a virtual node are consecutive (the GPU strides them so that loads
coalesce, which means nothing to a cache line). Rows are vector values, as everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engines.pushbaseline.schedules import TigrSchedule
from harness.api import (
    CpuEngine,
    EdgeUpdate,
    FoldGroup,
    Graph,
    GraphReduce,
    Kernel,
    KernelBuilder,
    fill_kernel,
    owned_edges,
    owner_bounds,
    unfolded,
)

PUSH = """
    @part
    for n in range(node_bounds[t], node_bounds[t + 1]):
        u = at(node_source, n)
        if u < sources[0] or u >= sources[1]:
            continue
        @source
        for e in range(at(node_first, n), at(node_first, n) + at(node_degree, n)):
            v = at(out_neighbours, e)
            @edge
"""


@dataclass(frozen=True)
class VirtualNodes:
    """Virtual nodes, owner by owner: the source and the run of CSR positions of each, all int64.

    ``bounds[p] .. bounds[p + 1]`` are owner p's.
    """

    bounds: NDArray[np.int64]
    source: NDArray[np.int64]
    first: NDArray[np.int64]
    degree: NDArray[np.int64]


def split(graph: Graph, owners: int, bound: int) -> VirtualNodes:
    """Split every vertex's edges with each owner into virtual nodes of at most ``bound`` edges."""
    count = graph.num_vertices
    cuts = owned_edges(graph.csr.offsets, graph.csr.neighbours, owner_bounds(graph.csc.offsets, owners))
    first, last = cuts[: owners * count], cuts[count:]
    pieces = -(-(last - first) // bound)
    run = np.repeat(np.arange(owners * count), pieces)
    within = np.arange(len(run)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    start = first[run] + bound * within
    ends = np.concatenate([[0], np.cumsum(pieces)])[np.arange(owners + 1) * count]
    return VirtualNodes(ends.astype(np.int64), run % max(count, 1), start, np.minimum(bound, last[run] - start))


class TigrEngine(CpuEngine):
    """Push, all virtual nodes every superstep."""

    schedule: TigrSchedule
    direction = "push"

    def groups(self) -> tuple[FoldGroup, ...]:
        """Every stage in a kernel of its own."""
        return unfolded(self.program)

    def plan(self) -> None:
        """Clear, push, step."""
        nodes = split(self.graph, self.threads, self.schedule.degree_bound)
        for name in ("bounds", "source", "first", "degree"):
            self.memory.add(f"node_{name}", getattr(nodes, name))
        for group in self.tracking.groups:
            stage = group.stages[0]
            if isinstance(stage, GraphReduce):
                self.plan_graph(stage)
            elif group.kind == "vertex":
                self.plan_vertices(group)
            elif isinstance(stage, EdgeUpdate):
                self.plan_update(stage)
            else:
                self.plan_push(group)

    def plan_push(self, group: FoldGroup) -> None:
        """The kernels and the step of one edge reduction."""
        (stage,) = group.edge_stages
        self.add_kernel(fill_kernel(self.program, stage, self.layout))
        self.add_kernel(self.push_kernel(group))
        offsets = self.graph.csr.offsets

        def step() -> None:
            sources = self.sides[(self.superstep_index + 1) % len(self.sides)][[0, -1]]
            self.call(f"clear_{stage.into}", len(self.bounds) - 1, bounds=self.bounds)
            self.call(stage.name, self.threads, sources=sources)
            self.edges += int(offsets[sources[1]] - offsets[sources[0]])

        self.steps.append(step)

    def push_kernel(self, group: FoldGroup) -> Kernel:
        """Send the message of every edge of every virtual node."""
        (stage,) = group.edge_stages
        signature = [
            ("sources", "i64"), ("node_bounds", "i64"), ("node_source", "i64"), ("node_first", "i64"),
            ("node_degree", "i64"), ("out_neighbours", self.ids),
        ]  # fmt: skip
        builder = KernelBuilder(stage.name, self.program, self.layout, PUSH, signature)
        builder.bind("src", "source", "u")
        builder.bind("edge", "edge", "e", "csr_")
        builder.bind("dst", "edge", "v")
        builder.accumulate_in_memory(f"vertex_{stage.into}", "v", stage.message, stage.reducer, "edge")
        return builder.finish()
