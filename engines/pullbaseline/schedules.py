"""The schedule of the pull baseline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from harness.api import EdgeOptions, ScheduleError, option

FILTERS = ("jit", "online", "ballot")
FUSIONS = ("none", "push_pull", "all")


@dataclass(frozen=True)
class SimdxSchedule(EdgeOptions):
    """SIMD-X's schedule (Liu & Huang 2019).

    ``warp_degree``, ``block_degree``: the degrees from which a vertex moves to the next of the three lists (sec. 4). On
    a GPU a thread processes a vertex of the first list, a warp one of the second, a block one of the third. The degree
    is the in-degree in a pull and the out-degree in a push. On the CPU the first list is processed one vertex at a
    time, and the second with the rows of later edges prefetched. The edges of the third list's vertices are divided
    among all threads, and the partial results are combined afterwards.

    The following options are for GPUs. On the CPU every superstep pulls along all edges with kernels that return to the
    host; the options do not apply there and are refused unless None:

    - ``filter``: how the lists of active vertices are made (sec. 4, fig. 5). *online*: a thread adds the vertices that
      it activates to its own bin; a bin that overflows ends the run with an error, since no other filter exists.
      *ballot*: the metadata of all vertices are scanned. *jit* (the default): online, but ballot after supersteps in
      which a bin has overflowed.
    - ``bin_size``: the capacity of a bin in vertices (64 by default: fig. 8).
    - ``pull_share``: a share of all edges. A superstep pulls if more edges than that leave the active vertices, else it
      pushes (sec. 5; 0.3 by default, as in the paper).
    - ``fusion``: the work of one launch (sec. 5, table 2). *none*: one step of one superstep. *push_pull*: all
      supersteps until the direction changes. *all*: the whole run. The default is push_pull, but none for programs
      without active vertices that have several features: their fused kernels take more registers, so that fewer threads
      are resident.
    - ``resident_blocks``: blocks of a fused kernel. The default is the number resident at once (eq. 1). More are
      refused, because a global barrier would wait for them forever.

    ``order``, ``delta``: *near_far* finds shortest paths by delta-stepping with two buckets, a near list and a far pile
    (:mod:`harness.lowering.near_far`); on a GPU one launch runs all of it. Other options are refused with it.

    ``edges``, ``window_mb``: the place of the edge arrays on any device (:class:`harness.edge_places.EdgeOptions`).

    The first three apply only to programs with active vertices, such as BFS. Others, such as PageRank, visit all edges
    in every superstep. They have one direction, so that *push_pull* is the whole run, and refuse those three and *all*.
    """

    warp_degree: int = option(32, "degree from which a vertex is in the middle list", within="[0, inf)")
    block_degree: int = option(1024, "degree above which a vertex is in the list of large ones", within="[0, inf)")
    filter: str | None = option(None, "GPU: how lists of active vertices are made (null: jit)", values=FILTERS)
    bin_size: int | None = option(None, "GPU: vertices that a thread's bin holds (null: 64)", within="[1, 1024]")
    pull_share: float | None = option(
        None, "GPU: share of the edges beyond which a superstep pulls (null: 0.3)", within="[0, 1]"
    )
    fusion: str | None = option(None, "GPU: the work of one launch (null: push_pull for most)", values=FUSIONS)
    resident_blocks: int | None = option(
        None, "GPU: blocks of a fused kernel (null: as many as are resident)", within="[1, inf)"
    )
    order: str | None = option(
        None, "near_far: find paths in order of priority, by near-far (null: by supersteps)", values=("near_far",)
    )
    delta: float | None = option(
        None, "near_far: the width of the near list, in values (null: by the mean length of an edge)", within="(0, inf)"
    )
    solved: tuple[tuple[str, int], ...] | None = option(None, "set by order: the work that a run did")

    GPU_ONLY: ClassVar[tuple[str, ...]] = ("filter", "bin_size", "pull_share", "fusion", "resident_blocks")
    TASKS_ONLY: ClassVar[tuple[str, ...]] = ("filter", "bin_size", "pull_share")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.warp_degree <= self.block_degree:
            met = f"warp_degree={self.warp_degree} and block_degree={self.block_degree}"
            raise ScheduleError(f"{met}: give 0 <= warp_degree <= block_degree")
        if self.filter == "ballot" and self.bin_size is not None:
            raise ScheduleError(f"bin_size={self.bin_size}: the ballot filter has no bins; give filter=jit or online")
        if self.resident_blocks is not None and self.fusion == "none":
            raise ScheduleError(f"resident_blocks={self.resident_blocks}: fusion=none has no fused kernel; omit one")
        if self.solved is not None:
            raise ScheduleError("schedule option solved is set by order; leave it unset")
        if self.delta is not None and self.order is None:
            raise ScheduleError("schedule option delta has no meaning without order=near_far; leave it unset")
        if self.order is not None:
            self.refuse_others("order=near_far has no such supersteps", "order", "delta")
