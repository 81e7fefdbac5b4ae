"""Times of work on a stream of a CUDA device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def fastest_on(stream: Any, work: Callable[[], object], samples: int) -> float:
    """Return the seconds of the fastest of some samples of work that is queued on the stream, after one that warms
    up."""
    import cupy

    began, ended = cupy.cuda.Event(), cupy.cuda.Event()
    seconds = []
    for _ in range(1 + samples):
        began.record(stream)
        work()
        ended.record(stream)
        ended.synchronize()
        seconds.append(float(cupy.cuda.get_elapsed_time(began, ended)) / 1000)
    return min(seconds[1:])
