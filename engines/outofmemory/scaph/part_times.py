"""Seconds of the parts of a run that Scaph adds to processing: values, queue, flags, packing."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class PartTimes:
    """Count the seconds of each part. Time within an inner part does not count for the outer part."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()
        self._parts: list[str] = []
        self._since = 0.0

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Count the time of the block for the part ``name``; for no part if it is empty."""
        self._switch()
        self._parts.append(name)
        try:
            yield
        finally:
            self._switch()
            self._parts.pop()

    def _switch(self) -> None:
        """Count the time since the last switch."""
        now = time.perf_counter()
        if self._parts and self._parts[-1]:
            self.seconds[self._parts[-1]] += now - self._since
        self._since = now


class DeviceTime:
    """Measure work on the current stream of a CUDA device, without the work that was queued before it."""

    def __init__(self, times: PartTimes, name: str) -> None:
        import cupy

        self.times, self.name = times, name
        self._events: tuple[Any, Any] = (cupy.cuda.Event(), cupy.cuda.Event())

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Wait for the work of the block, and count its time on the device for the part.

        The time of the host counts for no part.
        """
        import cupy

        begin, end = self._events
        with self.times.part(""):
            begin.record()
            yield
            end.record()
            end.synchronize()
        self.times.seconds[self.name] += float(cupy.cuda.get_elapsed_time(begin, end)) / 1000
