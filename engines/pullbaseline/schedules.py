"""How the pull baseline runs a program."""

from __future__ import annotations

from dataclasses import dataclass

from harness.api import ScheduleError, option


@dataclass(frozen=True)
class SimdxSchedule:
    """SIMD-X's schedule: the in-degrees from which a vertex moves to the next of its three lists.

    On a GPU a thread works on a vertex of the first list, a warp on one of the second, a block on one of the third. On
    the CPU the first list is walked a vertex at a time, the second with the rows of later edges prefetched, and the
    vertices of the third are divided among all threads edge by edge and combined afterwards.
    """

    warp_degree: int = option(32, "in-degree from which a vertex is in the middle list")
    block_degree: int = option(1024, "in-degree above which a vertex is in the list of large ones")

    def __post_init__(self) -> None:
        if not 0 <= self.warp_degree <= self.block_degree:
            met = f"warp_degree={self.warp_degree} and block_degree={self.block_degree}"
            raise ScheduleError(f"{met}: give 0 <= warp_degree <= block_degree")
