"""Onyx on the CPU, pushing: every thread owns a range of destinations and scatters into it what all sources send.

Nothing is atomic, and every destination receives its messages in the order of their sources, as in a pull. With change
tracking, accumulators live on and active sources send the change-driven form of their message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from harness.api import (
    HUB_ARGUMENTS,
    EdgeReduce,
    FoldGroup,
    GraphReduce,
    Kernel,
    KernelBuilder,
    SentEdges,
    balanced_bounds,
    change_driven,
    fill_kernel,
    hub_runs,
    owned_edges,
    owner_bounds,
    push_template,
    sum_hubs_in_runs,
)

if TYPE_CHECKING:
    from engines.onyx.cpu_engine import OnyxCpuEngine

SCATTER = """
{test}
first = at(owned, t * vertices + u)
stop = at(owned, (t + 1) * vertices + u)
if first == stop:
    continue
@source
for e in range(first, stop):
    {arc}
    v = at(out_neighbours, e)
    @edge
"""
ACTIVE = """active = at({active}, u)
if not active and not {row}:
    continue"""
MOVED = """if not active and not {edge}:
        continue"""


class Scatter:
    """One group of edge reductions as steps of a superstep."""

    def __init__(self, engine: OnyxCpuEngine, group: FoldGroup) -> None:
        self.engine, self.group = engine, group
        self.name = engine.tracking.name(group)
        self.tracked = engine.change_driven
        self.moved_before = engine.tracking.moved_before(group)
        engine.add_kernel(self.scatter(self.name, changes=False))
        for stage in group.edge_stages:
            engine.add_kernel(fill_kernel(engine.program, stage, engine.layout))
        if self.tracked:
            engine.plan_tracking(group)
            self.sent_edges = SentEdges(engine, group)
            engine.add_kernel(self.scatter(f"{self.name}_changes", changes=True))

    def scatter(self, kernel_name: str, *, changes: bool) -> Kernel:
        """The kernel that sends the messages of all sources, or what changed in those of active ones."""
        engine, program = self.engine, self.engine.program
        signature = [*HUB_ARGUMENTS, ("owned", "i64"), ("out_offsets", "offsets"), ("out_neighbours", engine.ids)]
        test = arc = ""
        if changes:
            signature += [(f"active_{self.name}", "flag"), *self.sent_edges.arguments]
            row, edge = self.sent_edges.tests
            test = ACTIVE.format(active=f"active_{self.name}", row=row)
            arc = MOVED.format(edge=edge) if self.sent_edges.reads else ""
        builder = KernelBuilder(
            kernel_name,
            program,
            engine.layout,
            push_template("u", SCATTER.format(test=test, arc=arc)),
            signature,
            feature_aware=engine.feature_aware,
        )
        builder.blocks["part"].line("vertices = len(out_offsets) - 1")
        builder.bind("src", "source", "u")
        builder.bind("sent", "source", "u", f"sent_{self.name}_")
        engine.bind_edges(builder, self.group.edge_stages, "csr", self.name)
        builder.bind("dst", "edge", "v")
        for stage in self.group.edge_stages:
            message = engine.deltas[stage.name].message if changes else stage.message
            builder.accumulate_in_memory(f"vertex_{stage.into}", "v", message, stage.reducer, "edge")
            for reader in engine.tracking.stale_groups(stage.into) if changes else ():
                flag = builder.argument(f"dirty_{engine.tracking.name(reader)}", "flag")
                builder.blocks["edge"].line(f"{flag}[v] = True")
        sum_hubs_in_runs(builder, self.group.edge_stages, engine.memory, len(engine.runs.hubs))
        return builder.finish()

    # steps ------------------------------------------------------------------------------------------------------
    def sources(self) -> tuple[int, int]:
        """The range of sources that this superstep's destinations hear: the other side where sides alternate."""
        engine = self.engine
        side = engine.sides[(engine.superstep_index + 1) % len(engine.sides)]
        return int(side[0]), int(side[-1])

    def everything(self) -> None:
        """Clear the accumulators and send all messages."""
        engine, (first, last) = self.engine, self.sources()
        for stage in self.group.edge_stages:
            engine.call(f"clear_{stage.into}", len(engine.bounds) - 1, bounds=engine.bounds)
        engine.call(self.name, engine.owners, **engine.runs.between(first, last))
        offsets = engine.graph.csr.offsets
        engine.edges += int(offsets[last] - offsets[first]) * len(self.group.edge_stages)

    def changes(self) -> None:
        """Send what changed; now and then, and at first, clear the accumulators and send everything."""
        engine, arrays = self.engine, self.engine.memory.arrays
        first, last = self.sources()
        if engine.rebuilding():
            self.everything()
            engine.all_propagated(self.group, first=first, last=last)
            self.sent_edges.all_propagated()
            for stage in self.group.edge_stages:
                for reader in engine.tracking.stale_groups(stage.into):
                    arrays[f"dirty_{engine.tracking.name(reader)}"][:] = True
            return
        engine.call(f"{self.name}_changes", engine.owners, **engine.runs.between(first, last))
        offsets = engine.graph.csr.offsets
        active = arrays[f"active_{self.name}"][first:last]
        if len(engine.sides) == 1 and len(engine.gathered) == 1 and not self.moved_before:
            arcs = engine.frontier_arcs[self.name]
        else:
            arcs = int(np.diff(offsets[first : last + 1])[active].sum())
        arcs += self.sent_edges.count(active)
        bounds = balanced_bounds(offsets, first, last, engine.threads)
        engine.call(f"sent_{self.name}", len(bounds) - 1, bounds=bounds)
        self.sent_edges.propagated()
        engine.edges += arcs * len(self.group.edge_stages)


def plan(engine: OnyxCpuEngine) -> None:
    """The steps of a pushing superstep."""
    engine.owners = engine.threads
    graph, memory = engine.graph, engine.memory
    bounds = owner_bounds(graph.csc.offsets, engine.owners)
    memory.add("owned", owned_edges(graph.csr.offsets, graph.csr.neighbours, bounds))
    engine.runs = hub_runs(graph, bounds)
    engine.runs.place(memory)
    forms = change_driven(engine.program) if engine.change_driven else ()
    assert not isinstance(forms, str)
    engine.deltas = {form.reduction.name: form for form in forms}
    engine.keep_accumulators(forms, engine.schedule.rebuild)
    for group in engine.tracking.groups:
        if group.kind == "graph":
            for stage in group.stages:
                assert isinstance(stage, GraphReduce)
                engine.plan_graph(stage)
        elif group.kind == "vertex":
            engine.plan_vertices(group)
        elif group.kind == "update":
            engine.plan_update(group)
        else:
            assert all(isinstance(stage, EdgeReduce) for stage in group.stages)
            engine.gathered.append(group)
            scatter = Scatter(engine, group)
            engine.steps.append(scatter.changes if engine.change_driven else scatter.everything)
    if engine.change_driven:
        engine.steps.append(lambda: engine.count_moved(engine.gathered))
