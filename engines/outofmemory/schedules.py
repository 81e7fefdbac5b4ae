"""The schedules of the engines for edges outside of the device's memory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

from engines.outofmemory.scaph.order import ORDERS
from harness.api import EdgeOptions, ScheduleError, option

ACCESS = ("naive", "merged", "aligned", "chunk", "tiled")


@dataclass(frozen=True, kw_only=True)
class EmogiSchedule(EdgeOptions):
    """The options of EMOGI style (Min et al. 2020, sec. 4).

    - ``edges``: the place of the edge arrays. *mapped* (the default) is EMOGI: kernels read host memory in place; on
      the CPU the arrays are memory-mapped files. *managed* is the unified memory that the paper compares with
      (``advice`` sets its hints). *resident* keeps the edges on the device, which shows the cost of the link.
    - ``kept_share``: the share of managed edges whose pages may stay on the GPU. Other pages are moved to the host
      after every superstep (:class:`~engines.outofmemory.emogi.kept_pages.KeepingPages`), which imitates a GPU with
      less memory. None: no page is moved back.
    - ``access``: which lanes of a GPU read the edges of a vertex (sec. 4.3). *naive*: one thread. *merged*: a warp,
      whose lanes read consecutive edges. *aligned* (the default): a warp that begins at the line of 128 bytes in
      which the edges begin. *chunk*: as *aligned*, with eight consecutive vertices for each warp (the published
      code). *tiled*: a warp reads a line of 128 bytes with the edges of all active vertices in it; this pattern is
      not EMOGI's, and short rows fill lines with it.
    - ``frontier``: how kernels find active vertices. *flags* (the default, EMOGI's): they test a flag of every vertex.
      *list*: a kernel lists the active vertices before their edges are read.
    - ``rebuild``: supersteps between rebuilds of rounded sums from all messages; 0: never. Sums are also rebuilt while
      nearly all sources are active, and before a run ends.
    - ``counters``: count the requests over the link in every superstep (:class:`harness.contract.Transfers`). This adds
      a kernel for every reduction.

    Raises ScheduleError for ``counters`` if the edges are not mapped, and for ``kept_share`` if the edges are not
    managed or are prefetched.
    """

    edges: str | None = option(
        None, "place of the edge arrays: mapped: host memory that a GPU reads in place, or a file that the CPU maps; "
        "managed: memory whose pages the driver moves; resident: memory of the device (null: mapped)",
        values=("mapped", "managed", "resident"),
    )  # fmt: skip
    access: str | None = option(None, "GPU: which lanes read the edges of a vertex (null: aligned)", values=ACCESS)
    frontier: str | None = option(
        None, "GPU: find active vertices by flags, or list them first (null: flags)", values=("flags", "list")
    )
    rebuild: int = option(64, "supersteps between rebuilds of rounded sums; 0: never", within="[0, inf)")
    counters: bool | None = option(
        None, "GPU, mapped edges: count requests over the host link, in additional kernels (null: false)"
    )

    kept_share: float | None = option(
        None, "GPU, managed edges: share of the edges whose pages may stay on the GPU after a superstep (null: 1)",
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
    """The options of Scaph style (Zheng et al. 2020).

    Edges are in host memory (on the CPU: in a file). The engine reads one subgraph at a time into a slot of the
    device. The row of a vertex is the list of its out-edges.

    - ``window_mb``: the size of a subgraph in MB (32). ``slots``: the most subgraphs in memory. On a GPU kernels of
      several subgraphs run at once, and the link copies others ahead; packed ones are copied in half the time.
    - ``values``: which subgraphs have a high value. *measured*: those that the ``rule`` selects. *high*, *low*: all or
      none. A subgraph of high value is read whole.
    - ``low``: how other subgraphs are read. *extract*: only the rows of active vertices; for a GPU, ``extract_threads``
      threads of the host pack them. *stream*: whole. *zero_copy*: a GPU reads the active rows in place.
    - ``access``: which lanes of a GPU read the edges of a vertex (:class:`EmogiSchedule`).
    - ``rule``: how values are measured. *paper*: by the share of useful bytes, ``alpha`` and ``beta``
      (:class:`~engines.outofmemory.scaph.values.Rule`). *chosen*: by the estimated times of reading all rows and only
      the active ones, as in HyTGraph; the rates are measured when edges are uploaded. *throughput*: the paper's
      comparison of throughputs; it is refused, because it depends on later supersteps.
    - ``order``: in which order subgraphs are processed. *index*: by the numbers of their vertices. *value*: most useful
      bytes first. *zigzag*: subgraphs that are still in slots first, without reading them again; then the others, in
      ascending and descending order in turn.
    - ``rounds``: how often a subgraph of high value is processed while it is in memory, at most, with vertex steps in
      between. With 1, supersteps are synchronous. With more, a run goes on until it has settled, and only programs can
      run whose answer does not depend on the order of messages.
    - ``low_rounds``: the same for what has been read of a subgraph of low value, at most, one round directly after the
      other. With ``values=low`` and many rounds this is the asynchronous mode of Subway (Sabet et al. 2020, sec. 3.3).
    - ``counters``: count in every superstep the bytes of rows that are read now, that are read later in the run, and
      that are not read any more (:class:`~engines.outofmemory.scaph.activity.ActivityLog`). Counting takes time.
    - ``codes``: with *packed*, all subgraphs must be read whole, because single rows cannot be located in packed ids.

    Raises ScheduleError for options that exclude each other.
    """

    edges: str = option(
        "streamed", "place of the edge arrays: page-locked memory of the host (GPU) or a file (CPU)",
        values=("streamed",),
    )  # fmt: skip
    values: str = option(
        "measured",
        "which subgraphs are read whole: those of high value, all, or none",
        values=("measured", "high", "low"),
    )
    low: str = option(
        "extract", "subgraphs of low value: read only active rows, or all rows, or (GPU) active rows in place",
        values=("extract", "stream", "zero_copy"),
    )  # fmt: skip
    rule: str = option(
        "paper", "measure values by useful share, or (GPU) by the estimated time of reading all or only active rows; "
        "throughput is refused",
        values=("paper", "chosen", "throughput"),
    )  # fmt: skip
    alpha: float = option(0.5, "useful share beyond which a subgraph has a high value", within="[0, 1]")
    beta: float = option(0.3, "the same for a subgraph whose useful bytes have grown", within="[0, 1]")
    rounds: int = option(
        1, "the most times that a subgraph of high value is processed while it is in memory", within="[1, inf)"
    )
    low_rounds: int = option(
        1, "the most times in a row that the rows in memory of a subgraph of low value are processed",
        within="[1, inf)",
    )  # fmt: skip
    order: str = option(
        "index", "process subgraphs by number, by useful bytes, or those in slots first and others back and forth",
        values=ORDERS,
    )  # fmt: skip
    slots: int | None = option(
        None, "the most subgraphs in memory (null: 4 on the CPU, 6 on a GPU, and 8 there with packed ids)",
        within="[2, inf)",
    )  # fmt: skip
    extract_threads: int | None = option(
        None, "GPU: threads of the host that pack active rows (null: all)", within="[1, inf)"
    )
    access: str | None = option(None, "GPU: which lanes read the edges of a vertex (null: tiled)", values=ACCESS)
    counters: bool | None = option(
        None, "count useful, potentially useful and never used bytes in every superstep (null: false)"
    )

    GPU_ONLY: ClassVar[tuple[str, ...]] = ("extract_threads", "access")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rule == "throughput":
            raise ScheduleError(
                "rule=throughput needs the bytes of vertices that will become active, which a run does not know; "
                "give rule=paper, which stands for it in the paper, or rule=chosen"
            )
        if self.rule == "chosen" and self.values != "measured":
            raise ScheduleError(f"rule=chosen classifies values=measured, and not values={self.values}; omit one")
        if self.codes == "packed":
            self._check_packed()
        if self.low_rounds > 1:
            self._check_low_rounds()
        if self.repeats and self.counters:
            raise ScheduleError(
                f"counters=true counts by supersteps, and {self.repeats} processes subgraphs asynchronously; "
                f"give {self.once}"
            )
        if self.rounds > 1 and self.slots == 2:
            raise ScheduleError(
                f"slots={self.slots} are taken by the subgraph that is processed and the next one; with rounds="
                f"{self.rounds} give at least 3"
            )

    @property
    def repeats(self) -> str:
        """Return the options with which a subgraph is processed several times; empty if supersteps are synchronous."""
        return ", ".join(f"{name}={count}" for name, count in self._rounds.items() if count > 1)

    @property
    def once(self) -> str:
        """Return the options that make supersteps synchronous."""
        return " and ".join(f"{name}=1" for name, count in self._rounds.items() if count > 1)

    @property
    def _rounds(self) -> dict[str, int]:
        return {"rounds": self.rounds, "low_rounds": self.low_rounds}

    def _check_low_rounds(self) -> None:
        """Raise ScheduleError if no rows of subgraphs of low value are in memory."""
        reason = "values=high has none of them" if self.values == "high" else ""
        if self.low == "zero_copy":
            reason = "low=zero_copy reads them in place"
        if reason:
            raise ScheduleError(
                f"low_rounds={self.low_rounds} applies to rows of subgraphs of low value that are in memory, and "
                f"{reason}; omit one"
            )

    def _check_packed(self) -> None:
        """Raise ScheduleError for packed ids if single rows may be read."""
        if self.rule == "chosen":
            raise ScheduleError("rule=chosen compares the rates of plain ids, and codes=packed has others; omit one")
        if self.values != "high" and self.low != "stream":
            raise ScheduleError(
                f"codes=packed: low={self.low} reads single rows, which packed ids cannot locate; give low=stream "
                "or values=high"
            )
