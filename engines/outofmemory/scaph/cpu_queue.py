"""Supersteps in which subgraphs of high value are processed several times while others are read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from engines.outofmemory.scaph.extraction import useful_edges
from engines.outofmemory.scaph.levels import LevelQueue
from harness.api import EngineFailure, RunStatistics
from harness.api.cpu import Structure, windows

if TYPE_CHECKING:
    from engines.outofmemory.scaph.cpu_calls import Reading, SubgraphCalls
    from engines.pushbaseline.gunrock.cpu_engine import AdvancePass
    from harness.api.cpu import Run, Slot

Step = Callable[[], None]
MOST_SUPERSTEPS = 1_000_000


@dataclass
class Loaded:
    """A subgraph that is in a slot, or coming."""

    slot: Slot
    reading: Reading
    coming: Future[dict[str, Any]]


class QueueLoop:
    """Run until settled, for programs whose answer does not depend on the order of messages.

    The first superstep is synchronous. In later ones, each subgraph with active vertices is read and processed, and
    then the vertices that it reached are stepped. While the next subgraph is read, one of those in memory is processed
    again: the queue decides which (:class:`LevelQueue`). All decisions are those of the previous reads, whatever these
    took, so that equal runs are equal.

    ``advance``: the pass that pushes, at ``position`` among the steps.
    """

    def __init__(self, advance: AdvancePass, position: int, calls: SubgraphCalls, most_edges: int) -> None:
        self.advance, self.position, self.calls, self.most_edges = advance, position, calls, most_edges
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="subgraphs")

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
                raise EngineFailure(f"the run has not settled after {MOST_SUPERSTEPS:,} supersteps; give rounds=1")
            run.begin_superstep()
            Superstep(self, run, others).process()
            run.end_superstep()
        run.settled = statistics.settled = True
        return statistics


class Superstep:
    """One superstep: every subgraph with active vertices is read once."""

    def __init__(self, loop: QueueLoop, run: Run, others: Sequence[Step]) -> None:
        self.loop, self.run, self.others, self.calls = loop, run, others, loop.calls
        self.offsets = run.store.structure(Structure.OUT_OFFSETS)
        self.bounds = windows(self.offsets, 0, len(self.offsets) - 1, loop.most_edges)
        self.name = f"{loop.advance.name}_changes"
        self.active = run.memory.arrays[f"active_{loop.advance.name}"]
        self.hubs = run.store.table(loop.advance.hubs)
        self.streamed = self.calls.streamed_of(self.name)
        self.queue = LevelQueue(self.calls.schedule.rounds)
        self.free = list(self.calls.slots)
        self.loaded: dict[int, Loaded] = {}

    def process(self) -> None:
        """Read and process the subgraphs in the order of their vertices; then process those that stay in memory."""
        pending = [number for number in range(len(self.bounds)) if len(self.rows(number))]
        for at, number in enumerate(pending):
            if at == 0:
                self.load(number)
            if at + 1 < len(pending):
                self.load(pending[at + 1])
            self.queue.enter(number)
            self.queue.take()
            self.push(number, self.loaded[number].reading.rows)
            self.leave(number, 1)
            self.again()
        while len(self.queue):
            self.again(last=True)

    def load(self, number: int) -> None:
        """Begin to read a subgraph, in the place of one that was processed most often if no slot is free."""
        if not self.free:
            evicted = self.queue.evict()
            assert evicted is not None, "two slots are not in the queue"
            self.release(evicted)
        first, last = self.bounds[number]
        reading = self.calls.reading(self.name, first, last, self.rows(number), self.offsets)
        edges = int(self.offsets[first]), int(self.offsets[last])
        slot, all_edges = self.free.pop(), int(self.offsets[-1])
        coming = self.loop._reader.submit(slot.fetch, self.streamed, all_edges, *edges, reading.runs)
        self.loaded[number] = Loaded(slot, reading, coming)

    def release(self, number: int) -> None:
        """Free the slot of a subgraph."""
        self.free.append(self.loaded.pop(number).slot)

    def leave(self, number: int, level: int) -> None:
        """Move a subgraph that was processed at a level to the next one, or out of memory."""
        if not (self.loaded[number].reading.high and self.queue.drop(number, level)):
            self.release(number)

    def again(self, *, last: bool = False) -> None:
        """Process a subgraph of the queue again, if it has active vertices. ``last``: others are not coming."""
        found = self.queue.take()
        if found is None:
            return
        number, level = found
        rows = self.rows(number)
        if len(rows):
            self.calls.readings.traffic.subgraphs["again"] += 1
            self.calls.readings.traffic.visited += useful_edges(self.offsets, rows) * self.calls.edge_bytes
            self.push(number, None)
            self.leave(number, level)
        elif last:
            self.release(number)
        else:
            self.queue.wait(number, level)

    def rows(self, number: int) -> Any:
        """Return the active vertices of a subgraph."""
        first, last = self.bounds[number]
        return first + np.flatnonzero(self.active[first:last])

    def push(self, number: int, rows: Any) -> None:
        """Push from the active vertices of a subgraph in memory, and step the vertices that were reached.

        ``rows``: those whose edges were read; None: all.
        """
        run, (first, last) = self.run, self.bounds[number]
        frontier = self.rows(number) if rows is None else rows
        edges = self.loaded[number].coming.result()
        runs = {
            "run_starts": np.zeros(run.threads, np.int64),
            "run_ends": np.searchsorted(frontier, self.hubs.ends).astype(np.int64, copy=False),
        }
        with self.calls.holding(edges):
            self.calls(self.name, run.threads, frontier=frontier, **runs)
        late = np.setdiff1d(self.rows(number), frontier, assume_unique=True)  # activated after the rows were chosen
        self.active[late] = False
        parts = run.rules.partition.bounds(self.offsets, first, last)
        run.call(f"sent_{self.loop.advance.name}", len(parts) - 1, bounds=parts)
        if len(late):
            self.active[late] = True
            run.memory.any_flags_may_be_set(f"active_{self.loop.advance.name}")
        run.edges += int((self.offsets[frontier + 1] - self.offsets[frontier]).sum())
        run.moved = 0
        for step in self.others:
            step()
