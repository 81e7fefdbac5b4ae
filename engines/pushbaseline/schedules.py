"""How the push baselines run a program."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from harness.api import ScheduleError, option


@dataclass(frozen=True)
class GunrockSchedule:
    """Gunrock's schedule.

    ``rebuild``: sums are rebuilt from all messages every ``rebuild`` supersteps, while the frontier has nearly all
    arcs, and before the run ends (0: never). Extrema and sums of small whole numbers (the k-core's) do not round and
    are not rebuilt (on a GPU exact sums are, while the frontier has nearly all arcs).

    ``balance`` chooses how the GPU spreads a frontier's arcs over blocks: the arcs of as many vertices as a block has
    threads (*block*, the default), or as many vertices and arcs together for each (*merge_path*). Ranges of owners take
    its place on the CPU, where it is refused.
    """

    rebuild: int = option(64, "supersteps between rebuilding sums that round; 0: never")
    balance: str | None = option(None, "GPU: block or merge_path (None: the default)")

    GPU_ONLY: ClassVar[tuple[str, ...]] = ("balance",)

    def __post_init__(self) -> None:
        if self.rebuild < 0:
            raise ScheduleError(f"rebuild={self.rebuild}: give a number of supersteps, or 0 for never")
        if self.balance not in (None, "block", "merge_path"):
            raise ScheduleError(f"balance={self.balance!r}: give block or merge_path")


@dataclass(frozen=True)
class TigrSchedule:
    """Tigr's schedule. ``degree_bound``: the most edges of a virtual node (8 in the paper)."""

    degree_bound: int = option(8, "the most out-edges of a virtual node")

    def __post_init__(self) -> None:
        if self.degree_bound < 1:
            raise ScheduleError(f"degree_bound={self.degree_bound}: a virtual node has at least one edge")
