"""What a process holds of a CUDA device's memory in CuPy's pool: limited, and the most of it told.

Every engine that takes its memory through CuPy takes it from this pool. What other libraries hold (PyTorch has a pool
of its own) is not seen here.
"""

from __future__ import annotations

import importlib.util
from types import TracebackType
from typing import Any

from harness.device.cuda import open_device


class Pool:
    """Within ``with``, CuPy's pool on a device may hold ``limit`` bytes (None: all that there are), and what it holds
    is watched. Without CuPy there is nothing to watch.

    What is taken beyond the limit raises CuPy's OutOfMemoryError, a MemoryError. Raises DeviceUnavailable.
    """

    def __init__(self, index: int, limit: int | None) -> None:
        self.index, self.limit = index, limit
        self._watch: Any = None if importlib.util.find_spec("cupy") is None else _watch()

    def __enter__(self) -> Pool:
        if self._watch is not None:
            with open_device(self.index):
                self._watch.pool.set_limit(size=self.limit or 0)
            self._watch.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._watch is not None:
            self._watch.__exit__(kind, error, trace)

    @property
    def peak(self) -> int | None:
        """The most bytes that the pool held so far; None where nothing was taken from it."""
        return None if self._watch is None else int(self._watch.peak) or None


def _watch() -> Any:
    """A hook that CuPy calls whenever its pool has taken memory of the device."""
    import cupy

    class Watch(cupy.cuda.MemoryHook):  # type: ignore[misc]  # no type information is published
        name = "onyx_harness_peak"

        def __init__(self) -> None:
            self.pool, self.peak = cupy.get_default_memory_pool(), 0

        def alloc_postprocess(self, **_: Any) -> None:
            self.peak = max(self.peak, self.pool.total_bytes())

    return Watch()
