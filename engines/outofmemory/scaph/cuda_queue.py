"""Runs on a CUDA device that process subgraphs in memory several times."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from engines.outofmemory.scaph.cuda_packed_rows import HOLD, LATE, RESTORE
from engines.outofmemory.scaph.cuda_plan import extracts
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

    def step(self, push: Call, vertices: Bounds, packed: Packed | None) -> int:
        """Push from the active ones of some vertices, and step those that were reached; return the launches.

        ``push``: the call for these vertices. ``vertices``: their bounds. ``packed``: only those with packed rows push.
        """
        with self.held(packed):
            push.start()
            self.sent.between(*vertices).start()
        for one in self.others:
            one.start()
        return 2 + len(self.others)

    @contextmanager
    def held(self, packed: Packed | None) -> Iterator[None]:
        """Let only vertices be active whose rows are packed, within the block; None: all that are active."""
        arrays = self.push.streamer.arrays
        flags = arrays[self.push.kernel.visits.flags], arrays.get(LATE)
        if packed:
            self.push.packing.over(HOLD, packed, *flags)
        yield
        if packed:
            self.push.packing.over(RESTORE, packed, *flags)


def solve(run: CudaRun, plan: CudaPlan, streamer: SubgraphStreamer) -> None:
    """Run until settled on the current stream.

    The answer of the program must not depend on the order of messages. The first superstep is synchronous. Later ones
    read and process each subgraph with active vertices, and then run the steps of the vertices that it reached
    (:class:`QueuedSuperstep`). Raises EngineFailure if that takes more than MOST_SUPERSTEPS.
    """
    run.superstep(0)
    made = PackedSuperstep if plan.schedule.values == "low" and extracts(plan.schedule) else CudaSuperstep
    calls, number = Calls.of(plan, streamer, run.launcher.calls(1, run.past)), 1
    while not run.state.fields()["settled"]:
        if number > MOST_SUPERSTEPS:
            raise EngineFailure(
                f"the run has not settled after {MOST_SUPERSTEPS:,} supersteps; give {plan.schedule.once}"
            )
        run.state.note(first=number)  # the record of this superstep is the first one
        superstep = made(calls, streamer, plan.schedule)
        superstep.process()
        calls.end.start()
        visited = int(run.past[0].get()[1])
        streamer.readings.traffic.visited += visited * calls.push.edge_bytes
        run.launches += superstep.launches + 1
        number += 1


class CudaSuperstep(QueuedSuperstep):
    """One superstep of a run on a CUDA device.

    ``launches``: kernels queued so far. Slots are numbers. When a subgraph may be processed again, the active vertices
    of all subgraphs are counted, and the host waits for the device. The latest counts decide what is read meanwhile: of
    a subgraph that has not been processed, more vertices may be active by then, but no fewer.
    """

    def __init__(self, calls: Calls, streamer: SubgraphStreamer, schedule: ScaphSchedule) -> None:
        super().__init__(schedule, streamer.readings)
        self.calls, self.streamer, self.launches = calls, streamer, 0
        self._counts: list[Counts] = []
        self._current = False  # nothing has been processed since the count
        self._chosen: dict[int, Choice] = {}
        self._packed: dict[int, Packed] = {}

    def pending(self) -> dict[int, int]:
        """Return the subgraphs that have active vertices at the beginning, with their useful bytes."""
        push = self.calls.push
        return {n: push.edge_bytes * self._counts[n][1] for n in range(len(push.parts)) if self.active(n)}

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
        """Begin to bring a subgraph to a slot, unless the slot has it; return whether its value is high."""
        push, counts = self.calls.push, self._counts
        choice = self._chosen[number] = push.choose(number, counts[number])
        self.slots.put(slot, push.key(number) if choice.whole else None)
        if choice.means == "copied":
            self.streamer.fill(slot, push.names, *push.edges(number))
        elif choice.means == "extracted":
            push.fetch_flags([number], counts)
            self._packed[number] = push.pack([number])
        return choice.high

    def push(self, number: int, slot: int, *, again: bool) -> None:
        """Push from the active vertices of a subgraph, and step the vertices that were reached."""
        calls, push, choice = self.calls, self.calls.push, self._chosen[number]
        packed = self._packed.get(number)
        if packed and not again:
            push.packing.place(packed)
        elif choice.whole and not again:
            self.streamer.wait_for(slot)
        call = push.over(packed) if packed else push.between(number, slot if choice.whole else None)
        self.launches += calls.step(call, push.parts[number], packed)
        self._current = False

    def still(self, number: int) -> bool:
        """Return whether no row of a subgraph that is in memory belongs to an active vertex now."""
        packed = self._packed.get(number)
        if packed is None:
            return not self.active(number)
        with self.calls.held(packed):
            (active, _, _) = self.calls.push.counts()[number]
        self.launches += 1
        return not active

    def released(self, number: int, slot: int) -> None:
        """Allow the slot and the buffer of packed rows to be overwritten after the work that is queued now."""
        packed = self._packed.pop(number, None)
        if packed:
            self.calls.push.packing.release(packed)
        self.streamer.free(slot)


class PackedSuperstep:
    """One superstep in which the rows of all active vertices are packed (Subway, Sabet et al. 2020, asynchronous mode).

    Rows are packed in groups of subgraphs, as many together as fit in a buffer. A group is processed ``low_rounds``
    times, or until none of its rows is active. Vertices that become active in a superstep wait for the next one, unless
    their rows are packed and have not been processed, or are processed again.

    ``launches``: kernels queued so far.
    """

    def __init__(self, calls: Calls, streamer: SubgraphStreamer, schedule: ScaphSchedule) -> None:
        self.calls, self.readings, self.low_rounds, self.launches = calls, streamer.readings, schedule.low_rounds, 0

    def process(self) -> None:
        """Pack and process all groups. A group is packed while the one before is processed for the first time."""
        push = self.calls.push
        counts = push.counts()
        self.launches += 1
        chosen = {number: push.choose(number, counts[number]) for number, (active, _, _) in enumerate(counts) if active}
        push.fetch_flags(sorted(chosen), counts)
        groups = push.packed_groups(chosen, counts)
        coming = [push.pack(group) for group in groups[:1]]
        for at, group in enumerate(groups):
            packed = coming.pop()
            push.packing.place(packed)
            self._step(packed)
            coming += [push.pack(following) for following in groups[at + 1 : at + 2]]
            for _ in range(self.low_rounds - 1):
                if self._still(packed, group):
                    break
                self.readings.traffic.subgraphs["again"] += len(group)
                self._step(packed)
            push.packing.release(packed)

    def _step(self, packed: Packed) -> None:
        """Push from the active vertices whose rows are packed, and step those that were reached."""
        self.launches += self.calls.step(self.calls.push.over(packed), packed.vertices, packed)

    def _still(self, packed: Packed, group: Sequence[int]) -> bool:
        """Return whether no vertex of a group whose row is packed is active now."""
        with self.calls.held(packed):
            counts = self.calls.push.counts()
        self.launches += 1
        return not any(counts[number][0] for number in group)
