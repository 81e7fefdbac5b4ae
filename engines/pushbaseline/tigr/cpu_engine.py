"""Tigr style: virtual node splitting (Sabet et al. 2018).

Every vertex is split into virtual nodes of at most ``degree_bound`` out-edges, which makes the units of work similar in
size. Every virtual node pushes along its edges in every superstep. There is no change-driven form.

On the CPU a thread owns a range of destinations, and the virtual nodes of the edges that end there: a vertex's range of
edges with each owner is split. Edges of a virtual node are consecutive. (The GPU strides them so that loads coalesce,
which has no benefit for cache lines.) Rows are vector values, as in all engines.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from engines.pushbaseline.schedules import TigrSchedule
from harness.api import (
    HUB_ARGUMENTS,
    CpuEngine,
    EdgeUpdate,
    FoldGroup,
    Graph,
    GraphReduce,
    HubRuns,
    Kernel,
    KernelBuilder,
    fill_kernel,
    hub_runs,
    owned_edges,
    owner_bounds,
    push_template,
    sum_hubs_in_runs,
    unfolded,
)

PUSH = """
u = at(node_source, n)
@source
for e in range(at(node_first, n), at(node_first, n) + at(node_degree, n)):
    v = at(out_neighbours, e)
    @edge
"""


@dataclass(frozen=True)
class VirtualNodes:
    """Virtual nodes, grouped by owner: the source and the range of CSR positions of each, all int64.

    Those of owner p are ``bounds[p] .. bounds[p + 1]``.
    """

    bounds: NDArray[np.int64]
    source: NDArray[np.int64]
    first: NDArray[np.int64]
    degree: NDArray[np.int64]

    def between(self, runs: HubRuns, first: int, last: int) -> dict[str, NDArray[np.int64]]:
        """Return the arguments of a push from the virtual nodes of the sources ``first .. last``."""
        starts, ends = [], []
        for t, (low, high) in enumerate(pairwise(self.bounds)):
            mine = self.source[low:high]
            starts.append(low + np.searchsorted(mine, first))
            wanted = np.clip(runs.ends[runs.run_bounds[t] : runs.run_bounds[t + 1]], first, last)
            ends.append(low + np.searchsorted(mine, wanted))
        return {"run_starts": np.array(starts, np.int64), "run_ends": np.concatenate(ends).astype(np.int64)}


def split(graph: Graph, owners: int, bound: int) -> VirtualNodes:
    """Split every vertex's edges with each owner into virtual nodes of at most ``bound`` edges."""
    count = graph.num_vertices
    cuts = owned_edges(graph.csr.offsets, graph.csr.neighbours, owner_bounds(graph.csc.offsets, owners))
    cuts = cuts.reshape(count, owners + 1).T.reshape(-1)  # grouped by owner
    first, last = cuts[: owners * count], cuts[count:]
    pieces = -(-(last - first) // bound)
    run = np.repeat(np.arange(owners * count), pieces)
    within = np.arange(len(run)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    start = first[run] + bound * within
    ends = np.concatenate([[0], np.cumsum(pieces)])[np.arange(owners + 1) * count]
    return VirtualNodes(ends.astype(np.int64), run % max(count, 1), start, np.minimum(bound, last[run] - start))


class TigrCpuEngine(CpuEngine):
    """Push, all virtual nodes every superstep."""

    schedule: TigrSchedule
    direction = "push"

    def groups(self) -> tuple[FoldGroup, ...]:
        """Return one group, and hence one kernel, per stage."""
        return unfolded(self.program)

    def plan(self) -> None:
        """Plan clear, push and step in the order of the stages."""
        nodes = split(self.graph, self.threads, self.schedule.degree_bound)
        for name in ("source", "first", "degree"):
            self.memory.add(f"node_{name}", getattr(nodes, name))
        self.runs = hub_runs(self.graph, owner_bounds(self.graph.csc.offsets, self.threads))
        self.runs.place(self.memory)
        for group in self.tracking.groups:
            stage = group.stages[0]
            if isinstance(stage, GraphReduce):
                self.plan_graph(stage)
            elif group.kind == "vertex":
                self.plan_vertices(group)
            elif isinstance(stage, EdgeUpdate):
                self.plan_update(group)
            else:
                self.plan_push(group, nodes)

    def plan_push(self, group: FoldGroup, nodes: VirtualNodes) -> None:
        """Plan the kernels and the step of one edge reduction."""
        (stage,) = group.edge_stages
        self.add_kernel(fill_kernel(self.program, stage, self.layout))
        self.add_kernel(self.push_kernel(group))
        offsets = self.graph.csr.offsets
        runs = [nodes.between(self.runs, int(side[0]), int(side[-1])) for side in self.sides]

        def step() -> None:
            heard = (self.superstep_index + 1) % len(self.sides)  # the other side, if sides alternate
            first, last = (int(end) for end in self.sides[heard][[0, -1]])
            self.call(f"clear_{stage.into}", len(self.bounds) - 1, bounds=self.bounds)
            self.call(stage.name, self.threads, **runs[heard])
            self.edges += int(offsets[last] - offsets[first])

        self.steps.append(step)

    def push_kernel(self, group: FoldGroup) -> Kernel:
        """Build the kernel that sends the message of every edge of every virtual node."""
        (stage,) = group.edge_stages
        signature = [
            *HUB_ARGUMENTS, ("node_source", "i64"), ("node_first", "i64"), ("node_degree", "i64"),
            ("out_neighbours", self.ids),
        ]  # fmt: skip
        builder = KernelBuilder(stage.name, self.program, self.layout, push_template("n", PUSH), signature)
        builder.bind("src", "source", "u")
        self.bind_edges(builder, [stage], "csr")
        builder.bind("dst", "edge", "v")
        builder.accumulate_in_memory(f"vertex_{stage.into}", "v", stage.message, stage.reducer, "edge")
        sum_hubs_in_runs(builder, [stage], self.memory, len(self.runs.hubs))
        return builder.finish()
