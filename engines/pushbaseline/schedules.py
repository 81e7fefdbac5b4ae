"""The schedules of the push baselines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from harness.api import EdgeOptions, ScheduleError, option


@dataclass(frozen=True)
class GunrockSchedule(EdgeOptions):
    """Gunrock's schedule.

    ``rebuild``: sums are rebuilt from all messages every ``rebuild`` supersteps, while the frontier has nearly all
    edges, and before the run ends (0: never; the rounding errors of all changes then stay in the sums, and answers may
    miss the bound of their program). Extrema and sums of small integers (such as the k-core's) have no rounding
    error and are not rebuilt. On a GPU exact sums are rebuilt while the frontier has nearly all edges.

    ``balance``: how the GPU distributes a frontier's edges over blocks. *block* (the default): the edges of as many
    vertices as a block has threads. *merge_path*: an equal number of vertices and edges together for each block. The
    CPU uses ranges of owners instead and refuses the option.

    ``order``, ``delta``: *near_far* finds shortest paths by Gunrock's own method, a near list and a far pile
    (:mod:`harness.lowering.near_far`); on a GPU each step is a launch. Other options are refused with it.

    ``edges``, ``window_mb``: the place of the edge arrays (:class:`harness.edge_places.EdgeOptions`).
    """

    rebuild: int = option(64, "supersteps between rebuilds of rounded sums; 0: never", within="[0, inf)")
    balance: str | None = option(
        None, "GPU: how edges are divided among blocks (null: block)", values=("block", "merge_path")
    )
    order: str | None = option(
        None, "near_far: find paths in order of priority, by near-far (null: by supersteps)", values=("near_far",)
    )
    delta: float | None = option(
        None, "near_far: the width of the near list, in values (null: by the mean length of an edge)", within="(0, inf)"
    )
    solved: tuple[tuple[str, int], ...] | None = option(None, "set by order: the work that a run did")

    GPU_ONLY: ClassVar[tuple[str, ...]] = ("balance",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.solved is not None:
            raise ScheduleError("schedule option solved is set by order; leave it unset")
        if self.delta is not None and self.order is None:
            raise ScheduleError("schedule option delta has no meaning without order=near_far; leave it unset")
        if self.order is not None:
            self.refuse_others("order=near_far has no such supersteps", "order", "delta")


@dataclass(frozen=True)
class TigrSchedule(EdgeOptions):
    """Tigr's schedule.

    ``degree_bound``: the maximum number of edges of a virtual node (8 in the paper). ``edges``, ``window_mb``: as
    :class:`GunrockSchedule` has it.
    """

    degree_bound: int = option(8, "the most out-edges of a virtual node", within="[1, inf)")
