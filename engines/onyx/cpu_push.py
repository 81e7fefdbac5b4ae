"""Onyx on the CPU, pushing: every thread owns a range of destinations and scatters into it the messages of all sources.

No operation is atomic, and every destination receives its messages in the order of their sources, as in a pull. With
change tracking, accumulators are kept and active sources send the change-driven form of their message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.api import (
    FIRST_EDGES,
    HUB_ARGUMENTS,
    EdgeReduce,
    Expression,
    FoldGroup,
    KeptAccumulators,
    Kernel,
    KernelBuilder,
    SentEdges,
    add_change_sums,
    balanced_bounds,
    change_driven,
    change_prefix,
    collect_changes,
    hub_runs,
    owned_edges,
    owner_bounds,
    push_template,
    reads,
    sum_hubs_in_runs,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from harness.api import CpuEngine

SCATTER = """
{test}
first = at(owned, u * cuts + t)
stop = at(owned, u * cuts + t + 1)
if first == stop:
    continue
{count}
@source
for e in range(first, stop):
    {arc}
    v = at(out_neighbours, e)
    @edge
"""
AHEAD = (
    """
prefetch(owned, u * cuts + t)
@rows
""",
    """
first = at(owned, u * cuts + t)
prefetch(out_neighbours, first)
@arcs
""",
    """
first = at(owned, u * cuts + t)
for e in range(first, min(at(owned, u * cuts + t + 1), first + {edges})):
    end = int64(at(out_neighbours, e))
    @ends
""",
)
ACTIVE = "active = at({active}, u)"
COUNT = "arcs += stop - first"
COUNTED = "    counts[t] = arcs\n"
MOVED = """if not active and not at({changed}, e):
        continue"""


class Push:
    """The scatters of an engine. ``rebuild``: the schedule's number of supersteps between rebuilding kept
    accumulators."""

    def __init__(self, engine: CpuEngine, rebuild: int) -> None:
        self.engine, self.owners = engine, engine.threads
        self.gathered: list[FoldGroup] = []
        graph, memory = engine.graph, engine.memory
        bounds = owner_bounds(graph.csc.offsets, self.owners)
        memory.add("owned", owned_edges(graph.csr.offsets, graph.csr.neighbours, bounds))
        self.runs = hub_runs(graph, bounds)
        self.runs.place(memory)
        forms = change_driven(engine.program) if engine.change_driven else ()
        assert not isinstance(forms, str)
        self.deltas = {form.reduction.name: form for form in forms}
        engine.accumulators = KeptAccumulators.of(engine.program, graph.facts, forms, rebuild)

    def plan_reductions(self, group: FoldGroup) -> None:
        """Add the kernels and the step of a group of edge reductions."""
        assert all(isinstance(stage, EdgeReduce) for stage in group.stages)
        scatter = Scatter(self, group)
        self.gathered.append(group)
        self.engine.steps.append(scatter.changes if self.engine.change_driven else scatter.everything)


class Scatter:
    """One group of edge reductions as steps of a superstep."""

    def __init__(self, push: Push, group: FoldGroup) -> None:
        engine = push.engine
        self.push, self.engine, self.group = push, engine, group
        self.name = engine.tracking.name(group)
        self.tracked = engine.change_driven
        self.moved_before = engine.tracking.moved_before(group)
        ends = [(int(side[0]), int(side[-1])) for side in (*engine.sides[1:], engine.sides[0])]
        offsets = engine.graph.csr.offsets
        self.source_bounds = [balanced_bounds(offsets, first, last, engine.threads) for first, last in ends]
        self.runs = [push.runs.between(first, last) for first, last in ends]
        engine.add_kernel(self.scatter(self.name, changes=False))
        add_change_sums(engine, group.edge_stages)
        if self.tracked:
            self.sent_edges = SentEdges(engine, group)
            visits = self.sent_edges.rows if self.sent_edges.reads else ""
            engine.active_sources.plan(group, visits=visits, arcs=not engine.accumulators.extrema)
            engine.add_kernel(self.scatter(f"{self.name}_changes", changes=True))

    def scatter(self, kernel_name: str, *, changes: bool) -> Kernel:
        """Build the kernel that sends the messages of all sources, or the changes of those of active sources."""
        engine, program = self.engine, self.engine.program
        signature = [*HUB_ARGUMENTS, ("owned", "i64"), ("out_offsets", "offsets"), ("out_neighbours", engine.ids)]
        test = arc = flags = count = ""
        active = f"active_{self.name}"
        if changes and self.sent_edges.reads:
            flags, changed = self.sent_edges.rows, self.sent_edges.changed  # includes the rows of active sources
            test, arc, count = ACTIVE.format(active=active), MOVED.format(changed=changed), f"if active:\n    {COUNT}"
            signature += [(active, "flag"), (changed, "flag")]
        elif changes:
            flags, count = active, COUNT
        ahead = [text.format(edges=FIRST_EDGES) for text in AHEAD]
        template = push_template("u", SCATTER.format(test=test, count=count, arc=arc), flags=flags, ahead=ahead)
        if changes:
            template += COUNTED
            signature.append(("counts", "i64"))
        builder = KernelBuilder(
            kernel_name, program, engine.layout, template, signature, feature_aware=engine.feature_aware
        )
        builder.blocks["part"].line("cuts = len(hub_bounds)")
        if flags:
            builder.flags(flags)
            builder.blocks["part"].line("arcs = 0")
        builder.bind("src", "source", "u")
        builder.bind("sent", "source", "u", f"sent_{self.name}_")
        engine.bind_edges(builder, self.group.edge_stages, "csr", self.name)
        builder.bind("dst", "edge", "v")
        for stage in self.group.edge_stages:
            message = self.push.deltas[stage.name].message if changes else stage.message
            readers = engine.tracking.stale_groups(stage.into) if changes else ()
            marks = [f"dirty_{engine.tracking.name(reader)}" for reader in readers]
            prefix = change_prefix(engine, stage) if changes else "vertex_"
            builder.push(stage, message, "edge", marks, prefix=prefix)
            if changes:
                self.ask_ahead(builder, prefix, stage.into, message, marks)
            sum_hubs_in_runs(builder, [stage], engine.memory, len(self.push.runs.hubs), prefix=prefix)
        return builder.finish()

    @staticmethod
    def ask_ahead(builder: KernelBuilder, prefix: str, into: str, message: Expression, marks: Sequence[str]) -> None:
        """Prefetch the operands of a message, its accumulator, and the flags that it sets."""
        for space, name in reads(message):
            if space in ("src", "sent"):
                builder.prefetch(space, name, "rows", "u")
            elif space in ("edge", "sent_edge"):
                builder.prefetch(space, name, "arcs", "first")
            elif space == "dst":
                builder.prefetch(space, name, "ends", "end")
        builder.bind("into", "edge", "v", prefix)
        builder.prefetch("into", into, "ends", "end")
        for flags in marks:
            builder.blocks["ends"].line(f"prefetch({flags}, end)")

    # steps ------------------------------------------------------------------------------------------------------
    @property
    def bounds(self) -> NDArray[np.int64]:
        """The parts of the sources whose edges lead to this superstep's destinations: the other side if sides
        alternate."""
        return self.source_bounds[self.engine.superstep_index % len(self.source_bounds)]

    def send(self, kernel: str) -> None:
        """Run a kernel that scatters."""
        runs = self.runs[self.engine.superstep_index % len(self.runs)]
        self.engine.call(kernel, self.push.owners, **runs)

    def everything(self) -> None:
        """Clear the accumulators and send all messages."""
        engine, offsets = self.engine, self.engine.graph.csr.offsets
        engine.workers = engine.threads
        for stage in self.group.edge_stages:
            engine.call(f"clear_{stage.into}", len(engine.bounds) - 1, bounds=engine.bounds)
        self.send(self.name)
        engine.edges += int(offsets[self.bounds[-1]] - offsets[self.bounds[0]]) * len(self.group.edge_stages)

    def changes(self) -> None:
        """Send the changes; when rebuilding, as at the start, clear the accumulators and send everything."""
        engine, bounds = self.engine, self.bounds
        if engine.rebuilding():
            self.everything()
            engine.active_sources.all_propagated(self.group, first=int(bounds[0]), last=int(bounds[-1]))
            self.sent_edges.all_propagated()
            for stage in self.group.edge_stages:
                for reader in engine.tracking.stale_groups(stage.into):
                    engine.memory.set_flags(f"dirty_{engine.tracking.name(reader)}", True)
            return
        known = len(engine.sides) == 1 and len(self.push.gathered) == 1 and not self.moved_before
        if self.sent_edges.reads and not known:
            engine.active_sources.count(self.group, bounds=bounds)  # notes their rows
        self.send(f"{self.name}_changes")
        collect_changes(engine, self.group.edge_stages)
        arcs = int(engine.memory.arrays["counts"][: self.push.owners].sum()) + self.sent_edges.propagated()
        engine.call(f"sent_{self.name}", len(bounds) - 1, bounds=bounds)
        engine.edges += arcs * len(self.group.edge_stages)
