"""The use of a device by a cell: exclusive for timed runs, and on a GPU shared with other cells for everything else.

    memory    parts of a GPU's memory, from the creation of a context there to the end of the engine
    shared    calls of an engine while other cells may use the device: uploads, checks, downloads
    alone     timed runs, and what an engine times itself: no other cell uses the device, not even for copies

Cells of a sweep thus overlap in everything that is not timed. A cell shares the device from the creation of its context
to the end of the engine, and leaves the shared use for timed runs. If it shared the device for each call of the engine
instead, it would wait for the timed runs of others about twenty times. The processor has no shared use: engines are
prepared and closed there without a lock, and cells take turns for the rest.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Protocol

from harness.campaign.cell import Cell
from harness.campaign.child_report import ChildReport
from harness.campaign.lock import device_holder, device_lock, device_lock_path, file_lock, rest
from harness.contract import Device, Phases
from harness.device.cuda import was_opened

MEMORY_PARTS = 16  # equal parts of a GPU's memory, and the most engines there
# Beyond what an engine reports: allocators round sizes up, a CUDA context with its libraries takes 0.5 to 0.8 GB, and
# workspaces of the ways that an engine tries: beside its context, cuSPARSE held up to 2.56 times the bytes that it
# reported (label propagation with k = 4 on an R-MAT graph of 91 M edges, H100).
_ROUNDING, _TRYING, _CONTEXT_BYTES = 1.1, 3.0, 1 << 30
_RETRY_S = 0.005  # between two attempts to find a free part of the memory; one process at a time makes them


class Use(Protocol):
    """How calls of an engine use a device."""

    def shared(self) -> AbstractContextManager[None]:
        """Use the device for a call that is not timed."""

    def alone(self) -> AbstractContextManager[None]:
        """Use the device for timed runs."""

    def away(self) -> AbstractContextManager[None]:
        """Leave a shared use, for long work on the processor."""


class Unlocked:
    """The use of a device that no other cell has: without locks."""

    def shared(self) -> AbstractContextManager[None]:
        """Lock nothing."""
        return nullcontext()

    def alone(self) -> AbstractContextManager[None]:
        """Lock nothing."""
        return nullcontext()

    def away(self) -> AbstractContextManager[None]:
        """Lock nothing."""
        return nullcontext()


class DeviceUse:
    """The use of a cell's device, with the locks that all cells of a user share; waits are a phase and are reported.

    ``overlaps``: whether other cells may use the device between timed runs.
    """

    def __init__(self, cell: Cell, report: ChildReport, phases: Phases) -> None:
        self._cell, self._report, self._phases = cell, report, phases
        self._lock: ExitStack | None = None
        self._alone = False
        self.overlaps = cell.device.kind == "cuda"

    @contextmanager
    def reserved_memory(self, bytes_needed: int | None, *, tunes: bool = False) -> Iterator[bool]:
        """Reserve memory of a GPU (None: all of it); yield whether no other cell has any. Does nothing on a CPU.

        ``tunes``: the engine tries several ways (:class:`harness.contract.Engine`). Locks of a device are taken within,
        never around it.
        """
        if not self.overlaps:
            yield True
            return
        share = _TRYING if tunes else _ROUNDING
        wanted = MEMORY_PARTS if bytes_needed is None else memory_parts_for(share * bytes_needed, self._cell.device)
        with ExitStack() as held:
            with self._waiting():
                take_memory_parts(self._cell.device, wanted, held)
            yield wanted == MEMORY_PARTS

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Use a GPU beside other cells. Does nothing within another use, and on a CPU."""
        if self._lock is not None or not self.overlaps:
            yield
            return
        with self._holding(shared=True):
            yield

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Use the device while no other cell does; a shared use is left for that time. Nothing within the same use."""
        if self._alone:
            yield
            return
        with self.away(), self._holding(shared=False):
            yield

    @contextmanager
    def away(self) -> Iterator[None]:
        """Leave a shared use until the end of the block. Does nothing without one, and within a use alone."""
        if self._lock is None or self._alone:
            yield
            return
        self._leave()
        try:
            yield
        finally:
            self._enter(shared=True)

    @contextmanager
    def _holding(self, *, shared: bool) -> Iterator[None]:
        self._enter(shared=shared)
        try:
            yield
        finally:
            self._leave()

    def _enter(self, *, shared: bool) -> None:
        """Take the lock of the device."""
        cell = self._cell
        with ExitStack() as held, self._waiting():
            held.enter_context(device_lock(cell.device, cell.title, cell.limits.time_s, shared=shared))
            self._lock, self._alone = held.pop_all(), not shared

    def _leave(self) -> None:
        """Release the lock of the device."""
        if self._lock is None:  # it could not be taken again
            return
        if self.overlaps and was_opened(self._cell.device.index):
            rest(self._cell.device)  # before another cell has the device
        lock, self._lock, self._alone = self._lock, None, False
        lock.close()

    @contextmanager
    def _waiting(self) -> Iterator[None]:
        """Report a wait for the device, and record its time."""
        self._report.waits(device_holder(self._cell.device))
        with self._phases("wait"):
            yield
        self._report.waited(self._phases.seconds["wait"])


def memory_parts_for(size: float, device: Device) -> int:
    """Return the number of parts of a GPU's memory for this many bytes and a context, at most all."""
    from harness.device.driver import describe

    whole = describe(device.index).memory
    return min(MEMORY_PARTS, -(-int(size + _CONTEXT_BYTES) * MEMORY_PARTS // whole))


def take_memory_parts(device: Device, wanted: int, held: ExitStack) -> None:
    """Lock ``wanted`` parts of a GPU's memory. Requests are served in order: small ones do not delay a large one."""
    path = device_lock_path(device)
    free = [path.with_suffix(f".part{number}") for number in range(MEMORY_PARTS)]
    with file_lock(path.with_suffix(".parts")):
        while True:
            for part in tuple(free):
                try:
                    held.enter_context(file_lock(part, wait=False))
                except BlockingIOError:
                    continue
                free.remove(part)
                if MEMORY_PARTS - len(free) == wanted:
                    return
            time.sleep(_RETRY_S)
