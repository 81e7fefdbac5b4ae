"""Call kernels window by window of the edges that they read, if edges are streamed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.contract import Transfers
from harness.lowering.buffers import Order
from harness.lowering.cpu.calls import Calls
from harness.lowering.cpu.edge_places import StreamedArray, StreamedEdges, array_at
from harness.lowering.cpu.kernels import Kernel
from harness.lowering.cpu.memory import Memory
from harness.lowering.cpu.partition import Partition
from harness.lowering.cpu.windows import IN_MEMORY, Windows
from harness.lowering.edge_windows import windows

Array = NDArray[Any]
Arguments = dict[str, Array]
Span = tuple[int, int, Array | None]  # the first and last edge of a window, and the runs to read: None: all
OFFSETS = {Order.CSC: "in_offsets", Order.CSR: "out_offsets"}


class Slot:
    """Memory for a window: the rows of all streamed arrays that a kernel takes, one array after the other.

    ``read``: bytes read from files so far. ``needed``: bytes of the edges that they are of. ``room``: memory for packed
    ids, which slots that are filled one after the other may share.
    """

    def __init__(self, nbytes: int, room: Array | None = None) -> None:
        self._memory, self._room = np.empty(nbytes, np.uint8), np.empty(0, np.uint8) if room is None else room
        self.read = self.needed = 0

    def fetch(
        self, arrays: Mapping[str, StreamedArray], num_edges: int, first: int, last: int, runs: Array | None = None
    ) -> dict[str, Array]:
        """Read the rows of edges ``first..last``; return arrays that kernels index by the numbers of edges.

        Such an array begins before the slot and ends with the last row. Other rows must not be accessed. ``runs``: the
        only edges among them to read, ``[runs, 2]``; None: all. Raises EngineFailure.
        """
        parts = [(first, last)] if runs is None else [(int(begin), int(end)) for begin, end in runs]
        found, at = {}, 0
        for name, array in sorted(arrays.items(), key=lambda pair: -pair[1].dtype.itemsize):  # aligned by their sizes
            row = array.row(num_edges)
            nbytes = (last - first) * row
            for begin, end in parts:
                into = slice(at + (begin - first) * row, at + (end - first) * row)
                if array.words_at is None:
                    array.file.read(self._memory[into].data, begin * row)
                    self.read += (end - begin) * row
                else:
                    self.read += array.read_ids(begin, end, self._memory[into].view(array.dtype), self._room)
                self.needed += (end - begin) * row
            start = self._memory.ctypes.data + at - first * row
            found[name] = array_at(start, last * row // array.dtype.itemsize, array.dtype, self._memory)
            at += nbytes
        return found


class WindowedCalls(Calls):
    """Calls of kernels whose edges are streamed.

    A kernel that reads edges runs once for every window of the vertices whose edges it reads: destinations of a pull,
    sources of a push. Windows in which it has nothing to do, or no vertex that it selects, are not read. The values
    that parts leave in ``counts`` are added up. Other kernels run once. While a kernel runs, the next window is read.

    ``partition``: cuts a window into parts.
    """

    def __init__(
        self, kernels: Mapping[Kernel, Callable[..., int]], memory: Memory, workers: int, place: StreamedEdges,
        size: Windows, partition: Partition,
    ) -> None:  # fmt: skip
        super().__init__(kernels, memory, workers)
        self._kernels = {kernel.name: kernel for kernel in kernels}
        self._place, self._size, self._partition = place, size, partition
        self.room = np.empty(size.room_bytes, np.uint8)  # of the one thread that reads
        self._slots = [Slot((size.nbytes - size.room_bytes) // IN_MEMORY, self.room) for _ in range(IN_MEMORY)]
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="edges")
        self._counted = 0, 0  # bytes needed and read that :meth:`transferred` has returned

    def __call__(self, name: str, parts: int, **overrides: Array) -> None:
        """Run a kernel over ``parts`` parts, by windows if it reads streamed edges. Raises EngineFailure."""
        kernel = self._kernels[name]
        arrays = {**self._memory.arrays, **overrides}
        arguments = {key: arrays[key] for key in kernel.arguments}
        streamed = {key: one for key, array in arguments.items() if (one := self._place.streamed(array))}
        if streamed:
            self._in_windows(kernel, parts, arguments, streamed)
        else:
            super().__call__(name, parts, **overrides)

    def transferred(self) -> Transfers:
        """Return what has been read since the last call. Edges of a window count as visited once for each read."""
        needed, read = self._counted
        self._counted = sum(slot.needed for slot in self._slots), sum(slot.read for slot in self._slots)
        return Transfers(self._counted[0] - needed, {"read": self._counted[1] - read})

    def _in_windows(
        self, kernel: Kernel, parts: int, arguments: Arguments, streamed: Mapping[str, StreamedArray]
    ) -> None:
        (order,) = {array.order for array in streamed.values()}  # plans refuse programs whose kernels read both
        offsets = self._memory.arrays[OFFSETS[order]]
        wanted = list(self._wanted(kernel, parts, arguments, offsets))
        counts = arguments.get("counts", np.zeros(0, np.int64))
        total = np.zeros_like(counts)
        spans = [self._span(kernel, arguments, streamed, first, last) for first, last, _ in wanted]
        for number, edges in self._fetched(streamed, spans, int(offsets[-1])):
            changed = wanted[number][2]
            counts[:] = 0
            of_window = len(changed["bounds"]) - 1 if "bounds" in changed else parts
            super().__call__(kernel.name, of_window, **(arguments | changed | edges))
            total += counts
        counts[:] = total

    def _span(
        self, kernel: Kernel, arguments: Arguments, streamed: Mapping[str, StreamedArray], first: int, last: int
    ) -> Span:
        """Return the edges of the vertices ``first..last``, and which of them are read: all."""
        (order,) = {array.order for array in streamed.values()}
        offsets = self._memory.arrays[OFFSETS[order]]
        return int(offsets[first]), int(offsets[last]), None

    def _fetched(
        self, streamed: Mapping[str, StreamedArray], spans: Sequence[Span], num_edges: int
    ) -> Iterator[tuple[int, dict[str, Array]]]:
        """Yield the number and the arrays of each span of edges; these are valid until the next ones are requested."""

        def fetch(number: int) -> Future[dict[str, Array]]:
            slot = self._slots[number % IN_MEMORY]
            return self._reader.submit(slot.fetch, streamed, max(1, num_edges), *spans[number])

        coming = fetch(0) if spans else None
        for number in range(len(spans)):
            assert coming is not None
            found = coming.result()
            coming = fetch(number + 1) if number + 1 < len(spans) else None
            yield number, found

    def _wanted(
        self, kernel: Kernel, parts: int, arguments: Arguments, offsets: Array
    ) -> Iterator[tuple[int, int, dict[str, Array]]]:
        """Yield the windows of vertices in which a kernel has something to do, with the arguments that differ."""
        cut = self._cut_bounds if "bounds" in arguments else self._cut_runs
        for first, last in windows(offsets, 0, len(offsets) - 1, self._size.edges):
            if kernel.selects and not arguments[kernel.selects][first:last].any():
                continue
            changed = cut(kernel, parts, arguments, offsets, first, last)
            if changed is not None:
                yield first, last, changed

    def _cut_bounds(
        self, kernel: Kernel, parts: int, arguments: Arguments, offsets: Array, first: int, last: int
    ) -> dict[str, Array] | None:
        """Return the bounds of the parts of a window; None if it has no vertex, or no item of one."""
        start, stop = (int(end) for end in arguments["bounds"][[0, -1]])
        if kernel.items:
            items = arguments[kernel.items][start:stop]
            low, high = (start + int(at) for at in np.searchsorted(items, (first, last)))
            bounds = np.linspace(low, high, min(parts, high - low) + 1).astype(np.int64)
        else:
            low, high = max(first, start), min(last, stop)
            bounds = self._partition.bounds(offsets, low, high) if low < high else np.zeros(0, np.int64)
        return {"bounds": bounds} if low < high else None

    @staticmethod
    def _cut_runs(
        kernel: Kernel, parts: int, arguments: Arguments, offsets: Array, first: int, last: int
    ) -> dict[str, Array] | None:
        """Return the runs of owners (:class:`~harness.lowering.cpu.hubs.HubRuns`) that are within a window."""
        starts, ends, bounds = (arguments[name] for name in ("run_starts", "run_ends", "run_bounds"))
        if not kernel.items:
            return {"run_starts": np.clip(starts, first, last), "run_ends": np.clip(ends, first, last)}
        starts, ends, found = starts.copy(), ends.copy(), False
        for owner in range(parts):
            start, runs = int(starts[owner]), slice(int(bounds[owner]), int(bounds[owner + 1]))
            items = arguments[kernel.items][start : int(ends[runs][-1])]
            low, high = (start + int(at) for at in np.searchsorted(items, (first, last)))
            starts[owner], ends[runs] = low, np.clip(ends[runs], low, high)
            found = found or low < high
        return {"run_starts": starts, "run_ends": ends} if found else None
