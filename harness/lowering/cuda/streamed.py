"""Edge arrays streamed to a CUDA device: kernels run window by window, and the next window is copied meanwhile.

The arrays are in page-locked memory of the host. A window is the edges of consecutive vertices. It is copied to one of
the slots in the memory of the device, on a stream of its own. Kernels get pointers that begin so far before the slot
that they index them by the numbers of edges. A small kernel decides on the device which windows a launch needs: those
with a flagged vertex, or all (:class:`~harness.lowering.cuda.kernels.Visits`).

Every slot has streams for kernels, so that a long row delays only the slot of its window
(:mod:`harness.lowering.cuda.slot_streams`). If a kernel needed all windows in the superstep before, its first ones are
copied before the device has decided which it needs, so that the link is not idle between supersteps.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.contract import Transfers
from harness.language import Inputs
from harness.lowering.cuda.calls import Call, Replay, Starts
from harness.lowering.cuda.packed_windows import PackedSlots
from harness.lowering.cuda.ranges import Over, by_side
from harness.lowering.cuda.slot_streams import SlotStreams
from harness.lowering.cuda.windows import ALIGNED_EDGES, OFFSETS, SLACK, aligned, name_of_test
from harness.lowering.edge_windows import windows

if TYPE_CHECKING:
    from harness.lowering.cuda.plan import CudaPlan
    from harness.lowering.cuda.ranges import Bounds
    from harness.lowering.graph_store import Array, GraphStore

MOST_BLOCKS = 1024  # of the kernel that finds the windows that another one needs
# Windows that are copied before they are known to be needed. The last kernels of a superstep, whose rows may be long,
# those of vertices, and the decision took about 2.5 ms with 32 features. A window of 32 MB takes 0.6 ms (H100).
FIRST = 4


class Streamer:
    """Prepare the calls of a plan whose edges are streamed. It owns the slots, the stream of copies and its events.

    ``copied``: bytes copied to the device so far. ``needed``: bytes of the edges of the windows that kernels read.
    ``most_ahead``: windows that are copied before they are known to be needed. Raises MemoryError if there is no memory
    for the slots.
    """

    def __init__(
        self, plan: CudaPlan, store: GraphStore, functions: Mapping[str, Any], arrays: Mapping[str, Any]
    ) -> None:
        import cupy

        self.plan, self.store, self.functions, self.arrays = plan, store, functions, arrays
        self.rows = dict(plan.windows.row_bytes)
        count = plan.windows.slots
        self.slots = [cupy.full(plan.windows.slot_bytes, 0xA5, np.uint8) for _ in range(count)]
        room = plan.windows.room_bytes
        self.packed = PackedSlots(count, room, functions, plan.threads) if plan.windows.packed else None
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self.filled, self.used = ([cupy.cuda.Event(disable_timing=True) for _ in range(count)] for _ in range(2))
        self.streams = SlotStreams(count)
        self.turn = self.copied = self.needed = 0
        self.most_ahead = min(FIRST * (2 if self.packed else 1), count - 1)  # packed ones take about half the time
        self.swept: dict[str, bool] = {}  # whether a kernel needed all windows when it was last called, by its name
        self.left = 0  # supersteps that the run may have after the latest one queued
        self.differs = False  # a kernel of this superstep swept and did not in the superstep before, or vice versa
        self.everything = False  # a run begins with the next superstep, and all vertices are active
        self._ahead: deque[tuple[tuple[tuple[str, ...], int, int], int]] = deque()  # windows copied ahead, their slots
        self._ahead_for = 0  # ``left`` of the superstep that is expected to read them
        self._counted = 0, 0  # those that :meth:`transferred` has returned
        self._freed: dict[int, list[Any]] = {}  # the events after which a slot may be overwritten

    def replay(self, calls: Sequence[Call]) -> Replay:
        """Return the calls, those that read edges in windows. They are not recorded."""
        return Streamed(self, self.prepared(calls))

    def prepared(self, calls: Sequence[Call]) -> list[Starts]:
        """Return the calls of a superstep, those that read edges prepared to run in windows."""
        prepared: list[Starts] = []
        listed: list[Call] = []
        for call in calls:
            if call.launch is None or not self.plan.windows.takes(call.launch.kernel):
                prepared.append(call)
            elif call.launch.kernel.visits.listed:
                listed.append(call)
            else:
                prepared.append(self.windowed(call, listed))
                listed = []
        assert not listed, "a kernel of other vertices follows"
        return prepared

    def refresh(self, inputs: Inputs) -> None:
        """Forget what is in the slots: a run begins."""
        self._ahead.clear()
        self.swept.clear()

    def begin(self, supersteps: int, *, everything: bool) -> None:
        """Note that at most this many supersteps follow: nothing is copied ahead for others.

        ``everything``: a run begins, and all vertices are active.
        """
        self.left, self.everything = supersteps, everything

    def transferred(self) -> Transfers:
        """Return what has been copied since the last call. Edges of a window count as visited once for each copy."""
        (needed, copied), self._counted = self._counted, (self.needed, self.copied)
        return Transfers(self.needed - needed, {"copied": self.copied - copied})

    def close(self) -> None:
        """Release the slots, after copies ahead that no kernel has waited for; also after a failure of the device."""
        import cupy

        with suppress(cupy.cuda.runtime.CUDARuntimeError):  # then nothing is copied any more
            self.stream.synchronize()
        self.slots.clear()
        if self.packed:
            self.packed.close()

    def windowed(self, call: Call, listed: Sequence[Call] = ()) -> Starts:
        """Return a call of a kernel that reads edges, prepared to run window by window.

        ``listed``: calls that read edges of listed vertices, which run on the same windows.
        """
        return WindowedCall(self, call, listed)

    def edges_of(self, call: Call) -> tuple[Array, bool]:
        """Return the offsets of the edges that a call reads, and whether its bounds are of edges."""
        assert call.launch is not None
        over, graph = call.launch.over, self.store.graph
        assert isinstance(over, Over)
        return graph.in_offsets if OFFSETS[over] == "in" else graph.csr.offsets, over.of_edges

    def bring(self, names: Sequence[str], first: int, last: int) -> int:
        """Return the slot with the edges ``first..last`` of arrays, to which their copies are queued.

        :meth:`free` must follow the kernels that read the slot.
        """
        wanted = tuple(names), first, last
        self.needed += (last - first) * sum(self.rows[name] for name in names)
        if self._ahead and self._ahead[0][0] == wanted:
            return self._ahead.popleft()[1]
        if self._ahead and self._ahead[0][0][0] == wanted[0]:
            self._ahead.clear()  # other windows of these arrays are needed
        return self._next(*wanted)

    def prefetch(self, names: Sequence[str], edges: Sequence[Bounds], later: int = 0) -> None:
        """Queue the copies of some windows of arrays, unless some are ahead; :meth:`bring` takes them in order.

        ``later``: supersteps from this one to the one that is expected to read them.
        """
        if not self._ahead:
            self._ahead_for = self.left - later
            for one in edges:
                self._ahead.append(((tuple(names), *one), self._next(tuple(names), *one)))

    def drop(self) -> None:
        """Allow windows to be overwritten that were copied ahead for this superstep, which has not read them."""
        if self._ahead_for >= self.left:
            self._ahead.clear()

    def _next(self, names: Sequence[str], first: int, last: int) -> int:
        """Return the next slot in turn without a window that was copied ahead, after queueing copies to it."""
        held = {slot for _, slot in self._ahead}
        while self.turn % len(self.slots) in held:  # fewer windows are copied ahead than there are slots
            self.turn += 1
        number = self.turn % len(self.slots)
        self.turn += 1
        self.fill(number, names, first, last)
        return number

    def fill(self, number: int, names: Sequence[str], first: int, last: int) -> None:
        """Queue the copies of the edges ``first..last`` of arrays to a slot, after the work that used it."""
        import cupy

        runtime = cupy.cuda.runtime
        for event in self._freed.get(number, ()):
            self.stream.wait_event(event)
        packed = []
        for name, at, begin in self._places(number, names, first, last):
            if name in self.plan.windows.packed:
                packed.append((self.arrays[name], begin, last, at))
                continue
            size = (last - begin) * self.rows[name]
            if size:
                source = int(self.arrays[name].data.ptr) + begin * self.rows[name]
                runtime.memcpyAsync(at, source, size, runtime.memcpyHostToDevice, self.stream.ptr)
            self.copied += size
        if self.packed:
            self.copied += self.packed.fill(number, packed, self.stream)
        self.filled[number].record(self.stream)

    def stored(self, names: Sequence[str], first: int, last: int) -> int:
        """Return the bytes on the host of the edges ``first..last`` of arrays: of packed ids those of their blocks."""
        packed = self.plan.windows.packed
        plain = sum((last - first) * self.rows[name] for name in names if name not in packed)
        begin = first // ALIGNED_EDGES * ALIGNED_EDGES
        sizes = (int(size) for name in names if name in packed for _, size in self.arrays[name].parts(begin, last))
        return plain + sum(sizes)

    def wait_for(self, number: int) -> None:
        """Let the current stream wait for the copies to a slot, and unpack there what was copied packed."""
        import cupy

        cupy.cuda.get_current_stream().wait_event(self.filled[number])
        if self.packed:
            self.packed.unpack(number)

    def ready(self, number: int) -> Any:
        """Return the event after which kernels of other streams may read a slot that has been waited for."""
        return self.packed.unpacked[number] if self.packed else self.filled[number]

    def pointers(self, number: int, names: Sequence[str], first: int, last: int) -> dict[str, np.uint64]:
        """Return where kernels find edge 0 of arrays, of which a slot has the edges ``first..last``."""
        places = self._places(number, names, first, last)
        return {name: np.uint64((at - begin * self.rows[name]) % (1 << 64)) for name, at, begin in places}

    def free(self, number: int, beside: Sequence[Any] = ()) -> None:
        """Let a slot be overwritten after the work queued so far on the current stream, and after some events."""
        import cupy

        self.used[number].record(cupy.cuda.get_current_stream())
        self._freed[number] = [self.used[number], *beside]

    def join(self, numbers: Iterable[int]) -> None:
        """Let the current stream wait for the work that uses some slots."""
        import cupy

        current = cupy.cuda.get_current_stream()
        for number in numbers:
            for event in self._freed.get(number, ()):
                current.wait_event(event)

    def _places(self, number: int, names: Sequence[str], first: int, last: int) -> Iterator[tuple[str, int, int]]:
        """Yield the arrays, the addresses in a slot from which on their edges are, and the first of these edges."""
        begin, at = first // ALIGNED_EDGES * ALIGNED_EDGES, int(self.slots[number].data.ptr)
        for name in names:
            yield name, at, begin
            at += aligned((last - begin) * self.rows[name] + SLACK)


class WindowedCall:
    """A call of a kernel that runs window by window.

    ``parts``: of every window the bounds of the work and the edges. ``listed``: calls of kernels of listed vertices,
    with the bounds of the vertices of each window.
    """

    def __init__(self, streamer: Streamer, call: Call, listed: Sequence[Call] = ()) -> None:
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
        self.listed = [(one, parts_of_listed(one, found)) for one in listed]
        self.wanted = cupy.zeros(max(1, len(found)), np.bool_)
        pinned = cupy.cuda.alloc_pinned_memory(self.wanted.nbytes)  # copies from the device to other memory take longer
        self.on_host = np.frombuffer(pinned, np.bool_, len(self.wanted))
        self.ends = cupy.asarray(np.array([first, *(high for _, high in found)], np.uint32))
        self._made: dict[tuple[int, int], tuple[Call, list[Call]]] = {}

    @property
    def swept(self) -> bool:
        """Return whether the kernel needed all windows when it was last called."""
        return self.streamer.swept.get(self.kernel.name, False)

    def prefetch(self, later: int = 0) -> None:
        """Queue the copies of the first windows, unless windows have been copied ahead (:meth:`Streamer.prefetch`)."""
        self.streamer.prefetch(self.names, self.edges[: self.streamer.most_ahead], later)

    def start(self) -> None:
        """Find the windows that the kernel needs, and run it for each; wait for the stream before."""
        streamer, needed, before = self.streamer, self._needed(), self.swept
        streamer.swept[self.kernel.name] = bool(needed) and all(needed)
        streamer.differs = streamer.differs or self.swept != before
        slots = []
        with streamer.streams.forked():
            for number, wanted in enumerate(needed):
                if wanted:
                    slots.append(streamer.bring(self.names, *self.edges[number]))
                    self._run(number, slots[-1])
                elif not self.kernel.visits.alone:
                    (first, last), none = self.parts[number], dict.fromkeys(self.names, np.uint64(0))
                    self.call.between(first, last, **none).start()
        streamer.join(sorted({*slots}))

    def _run(self, number: int, slot: int) -> None:
        """Queue the kernels of a window on the streams of its slot."""
        streamer = self.streamer
        call, listed = self._calls(number, slot)
        with streamer.streams.of(slot):
            streamer.wait_for(slot)
        beside = streamer.streams.beside(slot, streamer.ready(slot), listed)
        with streamer.streams.of(slot):
            call.start()
            streamer.free(slot, beside)

    def _calls(self, number: int, slot: int) -> tuple[Call, list[Call]]:
        """Return the call for a window in a slot, and those of its listed vertices."""
        if (number, slot) not in self._made:
            pointers = self.streamer.pointers(slot, self.names, *self.edges[number])
            ranges = [(call, *parts[number]) for call, parts in self.listed]
            listed = [call.between(low, high, **pointers) for call, low, high in ranges if low < high]
            first, last = self.parts[number]
            self._made[number, slot] = self.call.between(first, last, **pointers), listed
        return self._made[number, slot]

    def _needed(self) -> list[bool]:
        """Return which windows the kernel needs, after waiting for the current stream."""
        import cupy

        count = len(self.parts)
        if not count:
            return []
        self.wanted.fill(False)
        flags = [self.call.arguments[name] for name in (self.kernel.visits.flags,) if name]
        arguments = (self.call.arguments["run"], *flags, self.ends, np.uint32(count), self.wanted)
        test = self.streamer.functions[name_of_test(self.kernel)]
        test((min(count, MOST_BLOCKS),), (self.call.threads,), arguments)
        self.wanted.get(out=self.on_host, blocking=False)
        cupy.cuda.get_current_stream().synchronize()
        return [bool(one) for one in self.on_host]


def parts_of_listed(call: Call, found: Sequence[Bounds]) -> list[Bounds]:
    """Return the bounds of the listed vertices of a call in each of some consecutive ranges of vertices."""
    assert call.launch is not None
    first, last = call.bounds
    vertices = call.arguments[call.launch.kernel.visits.listed].get()[first:last]
    return [(first + low, first + high) for low, high in by_side(vertices, found)]


class Streamed:
    """Calls of a superstep that are queued one by one."""

    def __init__(self, streamer: Streamer, calls: Sequence[Starts]) -> None:
        self.streamer, self.calls = streamer, calls
        self.windowed = [call for call in calls if isinstance(call, WindowedCall)]

    def launch(self) -> None:
        """Queue all calls in order on the current stream; wait for it before calls that read edges.

        Kernels are expected to need all windows if they did in the superstep before, until one of them differs: some
        take the place of others, such as those for all vertices and those for changes. If a run begins with all
        vertices active, some kernel needs all windows, and most have the same arrays.
        """
        streamer = self.streamer
        streamer.left -= 1
        streamer.differs = False
        coming, later = list(self.windowed), self.windowed if streamer.left > 0 else []
        for call in self.calls:
            # A windowed call waits for the stream: before that, copies for the next superstep are queued as well.
            expected = [] if streamer.differs else coming
            following = [*expected, *later] if isinstance(call, WindowedCall) else expected
            swept = next((one for one in following if one.swept or (streamer.everything and one is coming[0])), None)
            if swept:
                swept.prefetch(later=int(swept not in expected))
            streamer.everything = False
            if coming and call is coming[0]:
                coming.pop(0)
            call.start()
        streamer.drop()
