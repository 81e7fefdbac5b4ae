"""Onyx on the CPU, ``direction=adaptive``: a push of changes whose accumulators are rebuilt by a pull.

If few sources have moved, a superstep pushes their changes into accumulators that the run keeps. If many have moved,
owners of vertices gather over all in-edges instead, and store the same accumulators (Beamer et al. 2012,
*Direction-optimizing breadth-first search*, for any program that can push changes). The number of edges of the sources
that moved is compared with a share of all edges. The choice depends on counts only, so that runs are reproducible.
"""

from __future__ import annotations

from dataclasses import dataclass

from engines.onyx.cpu_gather import OFFSETS, VERTEX
from engines.onyx.cpu_push import ChangeScatter, ScatterPass, scatter_pass
from engines.onyx.direction_choice import DirectionChoice
from harness.api import FoldGroup
from harness.api.cpu import (
    Kernel,
    KernelBuilder,
    PlanDraft,
    Run,
    Step,
    Structure,
    change_prefix,
    count_kernel,
    every_vertex,
)
from harness.api.directions import Noted, Reason

PULL = """
    @part
    stop = at(in_offsets, bounds[t])
    {loop}
"""


@dataclass(frozen=True)
class AdaptivePass:
    """One group of edge reductions that pushes changes, or pulls.

    ``scatter``: the push. ``choice``: the share of the edges; if the sources that moved have at least as many, the
    group pulls over all edges. It never does if the share is 1. ``counting``: the kernel that counts the edges of the
    sources that moved; empty if they have been counted before.
    """

    scatter: ScatterPass
    choice: DirectionChoice
    counting: str = ""

    def bound(self, run: Run) -> Step:
        """Return the step that pushes or pulls."""
        return AdaptiveScatter(self, run).changes


class AdaptiveScatter(ChangeScatter):
    """A push of changes in a run, or a pull over all in-edges; chosen before each superstep."""

    def __init__(self, plan: AdaptivePass, run: Run) -> None:
        assert plan.scatter.edges is not None
        super().__init__(plan.scatter, plan.scatter.edges, run)
        self.in_offsets, self.choice = run.store.structure(Structure.IN_OFFSETS), plan.choice
        self.limit = max(1, int(plan.choice.share * run.rules.graph.num_edges / len(run.sides)))
        self.counting, self.largest = plan.counting, run.rules.graph.out_degrees.largest
        self.reason: Reason = "few"
        self.sent: int | None = None  # edges of the sources that moved; None: a push is about to count them

    def changes(self) -> None:
        """Push the changes, or pull; record the reason."""
        run, visited = self.run, self.run.edges
        super().changes()
        edges = (run.edges - visited) // len(self.plan.accumulators) if self.sent is None else self.sent
        if run.choice is None or edges > run.choice.edges:  # of several groups, the one with the most edges
            run.choice = Noted(edges, self.reason, self.choice.made)

    def rebuilds(self) -> bool:
        """Return whether this superstep rebuilds: it is due, or the sources that moved have many edges.

        A pull of the only group leaves no accumulator that is not rebuilt, so that the run may settle after it.
        """
        plan, run = self.plan, self.run
        due, confirming = run.rebuilding(), run.confirming
        start = due and run.superstep_index < len(run.sides) and not run.narrowed
        self.sent = run.rules.graph.num_edges if start else self._edges(exactly=due)
        many = self.pulls and self.sent is not None and self.sent >= self.limit
        found: tuple[tuple[bool, Reason], ...] = (
            (start, "start"), (confirming, "confirm"), (many, "many"), (due, "rebuild")
        )  # fmt: skip
        self.reason = next((name for holds, name in found if holds), "few")
        run.rebuilt |= many and plan.known
        return due or many

    def _edges(self, *, exactly: bool) -> int | None:
        """Return the number of edges of the sources that moved; None if it is below the limit and was not counted."""
        name, run = self.plan.name, self.run
        if not self.plan.known:
            return run.active_sources.count(name, bounds=self.bounds)[1]
        if not self.counting:
            return run.active_sources.edges[name]
        if not exactly and (not self.pulls or run.active * self.largest < self.limit):
            return None
        bounds, pairs = run.active_sources.bounds, run.memory.arrays["pairs"]
        parts = len(bounds) - 1
        run.call(self.counting, parts, bounds=bounds, counts=pairs)
        return int(pairs[1 : 2 * parts : 2].sum())

    @property
    def pulls(self) -> bool:
        """Whether any superstep pulls."""
        return self.choice.share < 1

    def everything(self) -> None:
        """Gather all messages into the accumulators."""
        if not self.pulls:
            super().everything()
            return
        run, bounds = self.run, self.run.bounds
        run.taken, run.workers = "pull", run.threads
        run.call(f"{self.plan.name}_pull", len(bounds) - 1, bounds=bounds)
        gathered = int(self.in_offsets[bounds[-1]] - self.in_offsets[bounds[0]])
        run.edges += gathered * len(self.plan.accumulators)


# planning -------------------------------------------------------------------------------------------------------------
def plan_adaptive(draft: PlanDraft, group: FoldGroup, choice: DirectionChoice, prefetched: int) -> None:
    """Add the kernels and the pass of a group of edge reductions.

    ``choice``: see :class:`AdaptivePass`. ``prefetched``: edges between the one that a pull processes and the one whose
    source's row is prefetched; 0: none is.
    """
    setting, tracking = draft.setting, draft.setting.tracking
    pull = _pull(draft, group, prefetched) if choice.share < 1 else None
    scatter = scatter_pass(draft, group, pull, counts=True)
    counting = ""
    if scatter.known and setting.accumulators.extrema:
        draft.kernels.append(count_kernel(tracking, group, setting.layout, stem="edges"))
        counting = draft.kernels[-1].name
    draft.passes.append(AdaptivePass(scatter, choice, counting))


def _pull(draft: PlanDraft, group: FoldGroup, prefetched: int) -> Kernel:
    """Build the kernel that gathers the messages of all in-edges into the accumulators, and clears sums of changes."""
    setting, name = draft.setting, draft.setting.tracking.name(group)
    signature = [("bounds", "i64"), ("in_offsets", "offsets"), ("in_neighbours", setting.ids)]
    template = PULL.format(loop=every_vertex("v", OFFSETS + VERTEX))
    builder = KernelBuilder(
        f"{name}_pull", setting.program, setting.layout, template, signature, feature_aware=setting.feature_aware,
        dynamic=True,
    )  # fmt: skip
    builder.bind("src", "edge", "u")
    draft.bind_edges(builder, group.edge_stages, "csc")
    builder.bind("dst", "vertex", "v")
    if prefetched:
        builder.prefetch_sources(group.edge_stages, "in_neighbours", prefetched)
    for stage in group.edge_stages:
        message, reducer = stage.message, stage.reducer
        prefix = change_prefix(setting, stage)
        zero = builder.start_accumulator(f"{stage.into}_zero", message, reducer, "part")
        total = builder.start_accumulator(f"{stage.into}_total", message, reducer, "vertex")
        builder.accumulate_in_runs(
            total, stage.into, message, reducer, start="vertex", block="edge", end="after", at="e",
            terms=setting.facts.max_in_degree,
        )  # fmt: skip
        builder.store(f"vertex_{stage.into}", "v", message, total, "after")
        if prefix != "vertex_":
            builder.store(f"{prefix}{stage.into}", "v", message, zero, "after")
    return builder.finish()
