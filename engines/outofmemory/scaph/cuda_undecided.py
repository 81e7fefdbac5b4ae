"""Supersteps that read all active rows in place, without deciding how each subgraph is read.

Copying whole subgraphs instead of reading their active rows in place saves at most the difference of the two rates. A
decision takes time, too: the host waits for the counts of the device, and no superstep is queued ahead meanwhile. With
few active rows the decision takes longer than it can save. Such supersteps are recorded as a CUDA graph and queued
ahead, as those of EMOGI style are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from engines.outofmemory.scaph.cuda_windows import name_of_tally
from harness.api.cuda import recorded

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from engines.outofmemory.scaph.traffic import Traffic
    from engines.outofmemory.scaph.values import Rates
    from harness.api.cuda import CudaKernel, Replay, Starts

SAMPLES = 3  # decisions that are timed; the fastest counts, because other work only delays one
SECTOR = 32  # bytes


@dataclass
class Decisions:
    """Whether a decision may save more time than it takes.

    ``rates``: of copies and of reads in place. ``edge_bytes``: of an edge in all arrays; ``arrays``: their number.
    ``edges``, ``vertices``: of the graph.
    ``seconds``: of a decision; None until the first one has been timed. ``samples``: those that were timed.
    ``omitted``: the next supersteps read active rows in place. It follows from the latest superstep that the host
    knows: later ones may be queued already, and their active rows may be more. ``omits``: as of any
    :class:`~harness.api.cuda.Observer`, always false.
    """

    rates: Rates
    edge_bytes: int
    arrays: int
    edges: int
    vertices: int
    seconds: float | None = None
    samples: int = 0
    omitted: bool = False
    omits: bool = False

    def fields(self) -> Mapping[str, int]:
        """Return no field of the state of a run; a run begins with a decision."""
        self.omitted = False
        return {}

    def add(self, seconds: float) -> None:
        """Note the time of a decision."""
        self.seconds = seconds if self.seconds is None else min(seconds, self.seconds)
        self.samples += 1

    def update(self, news: Mapping[str, int], queued: int) -> None:
        """Compare the time that copies could save in the next superstep with that of a decision.

        A row is in the sectors of its bytes, and in parts of two others at most. All rows are active in a superstep
        that rebuilds accumulators.
        """
        edges, rows = news["frontier"], news["active"]
        if news["rebuilding"]:
            edges, rows = self.edges, self.vertices
        read = edges * self.edge_bytes + 2 * SECTOR * rows * self.arrays
        rates = self.rates
        saved = read * (1 / rates.other - 1 / rates.copied) if rates.other else 0.0
        self.omitted = self.seconds is not None and saved <= self.seconds


class Tallies:
    """What calls over all subgraphs read in place, counted by kernels and summed on the device.

    ``used``: supersteps have been counted since the sums were read.
    """

    def __init__(
        self, functions: Mapping[str, Any], rows: Mapping[str, int], kernels: Sequence[CudaKernel]
    ) -> None:  # fmt: skip
        """Allocate the sums of some kernels. ``rows``: bytes of an edge by the names of arrays."""
        import cupy

        self.functions, self.places = functions, {kernel.name: place for place, kernel in enumerate(kernels)}
        self.sums, self.ticket = cupy.zeros((len(kernels), 3), np.int64), cupy.zeros(1, np.uint32)
        self.edge_bytes = [sum(row for name, row in rows.items() if name in kernel.arguments) for kernel in kernels]
        self.used = False
        self.beside = cupy.cuda.Stream(non_blocking=True)

    def call(self, kernel: CudaKernel, grid: tuple[int], threads: int, arguments: Sequence[Any]) -> Tally:
        """Return the call that counts for a kernel.

        ``arguments``: up to the counts of each subgraph, which are 0 before and after it.
        """
        function, sums = self.functions[name_of_tally(kernel)], self.sums[self.places[kernel.name]]
        return Tally(function, grid, threads, (*arguments, sums, self.ticket))

    def counted(self, tally: Tally, call: Starts) -> Counted:
        """Return a call with the one that counts what it reads."""
        return Counted(tally, call, self.beside)

    def add_to(self, traffic: Traffic) -> None:
        """Add the sums to what a run has read, after waiting for the current stream, and set them to 0 there."""
        if not self.used:
            return
        for edge_bytes, (subgraphs, edges, sectors) in zip(self.edge_bytes, self.sums.get().tolist(), strict=True):
            traffic.subgraphs["low"] += subgraphs
            traffic.visited += edges * edge_bytes
            traffic.moved["zero_copy"] += SECTOR * sectors
        self.sums.fill(0)
        self.used = False


@dataclass(frozen=True)
class Tally:
    """A call of a kernel that counts and sums; ``arguments``: in the kernel's order."""

    function: Any
    grid: tuple[int]
    threads: int
    arguments: tuple[Any, ...]

    def start(self) -> None:
        """Queue the call on the current stream."""
        self.function(self.grid, (self.threads,), self.arguments)


class Counted:
    """A call over all subgraphs, with the one that counts what it reads on a stream ``beside`` the current one.

    Both only read what they have in common.
    """

    def __init__(self, tally: Tally, call: Starts, beside: Any) -> None:
        import cupy

        self.tally, self.call, self.beside = tally, call, beside
        self._begun, self._ended = (cupy.cuda.Event(disable_timing=True) for _ in range(2))

    def start(self) -> None:
        """Queue both after the work queued so far; the current stream waits for both."""
        import cupy

        current = cupy.cuda.get_current_stream()
        self._begun.record(current)
        self.beside.wait_event(self._begun)
        with self.beside:
            self.tally.start()
            self._ended.record(self.beside)
        self.call.start()
        current.wait_event(self._ended)


class DecidedSuperstep:
    """The calls of a superstep, which decides how subgraphs are read unless that is omitted.

    ``omits``: begins a superstep, and returns whether the decision is omitted. ``by_subgraphs``: the calls that decide.
    ``in_place``: the same without decisions, and those over edges :class:`Counted`.
    """

    def __init__(self, omits: Callable[[], bool], by_subgraphs: Replay, in_place: Sequence[Starts]) -> None:
        self.omits, self.by_subgraphs, self.in_place = omits, by_subgraphs, in_place
        self._recorded: Replay | None = None

    def launch(self) -> None:
        """Queue the calls."""
        if not self.omits():
            self.by_subgraphs.launch()
            return
        if self._recorded is None:
            self._recorded = recorded(self.in_place)
        self._recorded.launch()
