"""Calls of kernels that read their edges from a file, by subgraphs: whole, or row by row."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from engines.outofmemory.scaph.extraction import runs_of_rows, useful_edges
from engines.outofmemory.scaph.reading import Readings
from harness.api.cpu import OFFSETS, Slot, WindowedCalls

if TYPE_CHECKING:
    from engines.outofmemory.schedules import ScaphSchedule

GAP_BYTES = 4096  # rows with smaller gaps are read together: the system reads whole pages
Array = NDArray[Any]


@dataclass(frozen=True)
class Reading:
    """How a subgraph is read.

    ``high``: the subgraph has a high value. ``runs``: the first and last + 1 of each run of edges that is read,
    int[n, 2]; None: all edges. ``rows``: the vertices whose rows are read, int[n]; None: all. ``useful``: the bytes of
    the rows that a kernel needs. ``resident``: the subgraph is in a slot, and nothing is read.
    """

    high: bool
    runs: Array | None
    rows: Array | None
    useful: int
    resident: bool


def key_of(names: Collection[str], first: int, last: int) -> Hashable:
    """Return the key of a subgraph in a slot: the names of its arrays, and the bounds of its edges."""
    return tuple(sorted(names)), first, last


class SubgraphCalls(WindowedCalls):
    """Calls of kernels by subgraphs. A subgraph is a window of the file.

    ``schedule``: the options of how subgraphs are read. ``edge_bytes``: of an edge. ``slot_bytes``: of a slot. The
    attribute ``readings`` chooses how each subgraph is read, and counts the bytes.
    """

    def __init__(self, *arguments: Any, schedule: ScaphSchedule, edge_bytes: int, slot_bytes: int) -> None:
        super().__init__(*arguments)
        self.schedule, self.edge_bytes = schedule, edge_bytes
        self.readings = Readings(schedule)
        self._given: Mapping[str, Array] | None = None
        self._slots = [Slot(slot_bytes, self.room) for _ in range(self.readings.slots.count)]
        self._held: dict[int, dict[str, Array]] = {}  # the arrays in each slot
        self._chosen: list[Reading] = []  # of the call in progress
        self.note: Callable[[Array], None] | None = None  # takes the rows that a synchronous superstep reads

    def begin(
        self, slot: int, streamed: Mapping[str, Any], num_edges: int, edges: tuple[int, int], reading: Reading
    ) -> Future[dict[str, Array]]:
        """Begin to read a subgraph into a slot, unless it is there; return the future of its arrays."""
        self.readings.slots.put(slot, None if reading.rows is not None else key_of(streamed, *edges))
        coming: Future[dict[str, Array]] = Future()
        if reading.resident:
            coming.set_result(self._held[slot])
        else:
            coming = self._reader.submit(self._read, slot, streamed, num_edges, *edges, reading.runs)
        return coming

    def _read(self, slot: int, *arguments: Any) -> dict[str, Array]:
        self._held[slot] = self._slots[slot].fetch(*arguments)
        return self._held[slot]

    def reading(
        self, name: str, streamed: Mapping[str, Any], first: int, last: int, rows: Array, offsets: Array
    ) -> Reading:
        """Choose how the edges of the vertices ``first`` to ``last - 1`` are read, and count the bytes.

        ``name``: the kernel. ``streamed``: the arrays that it takes, by name. ``rows``: the vertices whose rows it
        needs, int[n]. ``offsets``: of the rows, int[V + 1].
        """
        readings = self.readings
        with readings.times.part("values"):
            edges = int(offsets[first]), int(offsets[last])
            whole = (edges[1] - edges[0]) * self.edge_bytes
            useful = useful_edges(offsets, rows) * self.edge_bytes
            resident = readings.slots.of(key_of(streamed, *edges)) is not None
            stored = sum(one.stored(*edges, max(1, int(offsets[-1]))) for one in streamed.values())
            choice = readings.choose((name, first), useful, whole, resident=resident, stored=stored)
        readings.traffic.visited += useful
        if choice.whole:
            return Reading(choice.high, None, None, useful, resident)
        runs = runs_of_rows(offsets, rows, GAP_BYTES // self.edge_bytes)
        read = int((runs[:, 1] - runs[:, 0]).sum()) * self.edge_bytes
        readings.traffic.moved["extracted"] += read
        return Reading(choice.high, runs, rows, useful, resident)

    @contextmanager
    def holding(self, edges: Mapping[str, Array]) -> Iterator[None]:
        """Pass only the edges of a subgraph in memory to kernels that are called within the block."""
        self._given = edges
        try:
            yield
        finally:
            self._given = None

    def streamed_of(self, name: str) -> dict[str, Any]:
        """Return the arrays of edges in files that a kernel takes, by the names of its arguments."""
        arrays = self._memory.arrays
        found = {key: self._place.streamed(arrays[key]) for key in self._kernels[name].arguments if key in arrays}
        return {key: one for key, one in found.items() if one}

    def _in_windows(self, kernel: Any, parts: int, arguments: Any, streamed: Any) -> None:
        if self._given is None:
            self._chosen = []
            super()._in_windows(kernel, parts, arguments, streamed)
        else:
            super(WindowedCalls, self).__call__(kernel.name, parts, **(arguments | dict(self._given)))

    def _span(self, kernel: Any, arguments: Any, streamed: Any, first: int, last: int) -> Any:
        """Return the bounds of the edges of the vertices ``first`` to ``last - 1``, and the runs that are read."""
        (order,) = {array.order for array in streamed.values()}
        offsets = self._memory.arrays[OFFSETS[order]]
        rows = np.arange(first, last)
        if kernel.items:
            items = arguments[kernel.items]
            rows = items[np.searchsorted(items, first) : np.searchsorted(items, last)]
        found = self.reading(kernel.name, streamed, first, last, rows, offsets)
        self._chosen.append(found)
        if self.note:
            self.note(rows)
        return int(offsets[first]), int(offsets[last]), found.runs

    def _fetched(
        self, streamed: Mapping[str, Any], spans: Sequence[Any], num_edges: int
    ) -> Iterator[tuple[int, dict[str, Array]]]:
        """Yield the number and the arrays of each span in the order of the schedule; read the next span meanwhile."""
        readings, chosen = self.readings, self._chosen
        resident = {number for number, one in enumerate(chosen) if one.resident}
        useful = {number: one.useful for number, one in enumerate(chosen)}

        def begin(number: int) -> Future[dict[str, Array]]:
            edges = spans[number][:2]
            slot = readings.slots.of(key_of(streamed, *edges)) if number in resident else readings.slots.choose()
            assert slot is not None, "subgraphs in slots come first, so that none of them is overwritten"
            return self.begin(slot, streamed, max(1, num_edges), edges, chosen[number])

        coming: list[tuple[int, Future[dict[str, Array]]]] = []
        for number in readings.order.arranged(useful, resident):
            coming.append((number, begin(number)))
            if len(coming) > 1:
                before, future = coming.pop(0)
                yield before, future.result()
        for number, future in coming:
            yield number, future.result()
