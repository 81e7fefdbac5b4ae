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
    DeviceFacts,
    EdgeUpdate,
    FoldGroup,
    Graph,
    GraphFacts,
    GraphReduce,
    No,
    Program,
    unfolded,
)
from harness.api.cpu import (
    HUB_ARGUMENTS,
    CpuEngine,
    CpuPlan,
    CpuPolicy,
    CpuSetting,
    HubRuns,
    Hubs,
    Kernel,
    KernelBuilder,
    LoweredProgram,
    PlanDraft,
    Run,
    Step,
    Structure,
    Table,
    VertexReduce,
    fill_kernel,
    owned_edges,
    owner_bounds,
    plan_graph,
    plan_named,
    plan_update,
    plan_vertices,
    push_template,
    sum_hubs_in_runs,
    unsupported,
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


@dataclass(frozen=True)
class Nodes(Table[VirtualNodes]):
    """The virtual nodes of a graph with this many owners; see :func:`split`."""

    owners: int
    bound: int

    def of(self, graph: Graph) -> VirtualNodes:
        """Return the virtual nodes."""
        return split(graph, self.owners, self.bound)

    def nbytes(self, graph: GraphFacts) -> int:
        """Return the bytes of all arrays, at most: edges of a vertex with every owner may fill a node partly."""
        partly = self.owners * graph.num_vertices + graph.num_edges // self.bound
        return 8 * (3 * min(graph.num_edges, partly) + self.owners + 1)

    def named(self, made: VirtualNodes) -> dict[str, NDArray[np.int64]]:
        """Return the arrays as kernels take them."""
        return {f"node_{name}": getattr(made, name) for name in ("source", "first", "degree")}


def split(graph: Graph, owners: int, bound: int) -> VirtualNodes:
    """Split every vertex's edges with each owner into virtual nodes of at most ``bound`` edges."""
    count = graph.num_vertices
    cuts = owned_edges(graph.csr.offsets, graph.csr.neighbours, owner_bounds(graph.in_offsets, owners))
    cuts = cuts.reshape(count, owners + 1).T.reshape(-1)  # grouped by owner
    first, last = cuts[: owners * count], cuts[count:]
    slices = -(-(last - first) // bound)
    run = np.repeat(np.arange(owners * count), slices)
    within = np.arange(len(run)) - np.repeat(np.cumsum(slices) - slices, slices)
    start = first[run] + bound * within
    ends = np.concatenate([[0], np.cumsum(slices)])[np.arange(owners + 1) * count]
    return VirtualNodes(ends.astype(np.int64), run % max(count, 1), start, np.minimum(bound, last[run] - start))


class TigrCpuEngine(CpuEngine):
    """Push, all virtual nodes every superstep."""

    schedule: TigrSchedule

    def plan(self, program: Program, graph: GraphFacts, features: int, device: DeviceFacts) -> CpuPlan | No:
        """Return the plan of the schedule (:func:`plan`)."""
        return plan(program, self.schedule, graph, features, device, self.runs)


def plan(
    program: Program, schedule: TigrSchedule, graph: GraphFacts, features: int, device: DeviceFacts,
    runs: CpuPolicy,
) -> CpuPlan | No:  # fmt: skip
    """Plan clear, push and step in the order of the stages; No with the reason if a program cannot run."""
    reason = unsupported(LoweredProgram.of(program).program, graph, features, change_driven=False, tracks_edges=True)
    if reason:
        return No(reason)
    setting = CpuSetting.of(program, graph, features, device, unfolded, direction="push", policy=runs)
    draft, nodes = PlanDraft(setting), Nodes(setting.threads, schedule.degree_bound)
    for group in setting.tracking.groups:
        stage = group.stages[0]
        if isinstance(stage, GraphReduce):
            plan_graph(draft, stage)
        elif group.kind == "vertex":
            plan_vertices(draft, group)
        elif isinstance(stage, EdgeUpdate):
            plan_update(draft, group)
        elif isinstance(stage, VertexReduce):
            plan_named(draft, stage)
        else:
            plan_push(draft, group, nodes)
    return draft.finish("TigrCpuEngine", schedule.with_place())


@dataclass(frozen=True)
class PushPass:
    """One edge reduction: clear the accumulator ``into``, and send the message of every edge."""

    name: str
    into: str
    nodes: Nodes
    hubs: Hubs

    def bound(self, run: Run) -> Step:
        """Return the step that pushes."""
        offsets = run.store.structure(Structure.OUT_OFFSETS)
        nodes, hubs = run.store.table(self.nodes), run.store.table(self.hubs)
        runs = [nodes.between(hubs, int(side[0]), int(side[-1])) for side in run.sides]

        def step() -> None:
            heard = (run.superstep_index + 1) % len(run.sides)  # the other side, if sides alternate
            first, last = (int(end) for end in run.sides[heard][[0, -1]])
            run.call(f"clear_{self.into}", len(run.bounds) - 1, bounds=run.bounds)
            run.call(self.name, run.threads, **runs[heard])
            run.edges += int(offsets[last] - offsets[first])

        return step


def plan_push(draft: PlanDraft, group: FoldGroup, nodes: Nodes) -> None:
    """Add the kernels and the pass of one edge reduction."""
    (stage,) = group.edge_stages
    hubs = Hubs(draft.setting.threads)
    draft.table(nodes)
    draft.table(hubs)
    draft.kernels.append(fill_kernel(draft.setting.program, stage, draft.setting.layout))
    draft.kernels.append(push_kernel(draft, group))
    draft.passes.append(PushPass(stage.name, stage.into, nodes, hubs))


def push_kernel(draft: PlanDraft, group: FoldGroup) -> Kernel:
    """Build the kernel that sends the message of every edge of every virtual node."""
    setting = draft.setting
    (stage,) = group.edge_stages
    signature = [
        *HUB_ARGUMENTS, ("node_source", "i64"), ("node_first", "i64"), ("node_degree", "i64"),
        ("out_neighbours", setting.ids),
    ]  # fmt: skip
    template = push_template("n", PUSH)
    builder = KernelBuilder(stage.name, setting.program, setting.layout, template, signature, items="node_source")
    builder.bind("src", "source", "u")
    draft.bind_edges(builder, [stage], "csr")
    builder.bind("dst", "edge", "v")
    builder.accumulate_in_memory(f"vertex_{stage.into}", "v", stage.message, stage.reducer, "edge")
    sum_hubs_in_runs(draft, builder, [stage])
    return builder.finish()
