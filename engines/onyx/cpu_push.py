"""Onyx on the CPU, pushing: every thread owns a range of destinations and scatters into it the messages of all sources.

No operation is atomic, and every destination receives its messages in the order of their sources, as in a pull. With
change tracking, accumulators are kept and active sources send the change-driven form of their message.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness.api import (
    Expression,
    FoldGroup,
    reads,
)
from harness.api.cpu import (
    FIRST_EDGES,
    HUB_ARGUMENTS,
    Hubs,
    Kernel,
    KernelBuilder,
    Owned,
    PlanDraft,
    Run,
    SentEdges,
    Step,
    Structure,
    add_change_sums,
    change_prefix,
    plan_sent_edges,
    push_template,
    sum_hubs_in_runs,
)

SCATTER = """
{test}
first = at(owned, u * cuts + t)
stop = at(owned, u * cuts + t + 1)
if first == stop:
    continue
{count}
@source
for e in range(first, stop):
    {edge}
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
@edges
""",
    """
first = at(owned, u * cuts + t)
for e in range(first, min(at(owned, u * cuts + t + 1), first + {edges})):
    end = int64(at(out_neighbours, e))
    @ends
""",
)
ACTIVE = "active = at({active}, u)"
COUNT = "edges += stop - first"
COUNTED = "    counts[t] = edges\n"
MOVED = """if not active and not at({changed}, e):
        continue"""


@dataclass(frozen=True)
class ScatterPass:
    """One group of edge reductions.

    ``accumulators``: the properties that it reduces into. ``hubs``: the table of hubs and their runs. ``collecting``:
    kernels that add sums of changes to accumulators. ``stale``: flags of the readers of the accumulators. ``edges``:
    edges that the group visits although their source did not move; None if everything is sent. ``known``: the active
    sources have been counted at the end of the previous superstep.
    """

    name: str
    accumulators: tuple[str, ...]
    hubs: Hubs
    collecting: tuple[str, ...] = ()
    stale: tuple[str, ...] = ()
    edges: SentEdges | None = None
    known: bool = False

    def bound(self, run: Run) -> Step:
        """Return the step that scatters."""
        return Scatter(self, run).everything if self.edges is None else ChangeScatter(self, self.edges, run).changes


class Scatter:
    """A scatter in a run."""

    def __init__(self, plan: ScatterPass, run: Run) -> None:
        self.plan, self.run = plan, run
        self.offsets = run.store.structure(Structure.OUT_OFFSETS)
        ends = [(int(side[0]), int(side[-1])) for side in (*run.sides[1:], run.sides[0])]
        hubs = run.store.table(plan.hubs)
        self.source_bounds = [run.rules.partition.bounds(self.offsets, first, last) for first, last in ends]
        self.runs: list[Mapping[str, NDArray[np.int64]]] = [hubs.between(first, last) for first, last in ends]

    @property
    def bounds(self) -> NDArray[np.int64]:
        """The parts of the sources whose edges lead to this superstep's destinations: the other side if sides
        alternate."""
        return self.source_bounds[self.run.superstep_index % len(self.source_bounds)]

    def send(self, kernel: str) -> None:
        """Run a kernel that scatters."""
        runs = self.runs[self.run.superstep_index % len(self.runs)]
        self.run.call(kernel, self.run.threads, **runs)

    def everything(self) -> None:
        """Clear the accumulators and send all messages."""
        run, bounds = self.run, self.run.bounds
        run.workers = run.threads
        for into in self.plan.accumulators:
            run.call(f"clear_{into}", len(bounds) - 1, bounds=bounds)
        self.send(self.plan.name)
        sent = int(self.offsets[self.bounds[-1]] - self.offsets[self.bounds[0]])
        run.edges += sent * len(self.plan.accumulators)


class ChangeScatter(Scatter):
    """A scatter of changes in a run. ``edges``: those that are sent although their source did not move."""

    def __init__(self, plan: ScatterPass, edges: SentEdges, run: Run) -> None:
        super().__init__(plan, run)
        self.sent_edges = edges

    def changes(self) -> None:
        """Send the changes; when rebuilding, as at the start, clear the accumulators and send everything."""
        plan, run, bounds = self.plan, self.run, self.bounds
        if self.rebuilds():
            self.everything()
            run.active_sources.all_propagated(plan.name, first=int(bounds[0]), last=int(bounds[-1]))
            self.sent_edges.all_propagated(run)
            for flags in plan.stale:
                run.memory.set_flags(flags, True)
            return
        if self.sent_edges.reads and not plan.known:
            run.active_sources.count(plan.name, bounds=bounds)  # notes their rows
        self.send(f"{plan.name}_changes")
        for kernel in plan.collecting:
            run.call(kernel, len(run.bounds) - 1, bounds=run.bounds)
        edges = int(run.memory.arrays["counts"][: run.threads].sum()) + self.sent_edges.propagated(run)
        run.call(f"sent_{plan.name}", len(bounds) - 1, bounds=bounds)
        run.edges += edges * len(plan.accumulators)

    def rebuilds(self) -> bool:
        """Return whether this superstep rebuilds the accumulators from all messages."""
        return self.run.rebuilding()


# planning -------------------------------------------------------------------------------------------------------------
def plan_scatter(draft: PlanDraft, group: FoldGroup) -> None:
    """Add the kernels and the pass of a group of edge reductions."""
    draft.passes.append(scatter_pass(draft, group))


def scatter_pass(
    draft: PlanDraft, group: FoldGroup, rebuild: Kernel | None = None, *, counts: bool = False
) -> ScatterPass:
    """Add the kernels of a group of edge reductions; return its pass.

    ``rebuild``: the kernel that rebuilds accumulators; None: one that sends all messages into cleared accumulators.
    ``counts``: the edges of active sources are counted, even if only extrema are kept, unless the sources are known.
    """
    setting, tracking = draft.setting, draft.setting.tracking
    name, stages = tracking.name(group), group.edge_stages
    hubs = Hubs(setting.threads)
    draft.table(Owned(setting.threads))
    draft.table(hubs)
    draft.kernels.append(rebuild or _scatter(draft, group, name))
    collecting = add_change_sums(draft, stages)
    accumulators = tuple(stage.into for stage in stages)
    if not setting.change_driven:
        return ScatterPass(name, accumulators, hubs)
    edges = plan_sent_edges(draft, group)
    visits = edges.rows if edges.reads else ""
    single = sum(bool(other.edge_stages) for other in tracking.groups) == 1 and not setting.alternates
    known = single and not tracking.moved_before(group)
    draft.frontier(group, visits=visits, edges=(counts and not known) or not setting.accumulators.extrema)
    draft.kernels.append(_scatter(draft, group, f"{name}_changes", edges))
    stale = [f"dirty_{tracking.name(reader)}" for into in accumulators for reader in tracking.stale_groups(into)]
    return ScatterPass(name, accumulators, hubs, collecting, tuple(stale), edges, known)


def _scatter(draft: PlanDraft, group: FoldGroup, kernel_name: str, edges: SentEdges | None = None) -> Kernel:
    """Build the kernel that sends the messages of all sources; with ``edges`` the changes of those of active
    sources."""
    setting, tracking, name = draft.setting, draft.setting.tracking, draft.setting.tracking.name(group)
    signature = [*HUB_ARGUMENTS, ("owned", "i64"), ("out_offsets", "offsets"), ("out_neighbours", setting.ids)]
    test = edge = flags = count = ""
    active = f"active_{name}"
    if edges and edges.reads:
        flags, changed = edges.rows, edges.changed  # includes the rows of active sources
        test, edge, count = ACTIVE.format(active=active), MOVED.format(changed=changed), f"if active:\n    {COUNT}"
        signature += [(active, "flag"), (changed, "flag")]
    elif edges:
        flags, count = active, COUNT
    ahead = [text.format(edges=FIRST_EDGES) for text in AHEAD]
    template = push_template("u", SCATTER.format(test=test, count=count, edge=edge), flags=flags, ahead=ahead)
    if edges:
        template += COUNTED
        signature.append(("counts", "i64"))
    builder = KernelBuilder(
        kernel_name, setting.program, setting.layout, template, signature, feature_aware=setting.feature_aware,
        selects=flags,
    )  # fmt: skip
    builder.blocks["part"].line("cuts = len(hub_bounds)")
    if flags:
        builder.flags(flags)
        builder.blocks["part"].line("edges = 0")
    builder.bind("src", "source", "u")
    builder.bind("sent", "source", "u", f"sent_{name}_")
    draft.bind_edges(builder, group.edge_stages, "csr", name)
    builder.bind("dst", "edge", "v")
    messages = {form.reduction.name: form.message for form in setting.forms}
    for stage in group.edge_stages:
        message = messages[stage.name] if edges else stage.message
        readers = tracking.stale_groups(stage.into) if edges else ()
        marks = [f"dirty_{tracking.name(reader)}" for reader in readers]
        prefix = change_prefix(setting, stage) if edges else "vertex_"
        builder.push(stage, message, "edge", marks, prefix=prefix)
        if edges:
            _ask_ahead(builder, prefix, stage.into, message, marks)
        sum_hubs_in_runs(draft, builder, [stage], prefix=prefix)
    return builder.finish()


def _ask_ahead(builder: KernelBuilder, prefix: str, into: str, message: Expression, marks: Sequence[str]) -> None:
    """Emit prefetches of the operands of a message, of its accumulator, and of the flags that it sets."""
    for space, name in reads(message):
        if space in ("src", "sent"):
            builder.prefetch(space, name, "rows", "u")
        elif space in ("edge", "sent_edge"):
            builder.prefetch(space, name, "edges", "first")
        elif space == "dst":
            builder.prefetch(space, name, "ends", "end")
    builder.bind("into", "edge", "v", prefix)
    builder.prefetch("into", into, "ends", "end")
    for flags in marks:
        builder.blocks["ends"].line(f"prefetch({flags}, end)")
