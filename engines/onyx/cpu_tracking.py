"""Choose before each superstep of a pull on the CPU whether it tracks changes, from counts of the run.

Tracking costs time in every superstep that recomputes everything, and saves time only if few vertices are recomputed.
A pull therefore runs in one of three ways: *untracked* (all vertices, and what moved is only counted), *tracked* (all
vertices, and their changes are recorded) and *sparse* (only destinations of sources that moved). The values after a
superstep are the same in all three, within the share of the tolerance that need not be propagated.

A tracked superstep is a trial: it counts the edges of the sources that moved, from which the cost of a sparse superstep
is predicted (:mod:`engines.onyx.estimates`). A sparse superstep shows how many edges are visited for each of those,
which replaces the estimate. After every trial that did not lead to a sparse superstep the next one waits twice as long.
The choices depend on counts only, so that runs are reproducible.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

LONGEST_WAIT = 64  # supersteps between trials
LARGEST_RATIO = 8.0  # so that a wave that a trial met does not prevent all later ones
STAYING = 1.5  # leaving sparse supersteps costs a trial later: they continue up to this multiple of the limit
Way: TypeAlias = Literal["untracked", "tracked", "sparse"]


@dataclass
class TrackingChoice:
    """The choice in one run.

    - ``share``: share of the edges of sources that moved, up to which following changes is predicted to be faster than
      recomputing all vertices.
    - ``visits``: share of the edges that a sparse superstep may visit to be faster; None: ``share`` was given, and does
      not change.
    - ``way``: of the next superstep. *sparse*: moved vertices are recorded, so that it may be sparse.
    - ``wait``: untracked supersteps before the next trial. ``pause``: the same for the trial after it, if that fails.
    - ``moved``: share of the vertices that moved in the last untracked superstep.
    - ``limit``: the present estimate of ``share``.
    - ``ratio``: in the last trial, the share of active edges over the share of vertices that had moved. (A vertex is
      active if it differs from its sent value by more than a part of the tolerance.)
    """

    share: float
    visits: float | None = None
    way: Way = "tracked"
    wait: int = 0
    pause: int = 1
    moved: float = 1.0
    limit: float = 0.0
    ratio: float = 1.0

    def begin(self, way: Way) -> None:
        """Reset the choice at the beginning of a run."""
        self.way, self.wait, self.pause = way, 0, 1
        self.moved, self.limit, self.ratio = 1.0, self.share, 1.0

    def after_untracked(self, moved: float) -> None:
        """Choose after an untracked superstep in which this share of the vertices moved."""
        self.wait -= 1
        self.moved = moved
        if self.wait <= 0 and moved * self.ratio <= self.limit:
            self.way = "tracked"

    def after_tracked(self, active: float) -> None:
        """Choose after a tracked superstep whose active sources have this share of the edges."""
        self.ratio = min(max(1.0, active / self.moved), LARGEST_RATIO) if self.moved else 1.0
        if active <= self.limit:
            self.way, self.pause = "sparse", 1
        else:
            self.crowded()

    def follows(self, active: float, *, again: bool) -> bool:
        """Return whether to follow sources that have this share of the edges; ``again``: as in the last superstep."""
        if self.visits is None:
            return active <= self.share * (2 if again else 1)
        return active <= self.limit * (STAYING if again else 1)

    def after_sparse(self, followed: int, visited: int) -> None:
        """Update the estimate after a sparse superstep, which recomputed vertices with ``visited`` edges."""
        if self.visits is not None and followed:
            self.limit = min(1.0, self.visits * followed / max(followed, visited))

    def crowded(self) -> None:
        """Choose the next way if too many vertices have moved to follow them."""
        self.way, self.wait = "untracked", self.pause
        self.pause = min(2 * self.pause, LONGEST_WAIT)
