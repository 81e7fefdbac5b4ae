"""Calls of kernels whose edges are subgraphs of a file, read whole or row by row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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

GAP_BYTES = 4096  # between rows that are read at once: the system reads whole pages
Array = NDArray[Any]


@dataclass(frozen=True)
class Reading:
    """How a subgraph is read. ``runs``: of edges; None: all. ``rows``: the vertices whose rows are read; None: all."""

    high: bool
    runs: Array | None
    rows: Array | None


class SubgraphCalls(WindowedCalls):
    """Calls of kernels by subgraphs, which are windows of the file.

    ``schedule``: says how subgraphs are read. ``readings``: choose that, and count what has been read.
    """

    def __init__(self, *arguments: Any, schedule: ScaphSchedule, edge_bytes: int) -> None:
        super().__init__(*arguments)
        self.schedule, self.edge_bytes = schedule, edge_bytes
        self.readings = Readings(schedule)
        self._given: Mapping[str, Array] | None = None
        self._slots = [Slot(self._size.nbytes // schedule.slots) for _ in range(schedule.slots)]

    @property
    def slots(self) -> list[Slot]:
        """The memory of subgraphs."""
        return self._slots

    def reading(self, name: str, first: int, last: int, rows: Array, offsets: Array) -> Reading:
        """Decide how kernel ``name`` gets the edges of the vertices ``first..last``, of which it needs some ``rows``.

        The bytes are counted.
        """
        whole = int(offsets[last] - offsets[first]) * self.edge_bytes
        useful = useful_edges(offsets, rows) * self.edge_bytes
        choice = self.readings.choose((name, first), useful, whole)
        self.readings.traffic.visited += useful
        if choice.means == "copied":
            return Reading(choice.high, None, None)
        runs = runs_of_rows(offsets, rows, GAP_BYTES // self.edge_bytes)
        read = int((runs[:, 1] - runs[:, 0]).sum()) * self.edge_bytes
        self.readings.traffic.moved["extracted"] += read
        return Reading(choice.high, runs, rows)

    @contextmanager
    def holding(self, edges: Mapping[str, Array]) -> Iterator[None]:
        """Within the block, kernels take the edges of a subgraph in memory, and only these."""
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
            super()._in_windows(kernel, parts, arguments, streamed)
        else:
            super(WindowedCalls, self).__call__(kernel.name, parts, **(arguments | dict(self._given)))

    def _span(self, kernel: Any, arguments: Any, streamed: Any, first: int, last: int) -> Any:
        """Return the edges of the vertices ``first..last``, and those that are read."""
        (order,) = {array.order for array in streamed.values()}
        offsets = self._memory.arrays[OFFSETS[order]]
        rows = np.arange(first, last)
        if kernel.items:
            items = arguments[kernel.items]
            rows = items[np.searchsorted(items, first) : np.searchsorted(items, last)]
        found = self.reading(kernel.name, first, last, rows, offsets)
        return int(offsets[first]), int(offsets[last]), found.runs
