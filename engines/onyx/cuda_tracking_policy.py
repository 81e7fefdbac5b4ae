"""Onyx on CUDA: tracking pauses while nearly everything moves (``tracking_policy.cuh``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from engines.onyx.policy import untracked_share
from harness.api.cuda import TrackingPolicy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engines.onyx.policy import Policy
    from engines.onyx.schedule import OnyxSchedule
    from harness.api.cuda import CudaSetting, RunState, Tracking

TRIAL = 8  # supersteps in which a pause may begin, before it is forbidden because nothing suggests one
ENDLESS = 1 << 40  # turns of a stretch without tracking that ends only by what moves


@dataclass(frozen=True)
class Pausing(TrackingPolicy):
    """Tracking pauses if sources of at least ``share`` of the edges move, for ``patience`` consecutive supersteps.

    A cold run begins without tracking if nearly everything moves at first. ``reductions``: the propagating groups with
    reductions, a bit each. ``at_once``: those whose sources, or edges, move earlier in the same superstep.
    """

    explanation: ClassVar[str] = (
        "tracking pauses while nearly everything moves: kernels *_untracked take the place of the others"
    )
    share: float
    patience: int
    reductions: int
    at_once: int

    def start_fields(self, edges: int, visited: tuple[int, int], *, cold: bool) -> dict[str, int]:
        """Return the fields that decide when supersteps go untracked.

        They are limits on the edges of sources that moved, over all reductions and sides, and the number of edges that
        an untracked superstep visits. In a run that begins without tracking, what moves is compared with the number of
        all edges, because each of them may move.
        """
        reducing = self.reductions.bit_count()
        found = {
            "untracked_edges": max(1, int(self.share * edges * reducing)),
            "reductions": self.reductions,
            "at_once": self.at_once,
            "may_pause": 1,
            "patience": self.patience,
            "full": visited[0],
            "full_odd": visited[1],
        }
        if self.begins_untracked and cold:
            found |= {"untracked": ENDLESS, "stretch": ENDLESS, "entered": reducing * edges, "usual": edges}
        return found

    def observer(self, state: RunState, *, everything: bool) -> Pauses:
        """Return the pauses of a run; they are allowed at the start if all sources are active."""
        return Pauses(state, self.patience, begin=everything)


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

    While nothing suggests a pause, the device may not begin one, and only the launches that track are queued.
    ``begin``: pauses are allowed at the start.
    """

    def __init__(self, state: RunState, patience: int, *, begin: bool) -> None:
        self.state, self.patience = state, patience
        self.allowed = begin
        self.tracked = not begin
        self.since = 0

    def update(self, news: Mapping[str, int], queued: int) -> None:
        """Update what is allowed, given the state of the run after some of the ``queued`` supersteps."""
        paused = news["untracked"] or news["resuming"]
        if self.allowed:
            if not paused and news["crowded"] == 0 and news["superstep"] - self.since >= TRIAL:
                self._allow(False, queued)
        elif not self.tracked:
            if not paused and news["superstep"] > self.since:  # after a superstep in which no pause could begin
                self.tracked = True
        elif news["crowded"] >= self.patience:
            self._allow(True, queued)
            self.tracked = False

    def _allow(self, allowed: bool, queued: int) -> None:
        self.state.note(may_pause=int(allowed))
        self.allowed, self.since = allowed, queued
