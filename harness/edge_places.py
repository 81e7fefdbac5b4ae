"""The options of schedules that say in which memory a graph's edge arrays are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Self

from harness.contract import ScheduleError
from harness.options import option

WINDOW_MB = 32  # a window is read from disk or copied to a GPU in a few milliseconds, a launch takes microseconds

ADVICE = ("read_mostly", "accessed_by", "prefetch", "none")  # the first was the best in Min et al. 2020, sec. 5.1


class Place(Enum):
    """Where the arrays of a graph with an element for every edge are while a program runs.

    *resident*: in the memory of the device. *mapped*: on a GPU in page-locked memory of the host, which kernels read in
    place (zero copy); on the CPU in memory-mapped files. *streamed*: copied to the device window by window; on the CPU
    read from files. *managed*: in memory whose pages the driver moves to a GPU when kernels access them. Arrays
    *sharded* over several devices are planned.
    """

    RESIDENT = "resident"
    MAPPED = "mapped"
    MANAGED = "managed"
    STREAMED = "streamed"
    SHARDED = "sharded"


@dataclass(frozen=True)
class Placement:
    """The place of edge arrays.

    ``window_bytes``: of a window of streamed ones, of which two are in memory. ``advice``: to the driver, for managed
    ones.
    """

    place: Place = Place.RESIDENT
    window_bytes: int = 0
    advice: str = ""

    @classmethod
    def of(cls, schedule: object) -> Self:
        """Return the placement that a schedule selects: resident edges if it has no such options."""
        if not isinstance(schedule, EdgeOptions) or schedule.edges is None:
            return cls()
        place, window_mb = Place(schedule.edges), schedule.window_mb or WINDOW_MB
        advice = schedule.advice or ADVICE[0] if place is Place.MANAGED else ""
        return cls(place, int(window_mb * 1e6) if place is Place.STREAMED else 0, advice)


@dataclass(frozen=True, kw_only=True)
class EdgeOptions:
    """The options of a schedule that say where edge arrays are: a base class of schedules.

    ``edges``: their place (:class:`Place`). ``window_mb``: the size of a window of streamed edges, in MB. ``advice``:
    to the driver for managed edges (:class:`harness.device.managed_memory.ManagedMemory`). Raises ScheduleError if one
    of the latter is given for another place.
    """

    edges: str | None = option(
        None,
        "place of the edge arrays; mapped: host memory (GPU) or files (CPU), read in place; streamed: window by "
        "window; managed: pages that the driver moves (GPU) (null: resident)",
        values=(Place.RESIDENT.value, Place.MAPPED.value, Place.STREAMED.value, Place.MANAGED.value),
    )  # fmt: skip
    window_mb: float | None = option(
        None, f"MB of a window of edges=streamed; two are in memory (null: {WINDOW_MB})", within="(0, inf)"
    )  # fmt: skip
    advice: str | None = option(
        None, f"GPU: what the driver is told of edges=managed (null: {ADVICE[0]})", values=ADVICE
    )  # fmt: skip

    def __post_init__(self) -> None:
        if self.window_mb is not None and self.edges != Place.STREAMED.value:
            raise ScheduleError(f"window_mb={self.window_mb:g} applies only to edges=streamed; omit it")
        if self.advice is not None and self.edges != Place.MANAGED.value:
            raise ScheduleError(f"advice={self.advice} applies only to edges=managed; omit it")

    def with_place(self) -> Self:
        """Return the schedule with these options filled in; those that do not apply to the place stay None."""
        edges = self.edges or Place.RESIDENT.value
        default = WINDOW_MB if edges == Place.STREAMED.value else None
        advice = ADVICE[0] if edges == Place.MANAGED.value else None
        return replace(self, edges=edges, window_mb=self.window_mb or default, advice=self.advice or advice)
