"""Onyx on the CPU, pulling: the owner of a vertex gathers over its in-edges and continues with its vertex steps.

The full gather (every vertex) reads one buffer and writes the next. With change tracking there is also a gather of only
the dirty vertices, whose results are committed afterwards, and one of every vertex that does not track
(:mod:`engines.onyx.cpu_tracking`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engines.onyx.cpu_gather import GatherKernels
from engines.onyx.cpu_tracking import TrackingChoice, Way
from harness.api import (
    FoldGroup,
)
from harness.api.cpu import (
    CpuSetting,
    Holds,
    PlanDraft,
    Run,
    Step,
    Structure,
    recomputation_only,
)

BUFFERS = ("vertex", "next")  # that untracked supersteps write in turn
SKIPPING = {skips: np.array([skips], np.int64) for skips in (False, True)}


@dataclass(frozen=True)
class GatherPass:
    """One group of edge reductions, and the vertex steps folded with them.

    - ``doubled``: properties with a second buffer, because they are still read through edges.
    - ``sent``: properties whose propagated values are kept.
    - ``alone``: no other group gathers or writes the group's sources, so that the active vertices stay the same until
      this group gathers.
    - ``rotates``: a full gather propagates every present value; the buffer that was read then holds the values sent.
    - ``keeps``: gathers of dirty vertices keep their reductions, because the steps of a vertex may run although none of
      its sources moved.
    - ``dense_share``: share of the edges. If more edges are active, all vertices are recomputed.
    - ``visits``: share of the edges that a gather of dirty vertices may visit. ``dense_share`` is estimated from it
      during a run; None: ``dense_share`` is constant.
    - ``pauses``: supersteps that recompute all vertices need not track changes.
    - ``skips``: such supersteps need not visit vertices that never move.
    - ``ready``: the messages that sources compute for such supersteps.
    - ``first``: the way (:mod:`engines.onyx.cpu_tracking`) of the first superstep of a run that is not narrowed.
    """

    name: str
    reductions: int
    doubled: tuple[str, ...]
    sent: tuple[str, ...]
    change_driven: bool
    alone: bool
    rotates: bool
    keeps: bool
    dense_share: float
    visits: float | None
    pauses: bool
    skips: bool
    ready: tuple[str, ...]
    first: Way

    def bound(self, run: Run) -> Step:
        """Return the step that gathers."""
        gather = Gather(self, run)
        return gather.changes if self.change_driven else gather.everything


@dataclass
class LatestGather:
    """State that all gathers of a run share. ``some``: the latest gather was into some destinations only."""

    some: bool = False


@dataclass(frozen=True)
class StaleOnly:
    """Begin a run by recomputing only the stale vertices if they have at most ``most_edges`` in-edges."""

    most_edges: float

    def begin(self, run: Run, stale: NDArray[np.bool_], senders: NDArray[np.bool_]) -> None:
        """Begin with the stale vertices; all values of sources have been propagated."""
        if int(run.store.graph.in_degrees[stale].sum()) <= self.most_edges:
            run.begin_with(stale, np.zeros_like(senders))
            run.own(LatestGather).some = True


class Gather:
    """A gather in a run."""

    def __init__(self, plan: GatherPass, run: Run) -> None:
        self.plan, self.run = plan, run
        self.offsets, self.num_edges = run.store.structure(Structure.IN_OFFSETS), run.rules.graph.num_edges
        self.choice = TrackingChoice(plan.dense_share, plan.visits)
        self.followed = 0  # edges that leave the sources that moved
        self.alike = 0  # untracked supersteps in sequence: of vertices that never move both buffers then agree

    @property
    def recomputed_some(self) -> bool:
        """Whether the latest gather of changes in the run, also of another group, was into some destinations only."""
        return self.run.own(LatestGather).some

    @recomputed_some.setter
    def recomputed_some(self, some: bool) -> None:
        self.run.own(LatestGather).some = some

    def everything(self) -> None:
        """Gather into every vertex that this superstep updates."""
        plan, run, bounds = self.plan, self.run, self.run.bounds
        run.workers = run.threads
        memory, rotates = run.memory, plan.change_driven and plan.rotates
        run.call(plan.name, len(bounds) - 1, bounds=bounds)
        for name in plan.doubled:
            memory.swap(f"vertex_{name}", f"next_{name}")
            if rotates and name in plan.sent:
                memory.swap(f"sent_{plan.name}_{name}", f"next_{name}")
        if rotates:  # flags were set without their second level
            memory.any_flags_may_be_set(f"active_{plan.name}")
            memory.any_flags_may_be_set(f"dirty_{plan.name}")
        run.edges += int(self.offsets[bounds[-1]] - self.offsets[bounds[0]]) * plan.reductions
        counts = memory.arrays["counts"][: 2 * (len(bounds) - 1)].reshape(-1, 2)
        if not plan.change_driven:
            run.moved += int(counts[:, 0].sum())
        elif rotates:
            active, edges = counts.sum(axis=0)
            run.active_sources.counted[plan.name] = (int(active), int(edges))

    def changes(self) -> None:
        """Gather into the destinations of sources that moved, or into all if that is cheaper."""
        plan, run, choice = self.plan, self.run, self.choice
        if run.superstep_index == 0:
            choice.begin("sparse" if run.narrowed else plan.first)
            self.alike = 0
        if choice.way == "sparse" and not self._follows():
            choice.way = "tracked"
            if plan.pauses:
                choice.crowded()
        if choice.way == "untracked":
            self._untracked()
        elif choice.way == "tracked":
            self._all_changed()
        else:
            self._some_changed()

    def _follows(self) -> bool:
        """Return whether few edges leave the sources that moved."""
        plan, run = self.plan, self.run
        if run.superstep_index < len(run.sides) and not run.narrowed:
            return False  # nothing has been propagated yet
        sources = run.active_sources
        self.followed = sources.edges[plan.name] if plan.alone else sources.count(plan.name)[1]
        return self.choice.follows(self.followed / max(1, self.num_edges), again=self.recomputed_some)

    def _all_changed(self) -> None:
        plan, run, bounds = self.plan, self.run, self.run.bounds
        self.recomputed_some = False
        run.taken, run.counts_movement, self.alike = "dense", False, 0
        for kind in ("dirty", "marked") if plan.keeps else ("dirty",):
            flags = f"{kind}_{plan.name}"
            run.memory.set_flags(flags, True)  # the other side of a bipartite graph reads it in its own superstep
            run.memory.set_flags(flags, False, int(bounds[0]), int(bounds[-1]))
        if plan.keeps:
            run.memory.arrays[f"kept_{plan.name}"][:] = False
        run.active_sources.all_propagated(plan.name, but=plan.doubled if plan.rotates else ())
        self.everything()
        self.choice.way = "sparse"
        if plan.pauses:
            self.choice.after_tracked(run.active_sources.counted[plan.name][1] / max(1, self.num_edges))
            run.counts_movement = self.choice.way == "untracked"

    def _untracked(self) -> None:
        """Gather into every vertex, and only count those that moved by more than the tolerance."""
        plan, run, bounds = self.plan, self.run, self.run.bounds
        run.taken, run.workers, self.recomputed_some = "untracked", run.threads, False
        if plan.ready and not self.alike:
            run.call(f"{plan.name}_ready", len(bounds) - 1, bounds=bounds)
        skips = plan.skips and self.alike >= len(BUFFERS)
        run.call(f"{plan.name}_untracked", len(bounds) - 1, bounds=bounds, skipping=SKIPPING[skips])
        for name in (*plan.doubled, *plan.ready):
            run.memory.swap(f"vertex_{name}", f"next_{name}")
        self.alike += 1
        moved, skipped = run.memory.arrays["counts"][: 2 * (len(bounds) - 1)].reshape(-1, 2).sum(axis=0)
        run.edges += (self.num_edges - int(skipped)) * plan.reductions
        share = int(moved) / max(1, run.rules.graph.num_vertices)
        run.active_sources.counted[plan.name] = int(moved), int(share * self.num_edges)
        self.choice.after_untracked(share)
        run.counts_movement = self.choice.way == "untracked"

    def _some_changed(self) -> None:
        plan, run = self.plan, self.run
        self.recomputed_some, run.counts_movement, self.alike = True, False, 0
        run.active_sources.mark(plan.name)
        bounds, parts = run.bounds, len(run.bounds) - 1
        run.call(f"{plan.name}_dirty", parts, bounds=bounds)
        visited = int(run.memory.arrays["counts"][: 2 * parts : 2].sum())
        if plan.doubled:
            run.call(f"{plan.name}_commit", parts, bounds=bounds)
        self.choice.after_sparse(self.followed, visited)
        run.edges += self.followed + visited * plan.reductions


# planning -------------------------------------------------------------------------------------------------------------
def plan_gather(
    draft: PlanDraft, group: FoldGroup, dense_share: float, visits: float | None, kept_part: float, prefetched: int
) -> None:
    """Add the kernels and the pass of a group of edge reductions.

    ``dense_share``, ``visits``: see :class:`GatherPass`. ``kept_part``: of both, if all vertices step whenever a value
    of the graph changes.
    """
    setting, tracking = draft.setting, draft.setting.tracking
    name, sources = tracking.name(group), set(tracking.sources(group))
    written = {name for step in group.vertex_steps for name in step.writes} & tracking.live(group.stages)
    # alternating sides never read their own writes
    doubled = () if setting.program.control.alternate else tuple(sorted(written & sources))
    others = [other for other in tracking.groups if other is not group]
    unwritten = not any(sources & set(stage.writes) for other in others for stage in other.stages)
    kernels = GatherKernels(
        draft, group, doubled, prefetched,
        rotates=unwritten and bool(sources) and sources <= set(doubled), keeps=_keeps(setting, group),
    )  # fmt: skip
    for prop in doubled:
        draft.like(f"next_{prop}", Holds.SECOND, prop)
    draft.kernels.append(kernels.gather(name))
    if visits is not None and tracking.of_graph(group):
        dense_share, visits = kept_part * dense_share, kept_part * visits
    pauses = setting.change_driven and kernels.rotates and all(other.kind == "graph" for other in others)
    if setting.change_driven:
        draft.flags(f"dirty_{name}", Holds.DIRTY, name, True)
        draft.flags("fresh", Holds.FRESH, name, False)
        if kernels.keeps:
            draft.flags(f"marked_{name}", Holds.DIRTY, name, True)
            draft.array(f"kept_{name}", Holds.KEPT, name, "bool", setting.facts.num_vertices)
        reached = ("dirty", "marked") if kernels.keeps else ("dirty",)
        draft.frontier(group, marks={"out": [f"{kind}_{name}" for kind in reached]})
        draft.kernels.append(kernels.gather(f"{name}_dirty", "dirty"))
        draft.kernels.append(kernels.commit())
    ready: tuple[str, ...] = ()
    if pauses:
        draft.kernels.append(kernels.gather(f"{name}_untracked", "untracked"))
        if kernels.ready:
            ready = _plan_ready(draft, kernels)
    alone = unwritten and not any(other.edge_stages for other in others)
    draft.passes.append(
        GatherPass(
            name,
            len(group.edge_stages),
            doubled,
            tracking.sent(group),
            setting.change_driven,
            alone,
            kernels.rotates,
            kernels.keeps,
            dense_share,
            visits,
            pauses,
            pauses and kernels.fixed is not None,
            ready,
            "untracked" if pauses and any(stage.reducer == "sum" for stage in group.edge_stages) else "tracked",
        )
    )


def _plan_ready(draft: PlanDraft, kernels: GatherKernels) -> tuple[str, ...]:
    """Add the kernel and the two buffers of messages that sources make; return the names of the messages."""
    assert kernels.ready is not None
    setting, made = draft.setting, kernels.ready.made
    draft.kernels.append(kernels.make_ready())
    for name, message in made.items():
        length = setting.facts.num_vertices * setting.layout.stride(message.shape)
        for buffer in BUFFERS:
            draft.array(f"{buffer}_{name}", Holds.WORK, name, "float32", length)
    return tuple(made)


def _keeps(setting: CpuSetting, group: FoldGroup) -> bool:
    """Return whether gathers of dirty vertices keep their reductions; full gathers skip the writes."""
    tracking = setting.tracking
    unbounded = [name for name in tracking.own(group) if not tracking.bounds_only(group, name)]
    steps_alone = unbounded or tracking.of_graph(group)
    small = all(len(stage.message.shape) < 2 for stage in group.edge_stages)
    of_sources = not any(recomputation_only(setting.program, stage) for stage in group.edge_stages)
    return bool(setting.change_driven and group.vertex_steps and steps_alone and small and of_sources)
