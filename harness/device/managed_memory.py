"""Managed memory: pages that the driver moves between the host and the current device when either accesses them."""

from __future__ import annotations

import functools
import weakref
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.device.driver import prefer_host, prefetch_to_host
from harness.device.host_memory import pinned_type

BLOCK = 1 << 21  # bytes of the pages that the driver manages together


class ManagedMemory:
    """Managed memory with undetermined values; it is freed when the last reference to it is dropped.

    ``advice``: *read_mostly* (every processor may have a copy of a page), *accessed_by* (the device maps the pages, and
    they stay where they are), *prefetch* (:meth:`fetch` moves all of them to the device), *none*.

    Raises MemoryError for more bytes than the current device has free: more managed memory than that would be evicted
    and fetched in turns, which can stop a device.
    """

    def __init__(self, nbytes: int, advice: str) -> None:
        import cupy

        runtime, size = cupy.cuda.runtime, max(1, nbytes)
        free = int(runtime.memGetInfo()[0])
        if size > free:
            raise MemoryError(f"{size:,} bytes of managed memory for edge arrays, and the device has {free:,} free")
        self.nbytes, self.advice, self.device = nbytes, advice, int(runtime.getDevice())
        self.pointer = int(runtime.mallocManaged(size))
        weakref.finalize(self, runtime.free, self.pointer).atexit = False

    def keep(self, share: float = 0.0) -> None:
        """Move all pages behind a share of the bytes to the host, and wait until they are there. Raises DriverError.

        With the advice *read_mostly*, a prefetch to the host would only make one more copy of a page, and the device
        would keep its own. Taking the advice back leaves one copy, which is that at the preferred location if there is
        one (CUDA Runtime API, cudaMemAdvise): the host is made that for the moment, so that nothing is copied. The
        advice is then given again.
        """
        import cupy

        runtime, first = cupy.cuda.runtime, -(-round(share * self.nbytes) // BLOCK) * BLOCK
        pages = (self.pointer + first, self.nbytes - first)
        if first >= self.nbytes:
            return
        if self.advice != "read_mostly":
            prefetch_to_host(*pages, self.device)
            return
        prefer_host(*pages, self.device)
        runtime.memAdvise(*pages, runtime.cudaMemAdviseUnsetReadMostly, self.device)
        prefetch_to_host(*pages, self.device)
        runtime.memAdvise(*pages, runtime.cudaMemAdviseUnsetPreferredLocation, self.device)
        _advise(*pages, self.advice)

    def fetch(self, stream: int) -> None:
        """Queue the move of all pages to the device on a stream, if that is the advice."""
        import cupy

        if self.nbytes and self.advice == "prefetch":
            cupy.cuda.runtime.memPrefetchAsync(self.pointer, self.nbytes, self.device, stream)


def managed_array(memory: ManagedMemory, length: int, dtype: type[np.generic]) -> Any:
    """Return an array in managed memory: a CuPy array whose ``set`` writes on the host, and then gives the advice."""
    import cupy

    unowned = cupy.cuda.UnownedMemory(memory.pointer, max(1, memory.nbytes), memory, memory.device)
    return _managed(cupy.ndarray, memory.advice)(length, dtype, cupy.cuda.MemoryPointer(unowned, 0))


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
