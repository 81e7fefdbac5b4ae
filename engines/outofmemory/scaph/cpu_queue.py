"""Runs on the CPU that process subgraphs in memory several times."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from engines.outofmemory.scaph.cpu_calls import key_of
from engines.outofmemory.scaph.extraction import useful_edges
from engines.outofmemory.scaph.queued import MOST_SUPERSTEPS, QueuedSuperstep
from harness.api import EngineFailure, RunStatistics
from harness.api.cpu import Structure, windows

if TYPE_CHECKING:
    from engines.outofmemory.scaph.cpu_calls import Reading, SubgraphCalls
    from engines.pushbaseline.gunrock.cpu_engine import AdvancePass
    from harness.api.cpu import Run

Step = Callable[[], None]


@dataclass
class Loaded:
    """A subgraph that is in a slot, or coming."""

    reading: Reading
    coming: Future[dict[str, Any]]


class QueueLoop:
    """Run until settled, for programs whose answer does not depend on the order of messages.

    The first superstep is synchronous. In later ones, each subgraph with active vertices is read and processed, and
    then the vertices that it reached are stepped (:class:`QueuedSuperstep`).

    ``advance``: the pass that pushes, at ``position`` among the steps.
    """

    def __init__(self, advance: AdvancePass, position: int, calls: SubgraphCalls, most_edges: int) -> None:
        self.advance, self.position, self.calls, self.most_edges = advance, position, calls, most_edges

    def __call__(self, run: Run, steps: Sequence[Step], movement: object, max_supersteps: int) -> RunStatistics:
        """Run until settled. Raises EngineFailure if that takes more than MOST_SUPERSTEPS."""
        statistics = RunStatistics(settled=run.settled)
        others = [*steps[: self.position], *steps[self.position + 1 :]]
        if not run.settled:
            run.begin_superstep()
            for step in steps:
                step()
            run.end_superstep()
        while run.active:
            if run.superstep_index > MOST_SUPERSTEPS:
                raise EngineFailure(
                    f"the run has not settled after {MOST_SUPERSTEPS:,} supersteps; give {self.calls.schedule.once}"
                )
            run.begin_superstep()
            CpuSuperstep(self, run, others).process()
            run.end_superstep()
        run.settled = statistics.settled = True
        return statistics


class CpuSuperstep(QueuedSuperstep):
    """One superstep of a run on the CPU."""

    def __init__(self, loop: QueueLoop, run: Run, others: Sequence[Step]) -> None:
        self.loop, self.run, self.others, self.calls = loop, run, others, loop.calls
        super().__init__(self.calls.schedule, self.calls.readings)
        self.offsets = run.store.structure(Structure.OUT_OFFSETS)
        self.bounds = windows(self.offsets, 0, len(self.offsets) - 1, loop.most_edges)
        self.name = f"{loop.advance.name}_changes"
        self.flags = run.memory.arrays[f"active_{loop.advance.name}"]
        self.hubs = run.store.table(loop.advance.hubs)
        self.streamed = self.calls.streamed_of(self.name)
        self.coming: dict[int, Loaded] = {}

    def pending(self) -> dict[int, int]:
        """Return the subgraphs that have active vertices at the beginning, with their useful edges in bytes."""
        found = [number for number in range(len(self.bounds)) if self.active(number)]
        edge_bytes = self.calls.edge_bytes if self.readings.order.kind == "value" else 0  # others need no bytes
        return {n: edge_bytes and edge_bytes * useful_edges(self.offsets, self.rows(n)) for n in found}

    def key(self, number: int) -> Hashable:
        """Return the key of a subgraph in a slot."""
        return key_of(self.streamed, *self.edges(number))

    def edges(self, number: int) -> tuple[int, int]:
        """Return the bounds of the edges of a subgraph."""
        first, last = self.bounds[number]
        return int(self.offsets[first]), int(self.offsets[last])

    def active(self, number: int) -> bool:
        """Return whether a subgraph has active vertices now."""
        first, last = self.bounds[number]
        return bool(self.flags[first:last].any())

    def fetch(self, number: int, slot: int) -> bool:
        """Begin to read a subgraph into a slot, unless the slot has it; return whether its value is high."""
        reading = self.calls.reading(
            self.name, self.streamed, *self.bounds[number], self.rows(number), self.offsets
        )  # fmt: skip
        coming = self.calls.begin(slot, self.streamed, int(self.offsets[-1]), self.edges(number), reading)
        self.coming[number] = Loaded(reading, coming)
        return reading.high

    def rows(self, number: int) -> Any:
        """Return the active vertices of a subgraph."""
        first, last = self.bounds[number]
        return first + np.flatnonzero(self.flags[first:last])

    def readable(self, number: int) -> Any:
        """Return the active vertices of a subgraph in memory whose rows have been read."""
        rows, read = self.rows(number), self.coming[number].reading.rows
        return rows if read is None else np.intersect1d(rows, read, assume_unique=True)

    def still(self, number: int) -> bool:
        """Return whether no row of a subgraph that is in memory belongs to an active vertex now."""
        return not len(self.readable(number))

    def push(self, number: int, slot: int, *, again: bool) -> None:
        """Push from the active vertices of a subgraph, and step the vertices that were reached."""
        run, (first, last), loaded = self.run, self.bounds[number], self.coming[number]
        frontier = self.readable(number)
        if again:
            self.traffic.visited += useful_edges(self.offsets, frontier) * self.calls.edge_bytes
        edges = loaded.coming.result()
        runs = {
            "run_starts": np.zeros(run.threads, np.int64),
            "run_ends": np.searchsorted(frontier, self.hubs.ends).astype(np.int64, copy=False),
        }
        with self.calls.holding(edges):
            self.calls(self.name, run.threads, frontier=frontier, **runs)
        late = np.setdiff1d(self.rows(number), frontier, assume_unique=True)  # activated after the rows were chosen
        self.flags[late] = False
        parts = run.rules.partition.bounds(self.offsets, first, last)
        run.call(f"sent_{self.loop.advance.name}", len(parts) - 1, bounds=parts)
        if len(late):
            self.flags[late] = True
            run.memory.any_flags_may_be_set(f"active_{self.loop.advance.name}")
        run.edges += int((self.offsets[frontier + 1] - self.offsets[frontier]).sum())
        run.moved = 0
        for step in self.others:
            step()
