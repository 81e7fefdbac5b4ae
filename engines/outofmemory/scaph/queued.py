"""A superstep that processes subgraphs in memory several times, on any device."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable
from typing import TYPE_CHECKING

from engines.outofmemory.scaph.levels import LevelQueue

if TYPE_CHECKING:
    from engines.outofmemory.scaph.reading import Readings
    from engines.outofmemory.schedules import ScaphSchedule

MOST_SUPERSTEPS = 1_000_000


class QueuedSuperstep(ABC):
    """One superstep, which reads every subgraph with active vertices once.

    While the next subgraph is read, a subgraph in memory is processed again; the queue chooses it
    (:class:`LevelQueue`). No choice depends on the time of a read, so that repeated runs are equal.

    ``schedule``: has the most times that a subgraph is processed. ``readings``: choose how and in which order subgraphs
    are read, and know the contents of the slots. A slot holds one subgraph.
    """

    def __init__(self, schedule: ScaphSchedule, readings: Readings) -> None:
        self.queue, self.low_rounds, self.readings = LevelQueue(schedule.rounds), schedule.low_rounds, readings
        self.traffic, self.slots, self.times = readings.traffic, readings.slots, readings.times
        self.free = set(range(self.slots.count))
        self._loaded: dict[int, tuple[int, bool]] = {}  # by subgraph: its slot, and whether its value is high

    @abstractmethod
    def pending(self) -> dict[int, int]:
        """Return the subgraphs with active vertices at the beginning, with their useful bytes.

        Those that :meth:`apart` processes are left out.
        """

    def apart(self) -> None:
        """Process the subgraphs with active vertices that are not :meth:`pending`; by default there are none."""
        return

    @abstractmethod
    def key(self, number: int) -> Hashable:
        """Return the key of a subgraph in a slot."""

    @abstractmethod
    def active(self, number: int) -> bool:
        """Return whether a subgraph in memory has active vertices now."""

    @abstractmethod
    def fetch(self, number: int, slot: int) -> bool:
        """Begin to read a subgraph into a slot, unless the slot has it; return whether its value is high."""

    @abstractmethod
    def push(self, number: int, slot: int, *, again: bool) -> None:
        """Push from the active vertices of a subgraph, once it has been read, and step the vertices that were reached.

        Only rows that were read are used. ``again``: it has been processed before in this superstep.
        """

    @abstractmethod
    def still(self, number: int) -> bool:
        """Return whether no row of a subgraph that is in memory belongs to an active vertex now."""

    def released(self, number: int, slot: int) -> None:
        """Handle that the slot of a subgraph will be used for another one; the default does nothing."""
        return

    def process(self) -> None:
        """Read and process the subgraphs in their order; then process those that stay in memory."""
        with self.times.part("queue"):
            self._process()

    def _process(self) -> None:
        with self.times.part(""):
            useful = self.pending()
        pending = self.readings.order.arranged(useful, {n for n in useful if self.slots.of(self.key(n)) is not None})
        for number in pending[:1]:
            self._load(number)
        with self.times.part(""):
            self.apart()
        for at, number in enumerate(pending):
            if at + 1 < len(pending):
                self._load(pending[at + 1])
            self.queue.enter(number)
            self.queue.take()
            with self.times.part(""):
                self._push(number)
            self._leave(number, 1)
            self._again()
        while len(self.queue):
            self._again(last=True)

    def _push(self, number: int) -> None:
        """Process a subgraph for the first time; one of low value until its rows are still, or for all its rounds."""
        slot, high = self._loaded[number]
        self.push(number, slot, again=False)
        for _ in range(0 if high else self.low_rounds - 1):
            if self.still(number):
                return
            self.traffic.subgraphs["again"] += 1
            self.push(number, slot, again=True)

    def _load(self, number: int) -> None:
        """Begin to read a subgraph. If no slot is free, replace the subgraph that was processed most often."""
        if not self.free:
            evicted = self.queue.evict()
            assert evicted is not None, "two slots are not in the queue"
            self._release(evicted)
        held = self.slots.of(self.key(number))
        slot = self.slots.choose(self.free) if held is None else held
        self.free.remove(slot)
        with self.times.part(""):
            self._loaded[number] = slot, self.fetch(number, slot)

    def _release(self, number: int) -> None:
        """Free the slot of a subgraph."""
        slot, _ = self._loaded.pop(number)
        self.released(number, slot)
        self.free.add(slot)

    def _leave(self, number: int, level: int) -> None:
        """Move a subgraph that was processed at a level to the next one, or out of memory."""
        if not (self._loaded[number][1] and self.queue.drop(number, level)):
            self._release(number)

    def _again(self, *, last: bool = False) -> None:
        """Process a subgraph of the queue again if it has active vertices. ``last``: no other subgraph will be read."""
        found = self.queue.take()
        if found is None:
            return
        number, level = found
        with self.times.part(""):
            active = self.active(number)
        if active:
            self.traffic.subgraphs["again"] += 1
            with self.times.part(""):
                self.push(number, self._loaded[number][0], again=True)
            self._leave(number, level)
        elif last:
            self._release(number)
        else:
            self.queue.wait(number, level)
