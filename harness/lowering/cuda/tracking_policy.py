"""Select which halves of a superstep the host queues if tracking may pause: see ``pauses.cuh``.

The device decides when tracking pauses, superstep by superstep, and kernels of the inactive half do nothing. Even so,
each takes the time of a launch. While nothing suggests a pause, the device may not begin one, and only the tracked
half is queued.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.lowering.cuda.run_state import RunState

TRIAL = 8  # supersteps in which a pause may begin, before it is forbidden because nothing suggests one
ENDLESS = 1 << 40  # turns of a stretch without tracking that ends only by what moves


class Pauses:
    """The pauses that the host allows, and the halves that it queues.

    ``begin``: pauses are allowed at the start, where all sources are active.
    """

    def __init__(self, state: RunState, patience: int, *, begin: bool) -> None:
        self.state, self.patience = state, patience
        self.allowed = self.both = begin
        self.since = 0

    def heard(self, news: Mapping[str, int], queued: int) -> None:
        """Update what is allowed, given the state of the run after some of the ``queued`` supersteps."""
        paused = news["untracked"] or news["resuming"]
        if self.allowed:
            if not paused and news["crowded"] == 0 and news["superstep"] - self.since >= TRIAL:
                self._allow(False, queued)
        elif self.both:
            if not paused and news["superstep"] > self.since:  # after a superstep in which no pause could begin
                self.both = False
        elif news["crowded"] >= self.patience:
            self._allow(True, queued)
            self.both = True

    def _allow(self, allowed: bool, queued: int) -> None:
        self.state.note(may_pause=int(allowed))
        self.allowed, self.since = allowed, queued
