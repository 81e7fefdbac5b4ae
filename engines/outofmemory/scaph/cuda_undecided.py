"""Supersteps that read all active rows in place, without deciding how each subgraph is read.

Copying whole subgraphs instead of reading their active rows in place saves at most the difference of the two rates. A
decision takes time, too: the host waits for the counts of the device, and no superstep is queued ahead meanwhile. The
ends of a superstep with copies also take time: nothing is processed during the first copy, and nothing is read while
the last subgraph is processed. With few active rows all this takes longer than copies save. Such supersteps are
recorded as a CUDA graph and queued ahead, as those of EMOGI style are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.api.cuda import recorded

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from engines.outofmemory.scaph.values import Rates
    from harness.api.cuda import Replay, Starts

SAMPLES = 3  # decisions that are timed; the fastest counts, because other work only delays one
SECTOR = 32  # bytes


@dataclass
class Decisions:
    """Whether a decision may save more time than it takes.

    ``rates``: of copies and of reads in place. ``edge_bytes``: of an edge in all arrays; ``arrays``: their number.
    ``edges``, ``vertices``: of the graph. ``subgraph_bytes``: of a slot.
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
    subgraph_bytes: int = 0
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
        """Compare the time that copies may save in the next superstep with that of a decision and of both ends.

        Processing the last subgraph is taken to last as long as the first copy. A row is taken to need its bytes and a
        sector, but all rows no more than all bytes. All are active in a superstep that rebuilds accumulators.
        """
        edges, rows = news["frontier"], news["active"]
        if news["rebuilding"]:
            edges, rows = self.edges, self.vertices
        read = min(edges * self.edge_bytes + SECTOR * rows * self.arrays, self.edges * self.edge_bytes)
        rates = self.rates
        if self.seconds is None or not rates.other:
            self.omitted = self.seconds is not None
            return
        saved = read * (1 / rates.other - 1 / rates.copied)
        self.omitted = saved <= self.seconds + 2 * self.subgraph_bytes / rates.copied


class DecidedSuperstep:
    """The calls of a superstep, which decides how subgraphs are read unless that is omitted.

    ``omits``: begins a superstep, and returns whether the decision is omitted. ``by_subgraphs``: the calls that decide.
    ``in_place``: the same without decisions.
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
