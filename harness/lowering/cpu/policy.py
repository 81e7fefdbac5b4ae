"""The constants by which runs on the CPU choose how to work."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CpuPolicy:
    """Thresholds and sizes. If a comment names no measurement, none is on record.

    ``rebuild_share``: of the edges; if active sources have more, kept accumulators are rebuilt from all messages.
    ``few``: active sources plus their edges; fewer are processed by one thread. ``update_share``: of the edges; if
    dirty rows have more, an edge update computes all of them. ``parts_per_thread``, ``smallest_part``: of
    :class:`Partition`.
    """

    # Whole messages are then no more work than changes, whose sums round as much: ranks on email-Enron were off by
    # 2.3e-5 in supersteps in which 0.98 of the edges were active.
    rebuild_share: float = 0.9
    few: int = 4096  # a second thread starts in 3 us; the first processes some 100 in that time
    update_share: float = 0.6  # one pass over all is then cheaper than a pass and copying what moved
    parts_per_thread: int = 16
    smallest_part: int = 2048  # in smaller parts, launching costs more than balancing saves


DEFAULT = CpuPolicy()
