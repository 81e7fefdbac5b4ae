"""Streams for kernels that read windows of edges: those of one window run at the same time as those of others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.lowering.cuda.calls import Call


class SlotStreams:
    """The streams of each of ``count`` slots: one for kernels of whole windows, one for those of listed vertices.

    Kernels of different windows write different vertices, or write them by atomic operations. The longest row of a
    window decides how long its kernels take, and most of the device is idle then; the kernels of the next windows use
    it. Likewise, a kernel of a few listed vertices with long rows runs beside that of the others. Streams are made when
    they are needed: a device has few hardware queues, and streams that share one wait for each other.
    """

    def __init__(self, count: int) -> None:
        import cupy

        self._count = count
        self._streams: dict[tuple[int, int], Any] = {}  # by slots and numbers
        self._ended = [cupy.cuda.Event(disable_timing=True) for _ in range(count)]
        self._begun = cupy.cuda.Event(disable_timing=True)
        self._waiting: set[tuple[int, int]] = set()  # the slots and numbers of streams that do not wait for it yet

    @contextmanager
    def forked(self) -> Iterator[None]:
        """Let the streams wait for the work queued so far on the current one before they are used."""
        import cupy

        self._begun.record(cupy.cuda.get_current_stream())
        self._waiting = {(slot, number) for slot in range(self._count) for number in range(2)}
        yield
        self._waiting = set()

    def of(self, slot: int) -> Any:
        """Return the stream for kernels that read the window in a slot; they are queued in a ``with`` statement."""
        return self._begin(slot, 0)

    def beside(self, slot: int, ready: Any, calls: Sequence[Call]) -> list[Any]:
        """Queue calls that run beside those of the slot's stream, after the event ``ready``.

        Return the events that occur after them: one, or none without calls.
        """
        if not calls:
            return []
        stream = self._begin(slot, 1)
        stream.wait_event(ready)
        with stream:
            for call in calls:
                call.start()
        self._ended[slot].record(stream)
        return [self._ended[slot]]

    def _begin(self, slot: int, number: int) -> Any:
        import cupy

        if (slot, number) not in self._streams:
            self._streams[slot, number] = cupy.cuda.Stream(non_blocking=True, priority=-number)  # long rows first
        stream = self._streams[slot, number]
        if (slot, number) in self._waiting:
            self._waiting.discard((slot, number))
            stream.wait_event(self._begun)
        return stream
