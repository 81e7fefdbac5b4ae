"""Launches over subgraphs: choose those with active vertices, read each, and run the kernel for it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from engines.outofmemory.scaph.cuda_staging import PackedRows
from engines.outofmemory.scaph.cuda_undecided import SAMPLES, SECTOR, DecidedSuperstep, Decisions
from engines.outofmemory.scaph.cuda_windows import windows_of
from engines.outofmemory.scaph.extraction import TABLE_BYTES, groups_of
from engines.outofmemory.scaph.part_times import DeviceTime
from harness.api.cuda import PinnedMemory, Streamed, Streamer, name_of_test, windows

if TYPE_CHECKING:
    from engines.outofmemory.scaph.cuda_staging import Packed
    from engines.outofmemory.scaph.packing import Packer
    from engines.outofmemory.scaph.reading import Choice, Readings
    from harness.api import Inputs
    from harness.api.cuda import Bounds, Call, Replay

Array = NDArray[Any]
Counts: TypeAlias = tuple[int, int, int]  # active vertices, their edges, and the sectors that hold these edges

BLOCKS = 16  # of a multiprocessor, for kernels that go over the vertices of subgraphs
MOST_AT_ONCE = 65_535  # subgraphs that have blocks of their own
WHOLE = ("resident", "copied")


class SubgraphStreamer(Streamer):
    """Prepare the calls of a plan whose edges are read by subgraphs, and copy subgraphs to slots of the device.

    Raises MemoryError if slots and packed rows do not fit the memory.
    """

    def __init__(
        self, plan: Any, store: Any, functions: Any, arrays: Any, readings: Readings, packer: Packer | None,
        multiprocessors: int,
    ) -> None:  # fmt: skip
        super().__init__(plan, store, functions, arrays)
        self.readings, self.multiprocessors = readings, multiprocessors
        sizes = windows_of(plan)
        flags = PinnedMemory(sizes.extra_host_bytes) if sizes.extra_host_bytes else None
        self._flags_owner = flags
        self.flags: Array = flags.host.view(np.bool_) if flags else np.zeros(0, np.bool_)
        self.packing: PackedRows | None = None
        if packer:
            self.packing = PackedRows(plan, functions, arrays, packer, readings, self.stream)
        self.note: Callable[[Array], None] | None = None  # takes the rows that a synchronous superstep reads
        self.supersteps = -1  # queued since a run began, less one
        self.sweeper: SubgraphCall | None = None  # the latest call that copied all subgraphs, if its next one may, too
        self.sweeps = Counter[str]()  # by kernel: supersteps in a row in which it copied all subgraphs
        self.begins = False  # a run begins with the next superstep, in which all subgraphs are copied
        self.decisions: Decisions | None = None  # None: none is omitted
        self.omitted = 0  # decisions of a run
        self.ahead: dict[Hashable, int] = {}  # the slots of subgraphs that are copied before they are chosen

    @property
    def edge_bytes(self) -> int:
        """Bytes of an edge in all arrays."""
        return sum(self.rows.values())

    def replay(self, calls: Sequence[Call]) -> Replay:
        """Return the calls of a superstep, which decides how subgraphs are read unless that is omitted."""
        prepared = self.prepared(calls)
        in_place = [one.call if isinstance(one, SubgraphCall) else one for one in prepared]
        return DecidedSuperstep(self.omits_decision, Streamed(self, prepared), in_place)

    def omits_decision(self) -> bool:
        """Begin a superstep; return whether it reads all active rows in place without a decision."""
        self.supersteps += 1
        if not (self.decisions and self.decisions.omitted):
            return False
        self.left -= 1
        self.omitted += 1
        self.begins = False
        self._forget_sweeps()
        return True

    def windowed(self, call: Call, listed: Sequence[Call] = ()) -> SubgraphCall:
        """Return a call of a kernel that reads edges, prepared to run by subgraphs."""
        assert not listed, "pushes list no vertices"
        return SubgraphCall(self, call)

    def begin(self, supersteps: int, *, everything: bool) -> None:
        """Note that at most this many supersteps follow, and whether the first one copies all subgraphs."""
        super().begin(supersteps, everything=everything)
        schedule = self.plan.schedule
        copies = schedule.rule == "paper" and (schedule.values != "low" or schedule.low == "stream")
        self.begins = everything and copies

    def refresh(self, inputs: Inputs) -> None:
        """Forget what is in the slots: a run begins."""
        super().refresh(inputs)
        self.ahead = {}
        self._forget_sweeps()

    def _forget_sweeps(self) -> None:
        self.sweeper = None
        self.sweeps.clear()

    def close(self) -> None:
        """Release the slots and the buffers."""
        super().close()
        self.sweeper = None
        if self.packing:
            self.packing.close()
        self._flags_owner, self.flags = None, np.zeros(0, np.bool_)


class SubgraphCall:
    """A call of a kernel that runs by subgraphs. ``parts``: the bounds of the vertices of each subgraph."""

    def __init__(self, streamer: SubgraphStreamer, call: Call) -> None:
        import cupy

        assert call.launch is not None
        self.streamer, self.call, self.kernel = streamer, call, call.launch.kernel
        self.names = [name for name in self.kernel.arguments if name in streamer.rows]
        self.edge_bytes = sum(streamer.rows[name] for name in self.names)
        self.offsets, _ = streamer.edges_of(call)
        self.parts = windows(self.offsets, *call.bounds, streamer.plan.windows.edges)
        self._edges = [(int(self.offsets[first]), int(self.offsets[last])) for first, last in self.parts]
        self._keys: list[Hashable] = [(tuple(self.names), *one) for one in self._edges]
        self._stored = [streamer.stored(self.names, *one) for one in self._edges]
        self.ends = cupy.asarray(np.array([call.bounds[0], *(last for _, last in self.parts)], np.uint32))
        self.found = cupy.zeros(3 * max(1, len(self.parts)), np.int64)
        pinned = cupy.cuda.alloc_pinned_memory(self.found.nbytes)  # copies from the device to other memory take longer
        self.on_host = np.frombuffer(pinned, np.int64, len(self.found))
        self._made: dict[tuple[int, int | None], Call] = {}
        times = streamer.readings.times
        self.counting, self.fetching = DeviceTime(times, "values"), DeviceTime(times, "flags")

    def start(self) -> None:
        """Count the active rows of every subgraph, and run the kernel for each subgraph with active vertices.

        The first subgraphs are copied before the counts are known if all of them were copied in the last two
        supersteps, or will be in the first one. Most searches need all subgraphs in one superstep only.
        """
        chosen: dict[int, Choice] = {}
        sweeper, sweeps = self.streamer.sweeper, self.streamer.sweeps
        if self.streamer.begins:
            sweeps[self.kernel.name] = 1
            self.prefetch()
        elif sweeper and sweeps[sweeper.kernel.name] > 1 and (sweeper.kernel is self.kernel or self.streamer.left > 0):
            sweeper.prefetch()
        self.streamer.begins = False
        counts, readings, decisions = self.counts(), self.streamer.readings, self.streamer.decisions
        began = time.perf_counter()
        measures = decisions is not None and decisions.samples < SAMPLES
        if measures:
            self.counts()  # once more, to measure a decision: the device is idle, so the host waits only for the counts
        for number, (active, edges, _) in enumerate(counts):
            if active:
                choice = self.choose(number, counts[number])
                readings.traffic.visited += edges * self.edge_bytes
                if edges or choice.whole:
                    chosen[number] = choice
        if decisions and measures:
            decisions.add(time.perf_counter() - began)
        if self.streamer.note:
            self._note(self.streamer.note, counts)
        packed = sorted(number for number, choice in chosen.items() if choice.means == "extracted")
        self.fetch_flags(packed, counts)
        resident = {number for number, choice in chosen.items() if choice.means == "resident"}
        arranged = readings.order.arranged({number: counts[number][1] for number in chosen}, resident)
        slots = set()
        with self.streamer.streams.forked():
            for means in WHOLE:
                for number in arranged:
                    if chosen[number].means == means:
                        slots.add(self._process(number, means))
            for group in self.packed_groups(packed, counts):  # the host packs while whole subgraphs are copied
                rows = self.pack(group)
                self.packing.place(rows)
                self.over(rows).start()
                self.packing.release(rows)
            self._read_in_place(chosen)
        self.streamer.join(sorted(slots))
        copied = [number for number, choice in chosen.items() if choice.means == "copied"]
        if copied and len(copied) == len(self.parts):
            sweeps[self.kernel.name] += 1
            self.streamer.sweeper = self
            return
        sweeps[self.kernel.name] = 0
        if self.streamer.sweeper and self.streamer.sweeper.kernel is self.kernel:
            self.streamer.sweeper = None

    def prefetch(self) -> None:
        """Queue the copies of the first subgraphs, unless some are ahead; with rounds, or another order, none."""
        streamer, slots = self.streamer, self.streamer.readings.slots
        if streamer.ahead or streamer.readings.order.kind != "index" or streamer.plan.schedule.repeats:
            return
        for number in range(min(streamer.most_ahead, len(self.parts))):
            slot = streamer.ahead[self.key(number)] = slots.choose()
            slots.put(slot, None)
            streamer.fill(slot, self.names, *self.edges(number))
            streamer.readings.traffic.moved["copied"] += self._stored[number]

    def _note(self, note: Callable[[Array], None], counts: Sequence[Counts]) -> None:
        """Note the vertices whose edges are read."""
        numbers = [number for number, (active, _, _) in enumerate(counts) if active]
        self.fetch_flags(numbers, counts)
        for first, last in (self.parts[number] for number in numbers):
            note(first + np.flatnonzero(self.streamer.flags[first:last]))

    def counts(self) -> list[Counts]:
        """Return the counts of each subgraph, after waiting for the stream."""
        count = len(self.parts)
        if not count:
            return []
        grid, arguments = self._counting()
        with self.counting.measured():
            self.streamer.functions[name_of_test(self.kernel)](grid, (self.call.threads,), arguments)
            self.found.get(out=self.on_host, blocking=False)
        self.found.fill(0)
        return [(active, edges, sectors) for active, edges, sectors in self.on_host.reshape(-1, 3)[:count].tolist()]

    def _counting(self) -> tuple[tuple[int], tuple[Any, ...]]:
        """Return the grid and the arguments of the kernel that counts; the counts are 0 before it."""
        count, call, flags = len(self.parts), self.call, self.kernel.visits.flags
        given = [call.arguments[flags]] if flags else []
        at_once = max(1, min(count, MOST_AT_ONCE))
        longest = max((last - first for first, last in self.parts), default=0)
        own = max(1, min(-(-longest // call.threads), call.multiprocessors * BLOCKS // at_once))
        arguments = (
            call.arguments["run"], *given, self.streamer.arrays["out_offsets"], self.ends, np.uint32(count),
            np.uint32(own), self.found,
        )  # fmt: skip
        return (own * at_once,), arguments

    def choose(self, number: int, counts: Counts) -> Choice:
        """Return how a subgraph is read (:meth:`value`, :meth:`read`)."""
        return self.read(number, counts, self.value(number, counts))

    def value(self, number: int, counts: Counts) -> bool:
        """Return whether a subgraph has a high value now."""
        readings, (first, last), (_, edges, sectors) = self.streamer.readings, self.parts[number], counts
        useful = edges * self.edge_bytes
        packed = useful + TABLE_BYTES * groups_of(last - first)
        with readings.times.part("values"):
            return readings.value(
                (self.kernel.name, first), useful, self.whole_bytes(number),
                SECTOR * sectors if readings.low == "zero_copy" else packed,
            )  # fmt: skip

    def read(self, number: int, counts: Counts, high: bool) -> Choice:
        """Return how a subgraph of a value is read, and count the bytes that are read in place."""
        readings, (_, _, sectors) = self.streamer.readings, counts
        with readings.times.part("values"):
            choice = readings.read(
                high, self.whole_bytes(number), resident=self.resident(number), stored=self._stored[number]
            )
        if choice.means == "zero_copy":
            readings.traffic.moved["zero_copy"] += SECTOR * sectors
        return choice

    def whole_bytes(self, number: int) -> int:
        """Return the bytes of the edges of a subgraph."""
        begin, end = self._edges[number]
        return (end - begin) * self.edge_bytes

    def resident(self, number: int) -> bool:
        """Return whether a slot has a subgraph."""
        return self.streamer.readings.slots.of(self.key(number)) is not None

    def fetch_flags(self, numbers: Sequence[int], counts: Sequence[Counts]) -> None:
        """Set the flags in host memory of the vertices of some subgraphs; wait for the stream unless all are active.

        ``numbers``: the subgraphs, ascending. The flags of the subgraphs between them become false.
        """
        if not numbers:
            return
        flags, parts = self.streamer.flags, self.parts
        partly = [number for number in numbers if counts[number][0] < parts[number][1] - parts[number][0]]
        if partly:
            low, high = parts[partly[0]][0], parts[partly[-1]][1]
            with self.fetching.measured():
                self.call.arguments[self.kernel.visits.flags][low:high].get(out=flags[low:high])
        fetched, wanted = set(partly), set(numbers)
        for number in range(numbers[0], numbers[-1] + 1):
            if number not in fetched:
                first, last = parts[number]
                flags[first:last] = number in wanted

    def packed_groups(self, numbers: Sequence[int], counts: Sequence[Counts]) -> list[list[int]]:
        """Return the subgraphs whose active rows are packed, in groups whose rows fit in a buffer.

        One launch processes a group. Rows of other subgraphs between those of a group are not packed, and thus empty.
        ``numbers``: the subgraphs, ascending.
        """
        groups: list[list[int]] = []
        room = 0  # edges that the last group has room for
        for number in numbers:
            edges = counts[number][1]
            if groups and edges <= room:
                groups[-1].append(number)
                room -= edges
            else:
                groups.append([number])
                room = self.streamer.plan.windows.edges - edges
        return groups

    @property
    def packing(self) -> PackedRows:
        """Return the buffers of packed rows."""
        assert self.streamer.packing is not None, "the plan has windows for packed rows"
        return self.streamer.packing

    def pack(self, group: Sequence[int]) -> Packed:
        """Pack the rows of a group of subgraphs whose flags are set in host memory."""
        vertices = self.parts[group[0]][0], self.parts[group[-1]][1]
        return self.packing.pack(self.names, vertices, self.offsets, self.streamer.flags)

    def over(self, packed: Packed) -> Call:
        """Return the call for packed rows."""
        return self.call.between(*packed.vertices, **self.packing.arguments(packed))

    def key(self, number: int) -> Hashable:
        """Return the key of a subgraph in a slot: its arrays and the bounds of its edges."""
        return self._keys[number]

    def edges(self, number: int) -> Bounds:
        """Return the bounds of the edges of a subgraph."""
        return self._edges[number]

    def between(self, number: int, slot: int | None) -> Call:
        """Return the call for a subgraph in a slot; None: for one that is read in place."""
        if (number, slot) not in self._made:
            pointers = {} if slot is None else self.streamer.pointers(slot, self.names, *self.edges(number))
            first, last = self.parts[number]
            self._made[number, slot] = self.call.between(first, last, **pointers)
        return self._made[number, slot]

    def _read_in_place(self, chosen: Mapping[int, Choice]) -> None:
        """Run the kernel for subgraphs that are read in place: once for those without another chosen one between them.

        Subgraphs between them that are not chosen have no active vertex (HyTGraph, Wang et al. 2023, fuses them, too).
        """
        for in_place, numbers in groupby(sorted(chosen), lambda number: chosen[number].means == "zero_copy"):
            if in_place:
                parts = [self.parts[number] for number in numbers]
                self.call.between(parts[0][0], parts[-1][1]).start()

    def _process(self, number: int, means: str) -> int:
        """Read a whole subgraph and run the kernel for its vertices, on the stream of its slot; return the slot."""
        streamer, slots, key = self.streamer, self.streamer.readings.slots, self.key(number)
        held = slots.of(key) if means == "resident" else streamer.ahead.pop(key, None)
        slot = slots.choose() if held is None else held
        streamer.ahead = {other: place for other, place in streamer.ahead.items() if place != slot}
        slots.put(slot, key)
        if means == "copied" and held is None:
            streamer.fill(slot, self.names, *self.edges(number))
        elif means == "copied":  # counted when its copy was queued, too
            streamer.readings.traffic.moved["copied"] -= self._stored[number]
        with streamer.streams.of(slot):
            streamer.wait_for(slot)
            self.between(number, slot).start()
            streamer.free(slot)
        return slot
