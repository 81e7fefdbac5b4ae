"""Runs on a CUDA device that process subgraphs in memory several times."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from engines.outofmemory.scaph.cuda_packed_rows import HOLD, LATE, RESTORE
from engines.outofmemory.scaph.cuda_subgraphs import SubgraphCall
from engines.outofmemory.scaph.queued import MOST_SUPERSTEPS, QueuedSuperstep
from harness.api import EngineFailure

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from engines.outofmemory.scaph.cuda_staging import Packed
    from engines.outofmemory.scaph.cuda_subgraphs import Counts, SubgraphStreamer
    from engines.outofmemory.scaph.reading import Choice
    from engines.outofmemory.schedules import ScaphSchedule
    from harness.api.cuda import Bounds, Call, CudaPlan, CudaRun


@dataclass(frozen=True)
class Calls:
    """The calls of a superstep.

    ``push``: the kernel over edges, by subgraphs. ``sent``: stores what the vertices of a subgraph have sent.
    ``others``: follow each subgraph. ``end``: ends the superstep.
    """

    push: SubgraphCall
    sent: Call
    others: Sequence[Call]
    end: Call

    @classmethod
    def of(cls, plan: CudaPlan, streamer: SubgraphStreamer, calls: Sequence[Call]) -> Self:
        """Sort the calls of a superstep by their part; the last call ends the superstep."""
        (group,) = plan.tracking.propagating()
        name = f"sent_{plan.tracking.name(group)}"
        (push,) = (call for call in calls if call.launch and plan.windows.takes(call.launch.kernel))
        (sent,) = (call for call in calls if call.launch and call.launch.kernel.name == name)
        others = [call for call in calls[:-1] if call is not push and call is not sent]
        return cls(SubgraphCall(streamer, push), sent, others, calls[-1])

    def step(self, push: Call, vertices: Bounds, packed: Packed | None = None) -> int:
        """Push from the active ones of some vertices, and step those that were reached; return the launches.

        ``push``: the call for these vertices. ``vertices``: their bounds. ``packed``: only those with packed rows push.
        """
        with self.held(packed) if packed else nullcontext():
            push.start()
            self.sent.between(*vertices).start()
        for one in self.others:
            one.start()
        return 2 + len(self.others)

    @contextmanager
    def held(self, packed: Packed) -> Iterator[None]:
        """Let only vertices be active whose rows are packed, within the block."""
        arrays, packing = self.push.streamer.arrays, self.push.packing
        flags = arrays[self.push.kernel.visits.flags], arrays[LATE]
        packing.over(HOLD, packed, *flags)
        yield
        packing.over(RESTORE, packed, *flags)


def solve(run: CudaRun, plan: CudaPlan, streamer: SubgraphStreamer) -> None:
    """Run until settled on the current stream.

    The answer of the program must not depend on the order of messages. The first superstep is synchronous. Later ones
    read and process each subgraph with active vertices, and then run the steps of the vertices that it reached
    (:class:`QueuedSuperstep`). Raises EngineFailure if that takes more than MOST_SUPERSTEPS.
    """
    run.superstep(0)
    calls, number = Calls.of(plan, streamer, run.launcher.calls(1, run.past)), 1
    while not run.state.fields()["settled"]:
        if number > MOST_SUPERSTEPS:
            raise EngineFailure(
                f"the run has not settled after {MOST_SUPERSTEPS:,} supersteps; give {plan.schedule.once}"
            )
        run.state.note(first=number)  # the record of this superstep is the first one
        superstep = CudaSuperstep(calls, streamer, plan.schedule)
        superstep.process()
        calls.end.start()
        visited = int(run.past[0].get()[1])
        streamer.readings.traffic.visited += visited * calls.push.edge_bytes
        run.launches += superstep.launches + 1
        number += 1


class CudaSuperstep(QueuedSuperstep):
    """One superstep of a run on a CUDA device.

    Values are those at the beginning. Packed rows do not stay in memory: those of all subgraphs of low value are packed
    first, as many together as fit in a buffer, and processed ``low_rounds`` times, or until none of them is active. If
    all values are low this is the asynchronous mode of Subway (Sabet et al. 2020).

    ``launches``: kernels queued so far. Slots are numbers. When a subgraph may be processed again, the active vertices
    of all subgraphs are counted, and the host waits for the device. The latest counts decide what is read in place: of
    a subgraph that has not been processed, more vertices may be active by then, but no fewer.
    """

    def __init__(self, calls: Calls, streamer: SubgraphStreamer, schedule: ScaphSchedule) -> None:
        super().__init__(schedule, streamer.readings)
        self.calls, self.streamer, self.launches = calls, streamer, 0
        self._counts: list[Counts] = []
        self._current = False  # nothing has been processed since the count
        self._high: dict[int, bool] = {}
        self._packed: list[int] = []  # subgraphs whose rows are packed
        self._chosen: dict[int, Choice] = {}  # how others are read

    def pending(self) -> dict[int, int]:
        """Return the subgraphs with active vertices at the beginning whose rows are not packed, and their useful bytes.

        The flags of the other ones are fetched.
        """
        push = self.calls.push
        found = [number for number in range(len(push.parts)) if self.active(number)]
        counts = self._counts
        self._high = {number: push.value(number, counts[number]) for number in found}
        if self.readings.low == "extracted":
            self._packed = [number for number in found if not self._high[number] and not push.resident(number)]
            for number in self._packed:
                push.read(number, counts[number], high=False)
            push.fetch_flags(self._packed, counts)
        others = set(found).difference(self._packed)
        return {number: push.edge_bytes * counts[number][1] for number in others}

    def apart(self) -> None:
        """Pack and process the rows of subgraphs of low value. A group is packed while the one before is processed."""
        push = self.calls.push
        groups = push.packed_groups(self._packed, self._counts)
        coming = [push.pack(group) for group in groups[:1]]
        for at, group in enumerate(groups):
            packed = coming.pop()
            push.packing.place(packed)
            self._step(packed)
            coming += [push.pack(following) for following in groups[at + 1 : at + 2]]
            for _ in range(self.low_rounds - 1):
                if self._no_row_is_active(packed, group):
                    break
                self.traffic.subgraphs["again"] += len(group)
                self._step(packed)
            push.packing.release(packed)

    def _step(self, packed: Packed) -> None:
        """Push from the active vertices whose rows are packed, and step those that were reached."""
        self.launches += self.calls.step(self.calls.push.over(packed), packed.vertices, packed)
        self._current = False

    def _no_row_is_active(self, packed: Packed, group: Sequence[int]) -> bool:
        """Return whether no vertex of a group whose row is packed is active now."""
        with self.calls.held(packed):
            counts = self.calls.push.counts()
        self.launches += 1
        return not any(counts[number][0] for number in group)

    def key(self, number: int) -> Hashable:
        """Return the key of a subgraph in a slot."""
        return self.calls.push.key(number)

    def active(self, number: int) -> bool:
        """Return whether a subgraph has active vertices now."""
        if not self._current:
            self._counts, self._current = self.calls.push.counts(), True
            self.launches += 1
        return self._counts[number][0] > 0

    def fetch(self, number: int, slot: int) -> bool:
        """Begin to bring a subgraph to a slot, unless the slot has it; return whether its value is high.

        If rows of low value are packed, only subgraphs that were in a slot at the beginning of the superstep come here
        with a low value. One that has left its slot is copied.
        """
        push, whole = self.calls.push, self._high[number] or self.readings.low == "extracted"
        choice = self._chosen[number] = push.read(number, self._counts[number], high=whole)
        self.slots.put(slot, push.key(number) if choice.whole else None)
        if choice.means == "copied":
            self.streamer.fill(slot, push.names, *push.edges(number))
        return self._high[number]

    def push(self, number: int, slot: int, *, again: bool) -> None:
        """Push from the active vertices of a subgraph, and step the vertices that were reached."""
        push, choice = self.calls.push, self._chosen[number]
        if choice.whole and not again:
            self.streamer.wait_for(slot)
        call = push.between(number, slot if choice.whole else None)
        self.launches += self.calls.step(call, push.parts[number])
        self._current = False

    def still(self, number: int) -> bool:
        """Return whether no vertex of a subgraph that is in memory is active now."""
        return not self.active(number)

    def released(self, number: int, slot: int) -> None:
        """Allow the slot to be overwritten after the work that is queued now."""
        self.streamer.free(slot)
