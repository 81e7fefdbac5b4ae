"""The schedules of the push baselines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from harness.api import edges_option, option


@dataclass(frozen=True)
class GunrockSchedule:
    """Gunrock's schedule.

    ``rebuild``: sums are rebuilt from all messages every ``rebuild`` supersteps, while the frontier has nearly all
    edges, and before the run ends (0: never). Extrema and sums of small integers (such as the k-core's) have no
    rounding error and are not rebuilt. On a GPU exact sums are rebuilt while the frontier has nearly all edges.

    ``balance``: how the GPU distributes a frontier's edges over blocks. *block* (the default): the edges of as many
    vertices as a block has threads. *merge_path*: an equal number of vertices and edges together for each block. The
    CPU uses ranges of owners instead and refuses the option.

    ``edges``: the memory of the edge arrays on a GPU: of the device (*resident*, the default), or of the host, read in
    place (*mapped*). The CPU refuses the option.
    """

    rebuild: int = option(64, "supersteps between rebuilding sums that round; 0: never", within="[0, inf)")
    balance: str | None = option(
        None, "GPU: how edges are divided among blocks (null: block)", values=("block", "merge_path")
    )

    edges: str | None = edges_option()

    GPU_ONLY: ClassVar[tuple[str, ...]] = ("balance", "edges")


@dataclass(frozen=True)
class TigrSchedule:
    """Tigr's schedule.

    ``degree_bound``: the maximum number of edges of a virtual node (8 in the paper). ``edges``: as
    :class:`GunrockSchedule` has it.
    """

    degree_bound: int = option(8, "the most out-edges of a virtual node", within="[1, inf)")
    edges: str | None = edges_option()
