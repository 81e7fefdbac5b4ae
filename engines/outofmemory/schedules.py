"""The schedules of the engines for edges outside of the device's memory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

from engines.outofmemory.scaph.order import ORDERS
from harness.api import EdgeOptions, ScheduleError, option

ACCESS = ("naive", "merged", "aligned", "chunk", "tiled")


@dataclass(frozen=True, kw_only=True)
class EmogiSchedule(EdgeOptions):
    """EMOGI's schedule.

    ``edges``: *mapped* (the default) is EMOGI, *managed* its comparison with unified memory, with ``advice``;
    *resident* shows what the link costs. The CPU has memory-mapped files for *mapped*.

    ``kept_share``: of managed edges. The pages of the others are moved to the host after every superstep, as on a GPU
    with less memory (:class:`~engines.outofmemory.emogi.kept_pages.KeepingPages`). None: pages stay that were moved.

    ``access``: the lanes that read the edges of a vertex, on a GPU (sec. 4.3). *naive*: a thread. *merged*: a warp,
    whose lanes read consecutive edges. *aligned* (the default): the same, from the line of 128 bytes on in which the
    edges begin. *chunk*: aligned, and a warp takes eight consecutive vertices (the published code). *tiled* is not
    EMOGI's: a warp reads a line of 128 bytes with the edges of all active vertices in it, so that short rows fill
    lines.

    ``frontier``: *flags* (the default, EMOGI's): kernels test the flags of all vertices. *list*: active vertices are
    listed before their edges are read.

    ``rebuild``: sums that round are rebuilt from all messages every ``rebuild`` supersteps, while nearly all sources
    are active, and before the run ends (0: never). ``counters``: count the requests over the link in every superstep
    (:class:`harness.contract.Transfers`), with one more kernel for every reduction.

    Raises ScheduleError for counters of edges that are not mapped, and for a kept share of edges that are not managed,
    or that are prefetched.
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

    kept_share: float | None = option(
        None, "GPU, managed edges: share whose pages may stay on the GPU from superstep to superstep (null: 1)",
        within="[0, 1]",
    )  # fmt: skip

    BY_DEFAULT: ClassVar[str] = "mapped"
    GPU_ONLY: ClassVar[tuple[str, ...]] = ("access", "frontier", "advice", "counters", "kept_share", "cache_mb")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.counters and self.edges not in (None, "mapped"):
            raise ScheduleError(f"counters=true counts requests over the host link, and edges={self.edges} makes none")
        if self.kept_share is not None and self.edges != "managed":
            raise ScheduleError(f"kept_share={self.kept_share:g} applies only to edges=managed; omit it")
        if self.kept_share is not None and self.advice == "prefetch":
            raise ScheduleError(
                f"advice=prefetch moves all edges at once, and kept_share={self.kept_share:g} keeps a part; omit one"
            )

    def with_place(self) -> Self:
        """Return the schedule with the options of the place filled in."""
        return super().with_place() if self.edges else replace(self, edges="mapped")


@dataclass(frozen=True, kw_only=True)
class ScaphSchedule(EdgeOptions):
    """Scaph's schedule: edges in host memory (on the CPU in a file), of which subgraphs are brought to the device.

    ``window_mb``: the size of a subgraph, in MB (32). ``slots``: subgraphs in memory, at most.

    ``values``: *measured*: a subgraph is of high value by the rule of :class:`~engines.outofmemory.scaph.values.Rule`,
    with ``alpha`` and ``beta``; *high*, *low*: all of them are. Those of high value are read whole. ``low``: of others,
    *extract*: only the rows of active vertices are read, which threads of the host pack for a GPU
    (``extract_threads``); *stream*: they are read whole, too; *zero_copy*: a GPU reads their active rows in place.
    ``access``: the lanes of a GPU that read the edges of a vertex (:class:`EmogiSchedule`).

    ``rule``: of measured values. *paper*: the useful share. *chosen*: the estimated time of reading all rows or the
    active ones, from rates that are measured on the GPU and its host when edges are uploaded, as HyTGraph chooses.
    *throughput*, the paper's comparison of throughputs, is refused: it needs the future.

    ``order``: in which subgraphs are processed. *index*: by the numbers of their vertices. *value*: those with the most
    useful bytes first. *zigzag*: those that are still in slots first, which are not read again, and then ascending and
    descending numbers in turn.

    ``rounds``: how often a subgraph of high value is processed while it is in memory, at most, with vertex steps in
    between. 1: supersteps are synchronous. With more, the engine solves whole problems, and only programs run whose
    answer does not depend on the order of messages.

    ``counters``: in every superstep, the bytes of the edges of active vertices, of those that will be active later in
    the run, and of the others (:class:`~engines.outofmemory.scaph.activity.ActivityLog`). Counting takes a part of the
    time.

    ``codes``: with *packed*, all subgraphs are read whole: neither threads of the host nor a GPU find single rows in
    packed ids.

    Raises ScheduleError for options that exclude each other.
    """

    edges: str = option(
        "streamed", "place of the edge arrays: page-locked memory of the host (GPU) or a file (CPU)",
        values=("streamed",),
    )  # fmt: skip
    values: str = option(
        "measured", "which subgraphs are read whole: by their value, all, or none", values=("measured", "high", "low")
    )
    low: str = option(
        "extract", "subgraphs of low value: read the rows of active vertices, or all, or (GPU) active rows in place",
        values=("extract", "stream", "zero_copy"),
    )  # fmt: skip
    rule: str = option(
        "paper", "measured values: by the useful share, or (GPU) by the estimated time of reading all or active rows; "
        "throughput is refused",
        values=("paper", "chosen", "throughput"),
    )  # fmt: skip
    alpha: float = option(0.5, "useful share of a subgraph beyond which it is of high value", within="[0, 1]")
    beta: float = option(0.3, "the same of a subgraph whose useful bytes have grown", within="[0, 1]")
    rounds: int = option(
        1, "how often a subgraph of high value is processed while in memory, at most", within="[1, inf)"
    )
    order: str = option(
        "index", "subgraphs by number, by their useful bytes, or those in slots first, and then back and forth",
        values=ORDERS,
    )  # fmt: skip
    slots: int = option(4, "subgraphs in memory, at most", within="[2, inf)")
    extract_threads: int | None = option(
        None, "GPU: threads of the host that pack active rows (null: all)", within="[1, inf)"
    )
    access: str | None = option(None, "GPU: lanes that read the edges of a vertex (null: tiled)", values=ACCESS)
    counters: bool | None = option(
        None, "count the useful, potentially useful and never used bytes of every superstep (null: false)"
    )

    GPU_ONLY: ClassVar[tuple[str, ...]] = ("extract_threads", "access")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rule == "throughput":
            raise ScheduleError(
                "rule=throughput needs the bytes of vertices that will become active, which no run knows; "
                "give rule=paper, which stands for it in the paper, or rule=chosen"
            )
        if self.rule == "chosen" and self.values != "measured":
            raise ScheduleError(f"rule=chosen classifies values=measured, and not values={self.values}; omit one")
        if self.codes == "packed":
            self._check_packed()
        if self.rounds > 1 and self.counters:
            raise ScheduleError(
                f"counters=true counts by supersteps, and rounds={self.rounds} processes subgraphs out of step; "
                "give rounds=1"
            )
        if self.rounds > 1 and self.slots < 3:
            raise ScheduleError(
                f"slots={self.slots} are taken by the subgraph that is processed and the next one; with rounds="
                f"{self.rounds} give at least 3"
            )

    def _check_packed(self) -> None:
        """Raise ScheduleError for packed ids if single rows may be read."""
        if self.rule == "chosen":
            raise ScheduleError("rule=chosen compares the rates of plain ids, and codes=packed has others; omit one")
        if self.values != "high" and self.low != "stream":
            raise ScheduleError(
                f"codes=packed: low={self.low} reads single rows, which packed ids do not have apart; give low=stream "
                "or values=high"
            )
