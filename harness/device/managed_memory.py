"""Managed memory: pages that the driver moves between the host and the current device when either accesses them."""

from __future__ import annotations

import functools
import weakref
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.device.host_memory import pinned_type

CURRENT_STREAM = 0


class ManagedMemory:
    """Managed memory with undetermined values; it is freed when the last reference to it is dropped.

    Raises MemoryError for more bytes than the current device has free: more managed memory than that would be evicted
    and fetched in turns, which can stop a device.
    """

    def __init__(self, nbytes: int) -> None:
        import cupy

        runtime, size = cupy.cuda.runtime, max(1, nbytes)
        free = int(runtime.memGetInfo()[0])
        if size > free:
            raise MemoryError(f"{size:,} bytes of managed memory for edge arrays, and the device has {free:,} free")
        self.nbytes, self.pointer = nbytes, int(runtime.mallocManaged(size))
        weakref.finalize(self, runtime.free, self.pointer).atexit = False


def managed_array(length: int, dtype: type[np.generic], advice: str) -> Any:
    """Return an array in managed memory: a CuPy array whose ``set`` writes on the host, and then gives the advice.

    ``advice``: for the pages that are written: *read_mostly* (every processor may have a copy), *accessed_by* (the
    device maps them, and they stay where they are), *prefetch* (they are moved to the device at once), *none*.

    Raises MemoryError.
    """
    import cupy

    device, memory = cupy.cuda.runtime.getDevice(), ManagedMemory(length * np.dtype(dtype).itemsize)
    unowned = cupy.cuda.UnownedMemory(memory.pointer, max(1, memory.nbytes), memory, device)
    return _managed(cupy.ndarray, advice)(length, dtype, cupy.cuda.MemoryPointer(unowned, 0))


@functools.cache
def _managed(base: Any, advice: str) -> Any:
    """Return the subclass of CuPy's array, or of the emulated one, for managed memory with some advice."""

    class ManagedArray(pinned_type(base)):  # type: ignore[misc]  # no type information is published
        def set(self, values: NDArray[Any]) -> None:
            """Write values on the host, and give the advice; only for contiguous one-dimensional arrays and slices."""
            super().set(values)
            if self.nbytes:
                _advise(self.data.ptr, self.nbytes, advice)

    return ManagedArray


def _advise(pointer: int, nbytes: int, advice: str) -> None:
    import cupy

    runtime = cupy.cuda.runtime
    device = runtime.getDevice()
    if advice == "read_mostly":
        runtime.memAdvise(pointer, nbytes, runtime.cudaMemAdviseSetReadMostly, device)
    elif advice == "accessed_by":
        runtime.memAdvise(pointer, nbytes, runtime.cudaMemAdviseSetAccessedBy, device)
    elif advice == "prefetch":
        runtime.memPrefetchAsync(pointer, nbytes, device, CURRENT_STREAM)
