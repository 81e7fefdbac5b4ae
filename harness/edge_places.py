"""The options of schedules for problems larger than the memory of a device: the place of edges, features at once."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from enum import Enum
from typing import ClassVar, Self

from harness.contract import ScheduleError
from harness.options import option

WINDOW_MB = 32  # a window is read from disk or copied to a GPU in a few milliseconds, a launch takes microseconds

ADVICE = ("read_mostly", "accessed_by", "prefetch", "none")  # the first was the best in Min et al. 2020, sec. 5.1


PLAIN, PACKED = "plain", "packed"  # the codes of ids of streamed edges

AUTO = "auto"  # a panel of as many features as fit


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
    ones. ``cache_bytes``: in the memory of a GPU, for the first of mapped ones. ``packed``: ids of streamed ones are.
    """

    place: Place = Place.RESIDENT
    window_bytes: int = 0
    advice: str = ""
    cache_bytes: int = 0
    packed: bool = False

    @classmethod
    def of(cls, schedule: object) -> Self:
        """Return the placement that a schedule selects: resident edges if it has no such options."""
        if not isinstance(schedule, EdgeOptions) or schedule.edges is None:
            return cls()
        place, window_mb = Place(schedule.edges), schedule.window_mb or WINDOW_MB
        advice = schedule.advice or ADVICE[0] if place is Place.MANAGED else ""
        window_bytes = int(window_mb * 1e6) if place is Place.STREAMED else 0
        packed = place is Place.STREAMED and schedule.codes == PACKED
        return cls(place, window_bytes, advice, round((schedule.cache_mb or 0) * 1e6), packed)


@dataclass(frozen=True, kw_only=True)
class EdgeOptions:
    """The options of a schedule that say where edge arrays are and how many features run: a base class of schedules.

    ``edges``: their place (:class:`Place`). ``window_mb``: the size of a window of streamed edges, in MB. ``advice``:
    to the driver for managed edges (:class:`harness.device.managed_memory.ManagedMemory`). ``cache_mb``: MB of the
    first of mapped edges in the memory of a GPU (:mod:`harness.lowering.cuda.prefix`). ``codes``: of the ids of
    streamed edges: *plain*, or *packed* (:mod:`harness.lowering.packed_ids`) and unpacked window by window. ``panel``:
    the features that run at once; those after them run next, with the edges read again
    (:class:`harness.panels.engine.PanelEngine`).

    Raises ScheduleError if ``window_mb``, ``codes``, ``advice`` or ``cache_mb`` is given for another place, and for a
    panel that is neither an integer nor *auto*.
    """

    edges: str | None = option(
        None,
        "place of the edge arrays; mapped: host memory (GPU) or files (CPU), read in place; streamed: window by "
        "window; managed: pages that the driver moves (GPU) (null: resident)",
        values=(Place.RESIDENT.value, Place.MAPPED.value, Place.STREAMED.value, Place.MANAGED.value),
    )  # fmt: skip
    window_mb: float | None = option(
        None,
        f"MB of a window of edges=streamed; two are in memory (null: {WINDOW_MB}, or what the engine chooses)",
        within="(0, inf)",
    )  # fmt: skip
    advice: str | None = option(
        None, f"GPU: advice to the driver on edges=managed (null: {ADVICE[0]})", values=ADVICE
    )  # fmt: skip
    cache_mb: float | None = option(
        None, "GPU: MB of its memory for the first edges of edges=mapped (null: none)", within="(0, inf)"
    )  # fmt: skip
    codes: str | None = option(
        None, "ids of neighbours of edges=streamed, in files or host memory: of 32 bits, or packed as gaps of fewer "
        "bits (null: plain)", values=(PLAIN, PACKED),
    )  # fmt: skip
    panel: int | str | None = option(
        None, "features that run at once if they are independent, others run next; auto: as many as fit the memory of "
        "a GPU (null: all)", within="[1, inf)",
    )  # fmt: skip

    BY_DEFAULT: ClassVar[str] = Place.RESIDENT.value  # the place of a schedule that gives none

    def __post_init__(self) -> None:
        if self.window_mb is not None and self.edges != Place.STREAMED.value:
            raise ScheduleError(f"window_mb={self.window_mb:g} applies only to edges=streamed; omit it")
        if self.codes is not None and self.edges != Place.STREAMED.value:
            place = self.edges or self.BY_DEFAULT
            raise ScheduleError(
                f"codes={self.codes} applies only to edges=streamed, whose windows are unpacked before kernels read "
                f"them; edges={place} are read where they are; omit codes"
            )
        if self.advice is not None and self.edges != Place.MANAGED.value:
            raise ScheduleError(f"advice={self.advice} applies only to edges=managed; omit it")
        if self.cache_mb is not None and (self.edges or self.BY_DEFAULT) != Place.MAPPED.value:
            raise ScheduleError(f"cache_mb={self.cache_mb:g} applies only to edges=mapped; omit it")
        if self.panel not in (None, AUTO) and (isinstance(self.panel, bool) or not isinstance(self.panel, int)):
            raise ScheduleError(f"panel={self.panel!r} is a number of features; give an integer, or {AUTO}")

    def refuse_others(self, reason: str, *kept: str) -> None:
        """Raise ScheduleError, which begins with ``reason``, if an option that is not ``kept`` differs from its
        default."""
        for name in self.others_than(*kept)[:1]:
            raise ScheduleError(f"{reason}, and {name}={getattr(self, name)!r} no meaning; omit it")

    def others_than(self, *kept: str) -> tuple[str, ...]:
        """Return the options that are not ``kept`` and differ from their defaults."""
        default = type(self)()
        names = [one.name for one in fields(self) if one.name not in kept]
        return tuple(name for name in names if getattr(self, name) != getattr(default, name))

    @property
    def in_parts(self) -> bool:
        """True if kernels run for one range of vertices after the other, with the edges of this range only."""
        return self.edges == Place.STREAMED.value or self.cache_mb is not None

    def with_place(self) -> Self:
        """Return the schedule with these options filled in; those that do not apply to the place stay None."""
        edges = self.edges or Place.RESIDENT.value
        streamed = edges == Place.STREAMED.value
        default, codes = (WINDOW_MB, PLAIN) if streamed else (None, None)
        advice = ADVICE[0] if edges == Place.MANAGED.value else None
        return replace(
            self, edges=edges, window_mb=self.window_mb or default, codes=self.codes or codes,
            advice=self.advice or advice,
        )  # fmt: skip
