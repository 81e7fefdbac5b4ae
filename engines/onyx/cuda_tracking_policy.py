"""Onyx on CUDA: the state of change tracking in a run, which pauses while nearly everything moves
(``tracking_policy.cuh``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engines.onyx.policy import untracked_share
from harness.api.cuda import NEVER, RunExtension, RunField, when

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engines.onyx.cuda_kernels import Choices
    from engines.onyx.policy import Policy
    from engines.onyx.schedule import OnyxSchedule
    from harness.api import Direction
    from harness.api.cuda import Condition, CudaSetting, RunStart, RunState, Tracking

TRIAL = 8  # supersteps in which a pause may begin, before it is forbidden because nothing suggests one
PUSHED_EDGE = 1 << 20  # the time of an edge that is pushed: the unit of costs on the device
ENDLESS = 1 << 40  # turns of a stretch without tracking that ends only by what moves
# Times the edges from which tracking pauses: while so many seem to move, a stretch does not end. This is for pulls:
# pushes pause from half of all edges on, or from more.
LASTING = 2


@dataclass(frozen=True)
class Pausing:
    """When tracking pauses.

    ``share``, ``patience``: it pauses if sources with at least this share of the edges move in so many consecutive
    supersteps. ``begins_untracked``: a cold run begins without tracking. ``reductions``: a bit for each propagating
    group with reductions. ``at_once``: a bit for each group whose sources, or edges, move earlier in the same
    superstep.
    """

    begins_untracked: bool
    share: float
    patience: int
    reductions: int
    at_once: int

    def start_fields(self, start: RunStart) -> dict[str, int]:
        """Return the fields that decide when supersteps go untracked.

        They are limits on the edges of sources that moved, over all reductions and sides, and the number of edges that
        an untracked superstep visits. In a run that begins without tracking, what moves is compared with the number of
        all edges, because each of them may move.
        """
        reducing = self.reductions.bit_count()
        edges = max(1, int(self.share * start.edges * reducing))
        found = {
            "untracked_edges": edges,
            "lasting_edges": LASTING * edges,
            "reductions": self.reductions,
            "at_once": self.at_once,
            "may_pause": 1,
            "patience": self.patience,
            "full": start.visited[0],
            "full_odd": start.visited[1],
        }
        if self.begins_untracked and start.cold:
            entered = reducing * start.edges
            found |= {"untracked": ENDLESS, "stretch": ENDLESS, "entered": entered, "usual": start.edges}
        return found


@dataclass(frozen=True)
class TrackedRuns(RunExtension):
    """The extension of runs by Onyx: when edge updates process all rows, and when tracking pauses.

    ``dense_rows``: the share of the edges from which an update processes all rows. ``rebuild_share``: the share from
    which a pull rebuilds accumulators, in a plan that otherwise pushes changes; None: there is no such pull.
    ``pull_costs``: the times of an edge and of a vertex of a bottom-up pull, from which the share follows after the
    first one, relative to the time of a pushed edge; None: the share stays as it is.
    ``pausing``: when tracking pauses; None: never.
    """

    added = (
        RunField("untracked", "turns without tracking that remain, with this one; 1 also where a stretch goes on"),
        RunField("resuming", "the turn after those: everything counts as dirty and active, and is tracked again"),
        RunField("crowded", "consecutive turns in which nearly everything moved"),
        RunField("stretch", "length in turns of the last stretch without tracking"),
        RunField("found", "edges of sources that moved, in this turn so far"),
        RunField("movers", "movers in this turn so far"),
        RunField("usual", "movers in the first of the untracked turns"),
        RunField("entered", "edges of sources that had moved in the turn before these"),
        RunField("before", "movers in the previous turn"),
        RunField("dense_rows", "an edge update whose dirty rows have more edges than these updates all rows"),
        RunField("may_pause", "supersteps may run untracked; otherwise their kernels are not queued"),
        RunField("untracked_edges", "sources with these edges moved in a turn: nearly everything moves"),
        RunField("lasting_edges", "a stretch without tracking goes on while sources with so many edges seem to move"),
        RunField("reductions", "a bit for every edge stage that reduces"),
        RunField("at_once", "of those, the ones whose sources moved in the same superstep"),
        RunField("patience", "turns in which nearly everything moves, before some run untracked"),
        RunField("wanted", "vertices that the pull of this superstep has visited because a message may improve them"),
        RunField("edge_cost", "time of an edge that such a pull reads, in 2^-20 of that of a pushed edge"),
        RunField("vertex_cost", "time of a vertex that it visits, in the same unit"),
        RunField("full", "edges that an untracked superstep of each side visits", of_sides=True),
    )
    dense_rows: float
    rebuild_share: float | None
    pausing: Pausing | None
    pull_costs: tuple[float, float] | None = None

    @property
    def dense(self) -> Direction:
        """The direction in the record of a superstep with full propagation."""
        return "dense" if self.rebuild_share is None else "pull"

    @property
    def end(self) -> str:
        """The device function that ends a superstep."""
        if self.pausing:
            return "end_or_pause"
        return "end_superstep" if self.pull_costs is None else "end_expecting"

    @property
    def counting(self) -> Condition:
        """The untracked supersteps: full propagation counts all vertices that move by more than the tolerance."""
        return when("run->untracked") if self.pausing else NEVER

    @property
    def explanation(self) -> str:
        """One line that describes the pauses; empty if there are none."""
        if not self.pausing:
            return ""
        return "tracking pauses while nearly everything moves: kernels *_untracked take the place of the others"

    @property
    def shares(self) -> list[str]:
        """A line on how the share from which supersteps pull changes in a run; none if it does not."""
        if self.pull_costs is None:
            return []
        edge, vertex = self.pull_costs
        return [
            f"direction: after a pull, the next one is expected to read as many edges ({edge:g} times as long as a "
            f"pushed one, each) and to visit as many vertices ({vertex:g} times), and replaces a push that takes longer"
        ]

    def start_fields(self, start: RunStart) -> dict[str, int]:
        """Return the fields that decide how supersteps work, as numbers of edges."""
        found = {"dense_rows": int(self.dense_rows * start.edges)}
        if self.rebuild_share is not None:
            found["rebuild_edges"] = max(1, int(self.rebuild_share * start.edges / start.sides))
        if self.pull_costs is not None:
            found |= {
                name: int(cost * PUSHED_EDGE)
                for name, cost in zip(("edge_cost", "vertex_cost"), self.pull_costs, strict=True)
            }
        return found | (self.pausing.start_fields(start) if self.pausing else {})

    def observer(self, state: RunState, *, everything: bool) -> Pauses | None:
        """Return the pauses of a run; they are allowed at the start if all sources are active."""
        return Pauses(state, self.pausing.patience, begin=everything) if self.pausing else None


def tracked_runs(setting: CudaSetting, schedule: OnyxSchedule, choices: Choices) -> TrackedRuns:
    """Return the extension of the runs of a plan. ``schedule``: resolved."""
    assert schedule.dense_share is not None
    policy, adaptive = choices.policy, schedule.direction == "adaptive"
    expects = choices.bottom_up is not None and schedule.share_by == "fitted"
    dense = policy.dense_share_cuda if adaptive else schedule.dense_share
    return TrackedRuns(
        dense_rows=max(dense, policy.rows_share),
        rebuild_share=schedule.dense_share if adaptive else None,
        pausing=pausing_of(setting, schedule, policy) if choices.pauses else None,
        pull_costs=policy.bottom_up_costs if expects else None,
    )


def pausing_of(setting: CudaSetting, schedule: OnyxSchedule, policy: Policy) -> Pausing:
    """Return when tracking pauses. ``schedule``: resolved."""
    assert schedule.dense_share is not None
    tracking = setting.tracking
    changing = edges_change(tracking)
    share = untracked_share(
        setting.facts, policy, pulls=setting.direction == "pull", dense_share=schedule.dense_share,
        edges_change=changing,
    )  # fmt: skip
    groups = tracking.propagating()
    reducers = {stage.reducer for group in tracking.groups for stage in group.edge_stages}
    reducing = [number for number, group in enumerate(groups) if group.edge_stages]
    return Pausing(
        share=share,
        patience=policy.patience if reducers & {"sum", "prod"} else policy.patience_with_extrema,
        begins_untracked=changing,
        reductions=sum(1 << number for number in reducing),
        at_once=sum(1 << number for number in reducing if tracking.hears_at_once(groups[number])),
    )


def edges_change(tracking: Tracking) -> bool:
    """Return whether any stage reads edges that change. From a cold start all of them change for a while."""
    return any(tracking.edges(group) for group in tracking.propagating())


class Pauses:
    """The pauses that the host allows, and the launches that it queues.

    While counts do not suggest a pause, the device may not begin one, and the host omits the launches of untracked
    supersteps. ``begin``: pauses are allowed at the start of a run.
    """

    def __init__(self, state: RunState, patience: int, *, begin: bool) -> None:
        self.state, self.patience = state, patience
        self.allowed = begin
        self.omits = not begin
        self.since = 0

    def fields(self) -> dict[str, int]:
        """Return the fields that the host sets at the start of a run."""
        return {"may_pause": int(self.allowed)}

    def update(self, news: Mapping[str, int], queued: int) -> None:
        """Update the allowed pauses from the state of the run after some of the ``queued`` supersteps."""
        paused = news["untracked"] or news["resuming"]
        if self.allowed:
            if not paused and news["crowded"] == 0 and news["superstep"] - self.since >= TRIAL:
                self._allow(False, queued)
        elif not self.omits:
            if not paused and news["superstep"] > self.since:  # after a superstep in which no pause could begin
                self.omits = True
        elif news["crowded"] >= self.patience:
            self._allow(True, queued)
            self.omits = False

    def _allow(self, allowed: bool, queued: int) -> None:
        self.state.note(may_pause=int(allowed))
        self.allowed, self.since = allowed, queued
