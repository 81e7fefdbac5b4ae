"""Limit the CUDA memory that a process holds in CuPy's pool, and record its peak.

Every engine that allocates through CuPy uses this pool. Allocations of other libraries are not counted (PyTorch has its
own pool).
"""

from __future__ import annotations

import importlib.util
from types import TracebackType
from typing import Any

from harness.device.cuda import open_device


class Pool:
    """A context that limits CuPy's pool on a device to ``limit`` bytes (None: no limit) and records its peak.

    Without CuPy it does nothing. An allocation beyond the limit raises CuPy's OutOfMemoryError, a MemoryError. Entering
    raises DeviceUnavailable.
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
        """Peak size of the pool so far, in bytes; None if nothing was allocated from it."""
        return None if self._watch is None else int(self._watch.peak) or None


def _watch() -> Any:
    """Create a hook that CuPy calls after each allocation from its pool."""
    import cupy

    class Watch(cupy.cuda.MemoryHook):  # type: ignore[misc]  # no type information is published
        name = "onyx_harness_peak"

        def __init__(self) -> None:
            self.pool, self.peak = cupy.get_default_memory_pool(), 0

        def alloc_postprocess(self, **_: Any) -> None:
            self.peak = max(self.peak, self.pool.total_bytes())

    return Watch()
