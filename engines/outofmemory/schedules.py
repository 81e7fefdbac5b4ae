"""The schedules of the engines for edges outside of the device's memory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

from harness.api import EdgeOptions, ScheduleError, option

ACCESS = ("naive", "merged", "aligned", "chunk", "tiled")


@dataclass(frozen=True, kw_only=True)
class EmogiSchedule(EdgeOptions):
    """EMOGI's schedule.

    ``edges``: *mapped* (the default) is EMOGI, *managed* its comparison with unified memory, with ``advice``;
    *resident* shows what the link costs. The CPU has memory-mapped files for *mapped*.

    ``access``: the lanes that read the edges of a vertex, on a GPU (sec. 4.3). *naive*: a thread. *merged*: a warp,
    whose lanes read consecutive edges. *aligned* (the default): the same, from the line of 128 bytes on in which the
    edges begin. *chunk*: aligned, and a warp takes eight consecutive vertices (the published code). *tiled* is not
    EMOGI's: a warp reads a line of 128 bytes with the edges of all active vertices in it, so that short rows fill
    lines.

    ``frontier``: *flags* (the default, EMOGI's): kernels test the flags of all vertices. *list*: active vertices are
    listed before their edges are read.

    ``rebuild``: sums that round are rebuilt from all messages every so many supersteps, while nearly all sources are
    active, and before the run ends (0: never). ``counters``: count the requests over the link in every superstep
    (:class:`harness.contract.Transfers`), with one more kernel for every reduction.

    Raises ScheduleError for counters of edges that are not mapped.
    """

    edges: str | None = option(
        None, "place of the edge arrays: host memory that a GPU reads in place, or a file that the CPU maps; memory "
        "whose pages the driver moves to a GPU; memory of the device (null: mapped)",
        values=("mapped", "managed", "resident"),
    )  # fmt: skip
    access: str | None = option(None, "GPU: lanes that read the edges of a vertex (null: aligned)", values=ACCESS)
    frontier: str | None = option(
        None, "GPU: active vertices by flags, or listed first (null: flags)", values=("flags", "list")
    )
    rebuild: int = option(64, "supersteps between rebuilding sums that round; 0: never", within="[0, inf)")
    counters: bool | None = option(
        None, "GPU, mapped edges: count requests over the host link, in kernels of their own (null: false)"
    )

    GPU_ONLY: ClassVar[tuple[str, ...]] = ("access", "frontier", "advice", "counters")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.counters and self.edges not in (None, "mapped"):
            raise ScheduleError(f"counters=true counts requests over the host link, and edges={self.edges} makes none")

    def with_place(self) -> Self:
        """Return the schedule with the options of the place filled in."""
        return super().with_place() if self.edges else replace(self, edges="mapped")
