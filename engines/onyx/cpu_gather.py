"""Kernels of Onyx's pull on the CPU: the full gather, the gather of dirty vertices, and the commit of their results."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from engines.onyx.fixed_vertices import never_moving
from engines.onyx.ready_messages import ReadyMessages
from harness.api import (
    Expression,
    FoldGroup,
    read,
    reads,
    substitute,
)
from harness.api.cpu import (
    FIRST_EDGES,
    CpuSetting,
    Kernel,
    KernelBuilder,
    PlanDraft,
    composed_writes,
    every_vertex,
    flagged_batches,
    flagged_loop,
    raised,
    write_back,
)

GATHER = """
    @part
    moved = 0
    edges = 0
    stop = at(in_offsets, bounds[t])
    {loop}
    counts[2 * t] = moved
    counts[2 * t + 1] = edges
"""

SKIPPING = """
    @part
    moved = 0
    edges = 0
    stop = at(in_offsets, bounds[t])
    skips = at(skipping, 0) != 0
    {loop}
    counts[2 * t] = moved
    counts[2 * t + 1] = edges
"""

OFFSETS = "first, stop = stop, at(in_offsets, v + 1)"
FIXED = """
@condition
@fixed
    edges += stop - first
    continue
"""

VERTEX = """
@vertex
for e in range(first, stop):
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
@edges
""",
    """
first = at(in_offsets, v)
for e in range(first, min(at(in_offsets, v + 1), first + {edges})):
    end = int64(at(in_neighbours, e))
    @ends
""",
)
ALL_EDGES = "stop = at(in_offsets, v + 1)"

ALL_OR_NO_EDGES = """
gathers = {marked}[v] or not {kept}[v]
{marked}[v] = False
{kept}[v] = True
stop = at(in_offsets, v + 1) if gathers else at(in_offsets, v)
"""

Into = Literal["all", "untracked", "dirty"]

READY = """
    @part
    for v in range(bounds[t], bounds[t + 1]):
        @vertex
"""

COMMIT = """
    @part
    {loop}
"""


@dataclass(frozen=True)
class GatherKernels:
    """Generate the kernels of a gather; for the fields see :class:`GatherPass`.

    ``prefetched``: edges between the edge that is processed and that whose source's row is prefetched; 0: rows of
    sources are not prefetched.
    """

    draft: PlanDraft
    group: FoldGroup
    doubled: tuple[str, ...]
    prefetched: int
    rotates: bool
    keeps: bool

    @property
    def setting(self) -> CpuSetting:
        """The parts of the plan that all kernels share."""
        return self.draft.setting

    @property
    def name(self) -> str:
        """The name of the group."""
        return self.setting.tracking.name(self.group)

    @property
    def fixed(self) -> Expression | None:
        """The condition under which a vertex never moves; None if all vertices may move, or if reductions are kept."""
        live = self.setting.tracking.live(self.group.stages)
        if any(stage.into in live for stage in self.group.edge_stages):
            return None
        return never_moving(self.setting.program, composed_writes(self.setting.program, self.group, live))

    @cached_property
    def ready(self) -> ReadyMessages | None:
        """The messages that sources make in supersteps without tracking; None if there are none."""
        setting = self.setting
        found = ReadyMessages.of(setting.program, self.group, setting.facts.average_degree)
        return found if found.made and setting.feature_aware else None

    def gather(self, kernel_name: str, into: Into = "all") -> Kernel:
        """Build the kernel that gathers into all vertices, into all without tracking, or into the dirty ones."""
        setting, tracking = self.setting, self.setting.tracking
        dirty_only, untracked = into == "dirty", into == "untracked"
        if untracked:
            tracking = replace(tracking, change_driven=False)
        live = tracking.live(self.group.stages)
        ready = self.ready if untracked else None
        program = ready.program if ready else setting.program
        stages = ready.stages if ready else self.group.edge_stages
        signature = [
            ("bounds", "i64"), ("counts", "i64"), ("in_offsets", "offsets"), ("in_neighbours", setting.ids)
        ]  # fmt: skip
        template, loop, dirty = GATHER, every_vertex("v", OFFSETS + VERTEX), f"dirty_{self.name}"
        if dirty_only:
            loop = flagged_batches("v", dirty, self._dirty_vertex(), [text.format(edges=FIRST_EDGES) for text in AHEAD])
        fixed = self.fixed if untracked else None
        if fixed is not None:
            signature.append(("skipping", "i64"))
            template, loop = SKIPPING, every_vertex("v", OFFSETS + FIXED + VERTEX)
        builder = KernelBuilder(
            kernel_name, program, setting.layout, template.format(loop=loop), signature,
            feature_aware=setting.feature_aware, dynamic=True, selects=dirty if dirty_only else "",
        )  # fmt: skip
        if fixed is not None:
            builder.bind("early", "condition", "v")
            chosen = builder.lower(substitute(fixed, _early)).text
            builder.blocks["fixed"].line(f"if skips and {chosen}:")
        if dirty_only:
            builder.flags(dirty)
            builder.flags("fresh")
            for flag in (f"marked_{self.name}", f"kept_{self.name}") if self.keeps else ():
                builder.argument(flag, "flag")
        builder.bind("src", "edge", "u")
        self.draft.bind_edges(builder, self.group.edge_stages, "csc")
        builder.bind("dst", "vertex", "v")
        builder.bind("v", "after", "v")
        last = "stop - 1" if dirty_only else "last"  # the next edges belong to a later vertex, or do not exist
        if self.prefetched:
            builder.prefetch_sources(stages, "in_neighbours", self.prefetched, last=last)
        reduced = []
        for stage in stages:
            variable = f"{stage.into}_total"
            if self.keeps and dirty_only:
                total = builder.resume_accumulator(variable, stage.into, stage.message, stage.reducer, "gathers")
            else:
                total = builder.start_accumulator(variable, stage.message, stage.reducer, "vertex")
            builder.accumulate_in_runs(
                total, stage.into, stage.message, stage.reducer, start="vertex", block="edge", end="after", at="e",
                terms=setting.facts.max_in_degree,
            )  # fmt: skip
            builder.bind_value("v", stage.into, "after", total)
            if stage.into in live:
                reduced.append((stage.into, builder.reading("v", stage.into)))
            elif self.keeps and dirty_only:
                builder.store(f"vertex_{stage.into}", "v", builder.reading("v", stage.into), total, "after")
        if dirty_only:
            self._ask_ahead(builder)
        writes = reduced + composed_writes(program, self.group, live)
        write_back(
            builder,
            tracking,
            self.group,
            writes,
            "after",
            prefix_of=dict.fromkeys(self.doubled, "next_"),
            sent_is_current=self.group if tracking.change_driven and self.rotates and not dirty_only else None,
        )
        for made, message in (ready.after(writes) if ready else {}).items():
            builder.store(f"next_{made}", "v", message, builder.lower(message), "after")
        return builder.finish()

    def make_ready(self) -> Kernel:
        """Build the kernel that makes the messages of all vertices."""
        ready, layout = self.ready, self.setting.layout
        assert ready is not None
        builder = KernelBuilder(f"{self.name}_ready", ready.program, layout, READY, [("bounds", "i64")])
        builder.bind("v", "vertex", "v")
        for made, message in ready.made.items():
            builder.store(f"vertex_{made}", "v", message, builder.lower(message), "vertex")
        return builder.finish()

    def _ask_ahead(self, builder: KernelBuilder) -> None:
        """Prefetch the operands of the steps of a vertex and of its messages."""
        made = {stage.into for stage in self.group.edge_stages}
        found = {pair for stage in self.group.stages for pair in reads(stage)}
        for space, name in sorted(found):
            if space == "src":
                builder.prefetch("src", name, "ends", "end")
            elif space == "edge":
                builder.prefetch("edge", name, "edges", "at(in_offsets, v)")
            elif space in ("dst", "v") and name not in made:
                builder.prefetch("dst", name, "rows", "v")

    def _dirty_vertex(self) -> str:
        """Return the body of a gather for a dirty vertex; if reductions are kept, it visits edges only if a source
        moved."""
        stop = ALL_EDGES
        if self.keeps:
            stop = ALL_OR_NO_EDGES.strip("\n").format(marked=f"marked_{self.name}", kept=f"kept_{self.name}")
        return DIRTY_VERTEX.format(fresh=raised("fresh", "v") if self.doubled else "", stop=stop)

    def commit(self) -> Kernel:
        """Build the kernel that copies fresh rows from the second buffer."""
        setting = self.setting
        template = COMMIT.format(loop=flagged_loop("v", "fresh", "@vertex"))
        builder = KernelBuilder(f"{self.name}_commit", setting.program, setting.layout, template, [("bounds", "i64")])
        builder.flags("fresh")
        builder.bind("next", "vertex", "v", "next_")
        for name in self.doubled:
            node = builder.reading("next", name)
            builder.store(f"vertex_{name}", "v", node, builder.lower(node), "vertex")
        return builder.finish()


def _early(node: Expression) -> Expression | None:
    """Return an expression in which reads at a vertex happen before its edges are visited."""
    return read("early", node.attribute[1], node.shape, node.dtype) if node.op == "read" else None
