"""Onyx on the CPU, pulling: the owner of a vertex gathers over its in-edges and continues with its vertex steps.

The full gather (every vertex) reads one buffer and writes the next. With change tracking there is also a gather of only
the dirty vertices, whose results are committed afterwards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from harness.api import (
    FIRST_EDGES,
    FoldGroup,
    Kernel,
    KernelBuilder,
    composed_writes,
    every_vertex,
    flagged_batches,
    flagged_loop,
    raised,
    reads,
    recomputation_only,
    write_back,
)

if TYPE_CHECKING:
    from harness.api import CpuEngine

PREFETCH_DISTANCE = 32  # edges; R-MAT scale 18, one core: 1.06x at k = 8, 1.15x at k = 32 and 100, against none

GATHER = """
    @part
    moved = 0
    arcs = 0
    {loop}
    counts[2 * t] = moved
    counts[2 * t + 1] = arcs
"""

VERTEX = """
@vertex
for e in range(at(in_offsets, v), at(in_offsets, v + 1)):
    u = at(in_neighbours, e)
    @edge
@after
"""

DIRTY_VERTEX = """
{fresh}
{stop}
moved += stop - at(in_offsets, v)
@vertex
for e in range(at(in_offsets, v), stop):
    u = at(in_neighbours, e)
    @edge
@after
"""

AHEAD = (
    """
prefetch(in_offsets, v)
@rows
""",
    """
prefetch(in_neighbours, at(in_offsets, v))
@arcs
""",
    """
first = at(in_offsets, v)
for e in range(first, min(at(in_offsets, v + 1), first + {edges})):
    end = int64(at(in_neighbours, e))
    @ends
""",
)
ALL_ARCS = "stop = at(in_offsets, v + 1)"

ALL_OR_NO_ARCS = """
gathers = {marked}[v] or not {kept}[v]
{marked}[v] = False
{kept}[v] = True
stop = at(in_offsets, v + 1) if gathers else at(in_offsets, v)
"""

COMMIT = """
    @part
    {loop}
"""


class Pull:
    """The gathers of an engine.

    ``dense_share``: if a larger share of the edges is active, everything is recomputed. ``was_sparse``: the previous
    superstep recomputed only dirty destinations.
    """

    def __init__(self, engine: CpuEngine, dense_share: float) -> None:
        self.engine, self.dense_share = engine, dense_share
        self.gathered: list[FoldGroup] = []
        self.was_sparse = False

    def plan_reductions(self, group: FoldGroup) -> None:
        """Add the kernels and the step of a group of edge reductions."""
        gather = Gather(self, group)
        self.gathered.append(group)
        self.engine.steps.append(gather.changes if self.engine.change_driven else gather.everything)


class Gather:
    """One group of edge reductions (and the vertex steps folded with them) as steps of a superstep."""

    def __init__(self, pull: Pull, group: FoldGroup) -> None:
        engine = pull.engine
        self.pull, self.engine, self.group = pull, engine, group
        self.name = engine.tracking.name(group)
        program = engine.program
        self.live = engine.tracking.live(group.stages)
        self.sources = engine.tracking.sources(group)
        sources = set(self.sources)
        written = {name for step in group.vertex_steps for name in step.writes} & self.live
        # properties that are still read through edges go to a second buffer; alternating sides never read their own
        # writes
        self.doubled = () if program.control.alternate else tuple(sorted(written & sources))
        self.tracked = engine.change_driven
        # a full gather propagates every present value: the buffer that was read then holds the values sent
        others = [stage for other in engine.tracking.groups if other is not group for stage in other.stages]
        alone = not any(sources & set(stage.writes) for stage in others)
        self.alone = alone  # no other group writes its sources: the active vertices stay the same until it gathers
        self.rotates = alone and bool(sources) and sources <= set(self.doubled)
        # a vertex may step although none of its sources moved; its previous reductions are then reused, if they were
        # kept: gathers of dirty vertices keep theirs, full gathers skip the writes
        tracking = engine.tracking
        unbounded = [name for name in tracking.own(group) if not tracking.bounds_only(group, name)]
        steps_alone = unbounded or tracking.of_graph(group)
        small = all(len(stage.message.shape) < 2 for stage in group.edge_stages)
        of_sources = not any(recomputation_only(program, stage) for stage in group.edge_stages)
        self.keeps = bool(self.tracked and group.vertex_steps and steps_alone and small and of_sources)
        for name in self.doubled:
            engine.memory.like(f"next_{name}", name)
        engine.add_kernel(self.gather(self.name, dirty_only=False))
        if self.tracked:
            engine.memory.add_flags(f"dirty_{self.name}", True)
            engine.memory.add_flags("fresh", False)
            if self.keeps:
                engine.memory.add_flags(f"marked_{self.name}", True)
                engine.memory.add(f"kept_{self.name}", np.zeros(engine.graph.num_vertices, np.bool_))
            reached = ("dirty", "marked") if self.keeps else ("dirty",)
            engine.active_sources.plan(group, marks={"out": [f"{kind}_{self.name}" for kind in reached]})
            engine.add_kernel(self.gather(f"{self.name}_dirty", dirty_only=True))
            engine.add_kernel(self.commit())

    # kernels ----------------------------------------------------------------------------------------------------
    def gather(self, kernel_name: str, *, dirty_only: bool) -> Kernel:
        """Build the kernel that gathers into all vertices, or the dirty ones."""
        engine, program = self.engine, self.engine.program
        signature = [
            ("bounds", "i64"), ("counts", "i64"), ("in_offsets", "offsets"), ("in_neighbours", engine.ids)
        ]  # fmt: skip
        loop, dirty = every_vertex("v", VERTEX), f"dirty_{self.name}"
        if dirty_only:
            loop = flagged_batches("v", dirty, self._dirty_vertex(), [text.format(edges=FIRST_EDGES) for text in AHEAD])
        builder = KernelBuilder(
            kernel_name, program, engine.layout, GATHER.format(loop=loop), signature,
            feature_aware=engine.feature_aware, dynamic=True,
        )  # fmt: skip
        if dirty_only:
            builder.flags(dirty)
            builder.flags("fresh")
            for flag in (f"marked_{self.name}", f"kept_{self.name}") if self.keeps else ():
                builder.argument(flag, "flag")
        builder.bind("src", "edge", "u")
        engine.bind_edges(builder, self.group.edge_stages, "csc")
        builder.bind("dst", "vertex", "v")
        builder.bind("v", "after", "v")
        last = "stop - 1" if dirty_only else "last"  # the next edges belong to a later vertex, or do not exist
        builder.prefetch_sources(self.group.edge_stages, "in_neighbours", PREFETCH_DISTANCE, last=last)
        reduced = []
        for stage in self.group.edge_stages:
            variable = f"{stage.into}_total"
            if self.keeps and dirty_only:
                total = builder.resume_accumulator(variable, stage.into, stage.message, stage.reducer, "gathers")
            else:
                total = builder.start_accumulator(variable, stage.message, stage.reducer, "vertex")
            builder.accumulate_in_runs(
                total, stage.into, stage.message, stage.reducer, start="vertex", block="edge", end="after", at="e"
            )
            builder.bind_value("v", stage.into, "after", total)
            if stage.into in self.live:
                reduced.append((stage.into, builder.reading("v", stage.into)))
            elif self.keeps and dirty_only:
                builder.store(f"vertex_{stage.into}", "v", builder.reading("v", stage.into), total, "after")
        if dirty_only:
            self._ask_ahead(builder)
        writes = reduced + composed_writes(program, self.group, self.live)
        write_back(
            builder,
            engine.tracking,
            self.group,
            writes,
            "after",
            prefix_of=dict.fromkeys(self.doubled, "next_"),
            sent_is_current=None if dirty_only or not self.rotates else self.group,
        )
        return builder.finish()

    def _ask_ahead(self, builder: KernelBuilder) -> None:
        """Prefetch the operands of the steps of a vertex and of its messages."""
        made = {stage.into for stage in self.group.edge_stages}
        found = {pair for stage in self.group.stages for pair in reads(stage)}
        for space, name in sorted(found):
            if space == "src":
                builder.prefetch("src", name, "ends", "end")
            elif space == "edge":
                builder.prefetch("edge", name, "arcs", "at(in_offsets, v)")
            elif space in ("dst", "v") and name not in made:
                builder.prefetch("dst", name, "rows", "v")

    def _dirty_vertex(self) -> str:
        """Return the body of a gather for a dirty vertex; if reductions are kept, it visits edges only if a source
        moved."""
        stop = ALL_ARCS
        if self.keeps:
            stop = ALL_OR_NO_ARCS.strip("\n").format(marked=f"marked_{self.name}", kept=f"kept_{self.name}")
        return DIRTY_VERTEX.format(fresh=raised("fresh", "v") if self.doubled else "", stop=stop)

    def commit(self) -> Kernel:
        """Build the kernel that copies fresh rows from the second buffer."""
        engine = self.engine
        template = COMMIT.format(loop=flagged_loop("v", "fresh", "@vertex"))
        builder = KernelBuilder(f"{self.name}_commit", engine.program, engine.layout, template, [("bounds", "i64")])
        builder.flags("fresh")
        builder.bind("next", "vertex", "v", "next_")
        for name in self.doubled:
            node = builder.reading("next", name)
            builder.store(f"vertex_{name}", "v", node, builder.lower(node), "vertex")
        return builder.finish()

    # steps ------------------------------------------------------------------------------------------------------
    def everything(self) -> None:
        """Gather into every vertex that this superstep updates."""
        engine, bounds = self.engine, self.engine.bounds
        engine.workers = engine.threads
        arrays = engine.memory.arrays
        engine.call(self.name, len(bounds) - 1, bounds=bounds)
        for name in self.doubled:
            current, spare = f"vertex_{name}", f"next_{name}"
            arrays[current], arrays[spare] = arrays[spare], arrays[current]
            if self.tracked and self.rotates and name in engine.active_sources.sent[self.name]:
                sent = f"sent_{self.name}_{name}"
                arrays[sent], arrays[spare] = arrays[spare], arrays[sent]
        if self.tracked and self.rotates:  # flags were set without their second level
            engine.memory.any_flags_may_be_set(f"active_{self.name}")
            engine.memory.any_flags_may_be_set(f"dirty_{self.name}")
        first, last = int(bounds[0]), int(bounds[-1])
        offsets = engine.graph.csc.offsets
        engine.edges += int(offsets[last] - offsets[first]) * len(self.group.edge_stages)
        if not self.tracked:
            engine.moved += int(arrays["counts"][: 2 * (len(bounds) - 1) : 2].sum())
        elif self.rotates:
            counts = arrays["counts"][: 2 * (len(bounds) - 1)].reshape(-1, 2).sum(axis=0)
            engine.active_sources.counted[self.name] = (int(counts[0]), int(counts[1]))

    def changes(self) -> None:
        """Gather into the destinations of sources that moved, or into all if that is cheaper."""
        engine = self.engine
        if engine.superstep_index < len(engine.sides) and not engine.narrowed:
            self._all_changed()  # nothing has been propagated yet
            return
        if len(self.pull.gathered) == 1 and self.alone:
            arcs = engine.active_sources.arcs[self.name]
        else:
            arcs = engine.active_sources.count(self.group)[1]
        # recomputing everything discards the reductions kept by gathers of dirty vertices: that takes twice the edges
        share = self.pull.dense_share * (2 if self.pull.was_sparse else 1)
        if arcs > share * engine.graph.num_edges:
            self._all_changed()
        else:
            self._some_changed(arcs)

    def _all_changed(self) -> None:
        engine, bounds = self.engine, self.engine.bounds
        engine.taken = "dense"
        self.pull.was_sparse = False
        for kind in ("dirty", "marked") if self.keeps else ("dirty",):
            flags = f"{kind}_{self.name}"
            engine.memory.set_flags(flags, True)  # the other side of a bipartite graph reads it in its own superstep
            engine.memory.set_flags(flags, False, int(bounds[0]), int(bounds[-1]))
        if self.keeps:
            engine.memory.arrays[f"kept_{self.name}"][:] = False
        engine.active_sources.all_propagated(self.group, but=self.doubled if self.rotates else ())
        self.everything()

    def _some_changed(self, arcs: int) -> None:
        engine, arrays = self.engine, self.engine.memory.arrays
        self.pull.was_sparse = True
        engine.active_sources.mark(self.group)
        bounds, parts = engine.bounds, len(engine.bounds) - 1
        engine.call(f"{self.name}_dirty", parts, bounds=bounds)
        visited = int(arrays["counts"][: 2 * parts : 2].sum())
        if self.doubled:
            engine.call(f"{self.name}_commit", parts, bounds=bounds)
        engine.edges += arcs + visited * len(self.group.edge_stages)
