"""Tigr style on CUDA devices: a thread pushes along the edges of one virtual node, one feature at a time (Sabet et al.
2018).

All virtual nodes push in every superstep. Sums, minima and maxima are atomic, with one operation per feature and edge.
As in the original, the last reader of a sum clears it for the next superstep. Extrema are kept. As in the original's
traversals, every virtual node tests whether its vertex has moved before it processes its edges.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from engines.pushbaseline.schedules import TigrSchedule
from harness.api import (
    IDENTITY,
    EdgeReduce,
    FoldGroup,
    Graph,
    Launch,
    Over,
    Pieces,
    Program,
    Tables,
    ThreadEngine,
    change_driven,
    reads,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from harness.api import Mapped

# Every virtual node has at least one edge. In a loop that may have none, the source values of the messages would be
# loaded after the bounds of the edges are known, and not together with them.
PUSH = """
    @kernel
    for (Id n = first + thread_of_grid(); n < last; n += threads_of_grid()) {{
        const Id u = node_source[n];
        @source
        const VirtualNode<{bound}> node(u, node_part[n], out_offsets);
        Arc e = node.first;
        do {{
            const Id v = out_neighbours[e];
            @edge
        }} while ((e += node.stride) < node.last);
    }}
"""
NODE_BYTES = 8  # source and part


class TigrCudaEngine(ThreadEngine):
    """Push, all virtual nodes every superstep."""

    schedule: TigrSchedule
    direction = "push"
    scratch = "shared"
    templates = Path(__file__).parent

    def refusal(self, program: Program, graph: Graph, features: int) -> str:
        """Return why this schedule cannot run the program; empty if it can."""
        if int(self._parts(graph).sum()) >= 1 << 32:
            return f"numbers of virtual nodes take 32 bits, and degree_bound={self.schedule.degree_bound} makes more"
        return super().refusal(program, graph, features)

    def bytes_needed(self) -> int:
        """Return the bytes of device memory, with the virtual nodes."""
        return super().bytes_needed() + NODE_BYTES * int(self._parts(self.graph).sum())

    def _parts(self, graph: Graph) -> NDArray[np.int64]:
        """Return the number of virtual nodes of every vertex."""
        return -(-graph.out_degrees // self.schedule.degree_bound)

    def transform(self) -> Tables:
        """Return the source of every virtual node, and the number of its part of the source's edges (both uint32)."""
        parts = self._parts(self.graph)
        ends = np.concatenate([[0], np.cumsum(parts)])
        heard = [self.sides[(side + 1) % len(self.sides)] for side in range(len(self.sides))]
        pieces = {"nodes": [(int(ends[first]), int(ends[last])) for first, last in heard]}
        source = np.repeat(np.arange(len(parts), dtype=np.uint32), parts)
        part = (np.arange(len(source)) - np.repeat(ends[:-1], parts)).astype(np.uint32)
        return Tables({"node_source": source, "node_part": part}, pieces)

    def mappings(self) -> Sequence[Mapped]:
        """Return the access patterns of the traversals here and of those shared by thread engines."""
        from engines.pushbaseline.tigr.cuda_walks import MAPPINGS

        return (*MAPPINGS, *super().mappings())

    def groups(self) -> tuple[FoldGroup, ...]:
        """Return one group per stage; consecutive vertex steps share a kernel, so that no values pass through global
        memory."""
        found: list[FoldGroup] = []
        for group in super().groups():
            if found and found[-1].kind == group.kind == "vertex":
                found[-1] = FoldGroup("vertex", (*found[-1].stages, *group.stages))
            else:
                found.append(group)
        return tuple(found)

    def plan(self) -> None:
        """Plan clear, push and step in the order of the stages."""
        forms = change_driven(self.program)
        self.extrema = set() if isinstance(forms, str) else {f.reduction.name for f in forms if f.kind == "monotone"}
        self.reductions = [stage for stage in self.program.stages if isinstance(stage, EdgeReduce)]
        self.last_readers = {stage.name: self._last_reader(stage) for stage in self.reductions}
        self.only_extrema = all(stage.name in self.extrema for stage in self.reductions)
        self.mover = self._mover() if self.only_extrema else None
        super().plan()

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
            ("first", "Id"), ("last", "Id"), ("node_source", "ids"), ("node_part", "ids"), ("out_offsets", "arcs"),
            ("out_neighbours", "ids"),
        ]  # fmt: skip
        builder = self.builder(stage.name, PUSH.format(bound=self.schedule.degree_bound), signature)
        builder.bind("src", "source", "u")
        builder.bind_scalar("src", "out_degree", "source", "float(out_offsets[u + 1] - out_offsets[u])")
        builder.bind_edge(stage, "edge", "csr")
        builder.bind("dst", "edge", "v")
        builder.comment("edge", stage)
        if self.mover is not None:
            builder.blocks["source"].line(f"if (!{builder.argument(self._moved(), 'flags')}[u]) continue;")
        if stage.name in self.extrema and builder.known_in(stage.message, "source"):
            builder.blocks["source"].line(f"if ({builder.is_blank(stage.message, stage.reducer, 'source')}) continue;")
        builder.reduce_into(f"vertex_{stage.into}", "v", stage.message, stage.reducer, "edge")
        if stage.name in self.extrema or self.last_readers[stage.name]:
            self.blanks[f"vertex_{stage.into}"] = IDENTITY[stage.reducer]
        else:
            self.launches.append(Launch(self.clear_kernel(stage), Over.VERTICES, 1))
        self.launches.append(Launch(builder.finish(), Pieces("nodes"), 1))

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
                builder.blank(f"vertex_{stage.into}", "v", stage.message, stage.reducer, "visit")
        self.add_vertices(builder, group)

    def _moved(self) -> str:
        """Return the name of the flags of vertices that moved in the last superstep that updated them; all are set at
        the start."""
        assert self.mover is not None
        return f"active_{self.tracking.name(self.mover)}"
