"""Tigr style on CUDA devices: a thread pushes along the edges of one virtual node, one feature at a time (Sabet et al.
2018).

All virtual nodes push in every superstep. Sums, minima and maxima are atomic, with one operation per feature and edge.
As in the original, the last reader of a sum clears it for the next superstep. Extrema are kept. As in the original's
traversals, every virtual node tests whether its vertex has moved before it processes its edges.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from harness.api import (
    EdgeReduce,
    FoldGroup,
    No,
    change_driven,
    reads,
)
from harness.api.cuda import (
    IDENTITY,
    Listed,
    LoweredProgram,
    Over,
    ThreadPlanner,
    WorkList,
    refusal,
    steps_folded,
    table,
    thread_setting,
)

if TYPE_CHECKING:
    from engines.pushbaseline.schedules import TigrSchedule
    from harness.api import DeviceFacts, Graph, GraphFacts, Program
    from harness.api.cuda import Bounds, CudaPlan, CudaSetting

# Every virtual node has at least one edge. In a loop that may have none, the source values of the messages would be
# loaded after the bounds of the edges are known, and not together with them.
PUSH = """
    @kernel
    for (Id n = first + thread_of_grid(); n < last; n += threads_of_grid()) {{
        const Id u = node_source[n];
        @source
        const VirtualNode<{bound}> node(u, node_part[n], out_offsets);
        EdgeId e = node.first;
        do {{
            const Id v = out_neighbours[e];
            @edge
        }} while ((e += node.stride) < node.last);
    }}
"""
FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class VirtualNodes(WorkList):
    """The source of every virtual node, and the number of its part of the source's edges (both uint32).

    ``bound``: edges of a virtual node, at most. ``sides``: of vertices that supersteps update.
    """

    bound: int
    sides: tuple[Bounds, ...]

    def of(self, graph: Graph) -> Listed:
        """Return the virtual nodes in the order of their sources; those of a side push to its vertices."""
        parts = -(-graph.out_degrees // self.bound)
        ends = np.concatenate([[0], np.cumsum(parts)])
        heard = [self.sides[(side + 1) % len(self.sides)] for side in range(len(self.sides))]
        bounds = [(int(ends[first]), int(ends[last])) for first, last in heard]
        source = np.repeat(np.arange(len(parts), dtype=np.uint32), parts)
        part = (np.arange(len(source)) - np.repeat(ends[:-1], parts)).astype(np.uint32)
        return Listed({"node_source": source, "node_part": part}, bounds)

    def nbytes(self, graph: GraphFacts) -> int:
        """Return the bytes of both arrays."""
        return 2 * 4 * graph.out_degrees.slices(self.bound)


def plan(
    program: Program, schedule: TigrSchedule, facts: GraphFacts, features: int, device: DeviceFacts
) -> CudaPlan | No:
    """Return the plan of a program on a CUDA device, or why it cannot run."""
    lowered = LoweredProgram.of(program, masked=True)
    reason = refused(lowered.program, schedule, facts, features)
    if reason:
        return No(reason)
    groups = steps_folded(lowered.program)  # so that no values of vertex steps pass through global memory
    setting = thread_setting(lowered, facts, features, "push", groups=groups)
    nodes = VirtualNodes(schedule.degree_bound, setting.sides)
    planner = TigrPlanner(setting, nodes)
    planner.plan_stages()
    for name in ("node_source", "node_part"):
        planner.draft.own(table(name, facts.out_degrees.slices(schedule.degree_bound), nodes))
    return planner.draft.finish(schedule.with_place(), FOLDER)


def refused(program: Program, schedule: TigrSchedule, facts: GraphFacts, features: int) -> str:
    """Return why this schedule cannot run a lowered program; empty if it can, as far as known without planning."""
    if facts.out_degrees.slices(schedule.degree_bound) >= 1 << 32:
        return f"numbers of virtual nodes take 32 bits, and degree_bound={schedule.degree_bound} makes more"
    return refusal(program, facts, features)


class TigrPlanner(ThreadPlanner):
    """Clear, push and step in the order of the stages. ``nodes``: the virtual nodes that push."""

    scratch = "shared"

    def __init__(self, setting: CudaSetting, nodes: VirtualNodes) -> None:
        super().__init__(setting)
        self.nodes = nodes
        forms = change_driven(self.program)
        self.extrema = set() if isinstance(forms, str) else {f.reduction.name for f in forms if f.kind == "monotone"}
        self.reductions = [stage for stage in self.program.stages if isinstance(stage, EdgeReduce)]
        self.last_readers = {stage.name: self._last_reader(stage) for stage in self.reductions}
        self.only_extrema = all(stage.name in self.extrema for stage in self.reductions)
        self.mover = self._mover() if self.only_extrema else None

    def _mover(self) -> FoldGroup | None:
        """Return the group of vertex steps that writes what messages read from their sources; None if there are
        several."""
        read = {name for stage in self.reductions for space, name in reads(stage) if space == "src"}
        writers = [g for g in self.tracking.groups if any(read & set(step.writes) for step in g.vertex_steps)]
        return writers[0] if len(writers) == 1 else None

    def _last_reader(self, stage: EdgeReduce) -> str:
        """Return the last vertex step that reads a reduction; empty if other stages read it, or it is an output."""
        readers = [s for s in self.program.stages if stage.into in {name for _, name in reads(s)}]
        after = self.program.stages[self.program.stages.index(stage) :]
        own = {s.name for group in self.tracking.groups for s in group.vertex_steps}
        fits = readers and all(s in after and s.name in own for s in readers)
        return readers[-1].name if fits and stage.into not in self.program.outputs else ""

    def plan_reduction(self, stage: EdgeReduce) -> None:
        """Push the message of every edge of every virtual node into accumulators that are already cleared."""
        signature = [
            ("first", "Id"), ("last", "Id"), ("node_source", "ids"), ("node_part", "ids"), ("out_offsets", "offsets"),
            ("out_neighbours", "ids"),
        ]  # fmt: skip
        builder = self.builder(stage.name, PUSH.format(bound=self.nodes.bound), signature)
        builder.bind("src", "source", "u")
        builder.bind_scalar("src", "out_degree", "source", "float(out_offsets[u + 1] - out_offsets[u])")
        builder.bind_edge(stage, "edge", "csr")
        builder.bind("dst", "edge", "v")
        builder.comment("edge", stage)
        if self.mover is not None:
            builder.blocks["source"].line(f"if (!{builder.argument(self._moved(), 'flags')}[u]) continue;")
        if stage.name in self.extrema and builder.known_in(stage.message, "source"):
            silent = builder.is_identity(stage.message, stage.reducer, "source")
            builder.blocks["source"].line(f"if ({silent}) continue;")
        builder.reduce_into(f"vertex_{stage.into}", "v", stage.message, stage.reducer, "edge")
        if stage.name in self.extrema or self.last_readers[stage.name]:
            self.draft.begin_with(f"vertex_{stage.into}", IDENTITY[stage.reducer])
        else:
            self.draft.add(self.clear_kernel(stage), Over.VERTICES, 1)
        self.draft.add(builder.finish(), self.nodes, 1)

    def plan_vertices(self, group: FoldGroup) -> None:
        """Add the kernel that applies a group's steps to all vertices, and clears the sums that are dead after them."""
        builder = self.vertices_builder(group, changed="changed" if self.only_extrema else "")
        if group is self.mover:
            # if sides alternate, the messages of the side that is updated first have not been pushed yet
            unheard = " || run->superstep + 1 < run->sides" if self.program.control.alternate else ""
            builder.blocks["visit"].line(f"{builder.argument(self._moved(), 'flag')}[v] = changed{unheard};")
        steps = {step.name for step in group.vertex_steps}
        for stage in self.reductions:
            if stage.name not in self.extrema and self.last_readers[stage.name] in steps:
                builder.fill_identity(f"vertex_{stage.into}", "v", stage.message, stage.reducer, "visit")
        self.add_vertices(builder, group)

    def _moved(self) -> str:
        """Return the name of the flags of vertices that moved in the last superstep that updated them; all are set at
        the start."""
        assert self.mover is not None
        return f"active_{self.tracking.name(self.mover)}"
