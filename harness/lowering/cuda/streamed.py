"""Edge arrays streamed to a CUDA device: kernels run window by window, and the next window is copied meanwhile.

The arrays are in page-locked memory of the host. A window is the edges of consecutive vertices. It is copied to one of
two slots in the memory of the device, on a stream of its own. Kernels get pointers that begin so far before the slot
that they index them by the numbers of edges. A small kernel decides on the device which windows a launch needs: those
with a flagged vertex, or all (:class:`~harness.lowering.cuda.kernels.Visits`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.lowering.cuda.calls import Call, Replay
from harness.lowering.cuda.ranges import Over
from harness.lowering.cuda.windows import ALIGNED_EDGES, OFFSETS, SLACK, SLOTS, aligned, name_of_test
from harness.lowering.edge_windows import windows

if TYPE_CHECKING:
    from harness.lowering.cuda.plan import CudaPlan
    from harness.lowering.graph_store import Array, GraphStore

MOST_BLOCKS = 1024  # of the kernel that finds the windows that another one needs


class Streamer:
    """Prepare the calls of a plan whose edges are streamed. It owns the slots, the stream of copies and its events.

    ``copied``: bytes copied to the device so far. Raises MemoryError if there is no memory for the slots.
    """

    def __init__(
        self, plan: CudaPlan, store: GraphStore, functions: Mapping[str, Any], arrays: Mapping[str, Any]
    ) -> None:
        import cupy

        self.plan, self.store, self.functions, self.arrays = plan, store, functions, arrays
        self.rows = dict(plan.windows.row_bytes)
        self.slots = [cupy.full(plan.windows.slot_bytes, 0xA5, np.uint8) for _ in range(SLOTS)]
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self.filled, self.used = ([cupy.cuda.Event(disable_timing=True) for _ in range(SLOTS)] for _ in range(2))
        self.turn = self.copied = 0

    def replay(self, calls: Sequence[Call]) -> Replay:
        """Return the calls, those that read edges in windows. They are not recorded."""
        return Streamed([self._prepared(call) for call in calls])

    def close(self) -> None:
        """Release the slots."""
        self.slots.clear()

    def _prepared(self, call: Call) -> Call | WindowedCall:
        if call.launch is None or not self.plan.windows.takes(call.launch.kernel):
            return call
        return WindowedCall(self, call)

    def edges_of(self, call: Call) -> tuple[Array, bool]:
        """Return the offsets of the edges that a call reads, and whether its bounds are of edges."""
        assert call.launch is not None
        over, graph = call.launch.over, self.store.graph
        assert isinstance(over, Over)
        return (graph.csc if OFFSETS[over] == "in" else graph.csr).offsets, over.of_edges

    def copy(self, names: Sequence[str], first: int, last: int) -> dict[str, np.uint64]:
        """Queue the copies of the edges ``first..last`` of arrays to the next slot; return pointers for kernels.

        The current stream waits for the copies. :meth:`release` must follow the kernels that read the slot.
        """
        import cupy

        number, runtime = self.turn % SLOTS, cupy.cuda.runtime
        begin = first // ALIGNED_EDGES * ALIGNED_EDGES
        if self.turn >= SLOTS:
            self.stream.wait_event(self.used[number])
        found, at = {}, int(self.slots[number].data.ptr)
        for name in names:
            row = self.rows[name]
            size = (last - begin) * row
            if size:
                source = int(self.arrays[name].data.ptr) + begin * row
                runtime.memcpyAsync(at, source, size, runtime.memcpyHostToDevice, self.stream.ptr)
            found[name] = np.uint64((at - begin * row) % (1 << 64))
            at += aligned(size + SLACK)
            self.copied += size
        self.filled[number].record(self.stream)
        cupy.cuda.get_current_stream().wait_event(self.filled[number])
        return found

    def release(self) -> None:
        """Let the slot of the latest copy be overwritten after the work queued so far."""
        import cupy

        self.used[self.turn % SLOTS].record(cupy.cuda.get_current_stream())
        self.turn += 1


class WindowedCall:
    """A call of a kernel that runs window by window.

    ``parts``: of every window the bounds of the work and the edges.
    """

    def __init__(self, streamer: Streamer, call: Call) -> None:
        import cupy

        assert call.launch is not None
        self.streamer, self.call, self.kernel = streamer, call, call.launch.kernel
        self.names = [name for name in self.kernel.arguments if name in streamer.rows]
        offsets, of_edges = streamer.edges_of(call)
        first, last = call.bounds
        if of_edges:
            first, last = (int(np.searchsorted(offsets, end)) for end in call.bounds)
        found = windows(offsets, first, last, streamer.plan.windows.edges)
        self.edges = [(int(offsets[low]), int(offsets[high])) for low, high in found]
        self.parts = self.edges if of_edges else found
        self.wanted = cupy.zeros(max(1, len(found)), np.bool_)
        self.ends = cupy.asarray(np.array([first, *(high for _, high in found)], np.uint32))

    def start(self) -> None:
        """Find the windows that the kernel needs, and run it for each; wait for the stream before."""
        needed = self._needed()
        for (first, last), edges, wanted in zip(self.parts, self.edges, needed, strict=True):
            if wanted:
                pointers = self.streamer.copy(self.names, *edges)
                self.call.between(first, last, **pointers).start()
                self.streamer.release()
            elif not self.kernel.visits.alone:
                none = dict.fromkeys(self.names, np.uint64(0))
                self.call.between(first, last, **none).start()

    def _needed(self) -> list[bool]:
        count = len(self.parts)
        if not count:
            return []
        self.wanted.fill(False)
        flags = [self.call.arguments[name] for name in (self.kernel.visits.flags,) if name]
        arguments = (self.call.arguments["run"], *flags, self.ends, np.uint32(count), self.wanted)
        test = self.streamer.functions[name_of_test(self.kernel)]
        test((min(count, MOST_BLOCKS),), (self.call.threads,), arguments)
        return [bool(one) for one in self.wanted.get()]


class Streamed:
    """Calls that are queued one by one."""

    def __init__(self, calls: Sequence[Call | WindowedCall]) -> None:
        self.calls = calls

    def launch(self) -> None:
        """Queue all calls in order on the current stream; wait for it before calls that read edges."""
        for call in self.calls:
            call.start()
