"""Page-locked host memory that kernels of the current device read in place, over the host link (zero copy)."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import mmap
import weakref
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.contract import EngineFailure

PIECE = 64 << 30  # bytes registered at once: drivers refuse single registrations of several hundred GiB
PORTABLE, MAPPED = 1, 2  # flags of cudaHostRegister
SAME_POINTER = 91  # cudaDevAttrCanUseHostPointerForRegisteredMem


class PinnedMemory:
    """Zeroed, page-aligned host memory, registered with the current device.

    It is unregistered and freed when the last reference to it is dropped. ``pointer``: its address, on the host and on
    the device. Raises MemoryError if the host cannot provide or lock the pages; nothing stays registered then.
    """

    def __init__(self, nbytes: int) -> None:
        import cupy

        runtime = cupy.cuda.runtime
        size = max(1, nbytes)
        try:
            pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except OSError as error:
            raise MemoryError(f"the host has no {size:,} bytes for edge arrays: {error}") from error
        pages.madvise(mmap.MADV_DONTFORK)  # after a fork, a write would move this process to a copy of the page
        with contextlib.suppress(OSError):  # a kernel without huge pages
            pages.madvise(mmap.MADV_HUGEPAGE)
        self.nbytes = nbytes
        self.host: NDArray[np.uint8] = np.frombuffer(pages, np.uint8)
        self.pointer = int(self.host.ctypes.data)
        registered: list[int] = []
        # `host` is an argument so that the pages are mapped until they are unregistered.
        weakref.finalize(self, _unregister, runtime, registered, self.host).atexit = False
        _register(runtime, self.pointer, size, registered)


def _register(runtime: Any, pointer: int, size: int, registered: list[int]) -> None:
    """Register memory in pieces, and note each in ``registered``. Raises MemoryError after undoing what was done."""
    try:
        for first in range(0, size, PIECE):
            runtime.hostRegister(pointer + first, min(PIECE, size - first), PORTABLE | MAPPED)
            registered.append(pointer + first)
    except runtime.CUDARuntimeError as error:
        _unregister(runtime, registered)
        raise MemoryError(f"the driver cannot lock {size:,} bytes of host memory for edge arrays: {error}") from error


def _unregister(runtime: Any, registered: list[int], host: object = None) -> None:
    while registered:
        runtime.hostUnregister(registered.pop())


def pinned_array(length: int, dtype: type[np.generic]) -> Any:
    """Return a zeroed array in pinned memory: a CuPy array whose ``set`` and ``get`` copy within the host.

    It owns its memory. Raises MemoryError, and EngineFailure if the device cannot read host memory in place.
    """
    import cupy

    device = cupy.cuda.runtime.getDevice()
    if not cupy.cuda.runtime.deviceGetAttribute(SAME_POINTER, device):
        raise EngineFailure(f"CUDA device {device} cannot read host memory in place; run with edges=resident")
    memory = PinnedMemory(length * np.dtype(dtype).itemsize)
    unowned = cupy.cuda.UnownedMemory(memory.pointer, max(1, memory.nbytes), memory, device)
    return pinned_type(cupy.ndarray)(length, dtype, cupy.cuda.MemoryPointer(unowned, 0))


@functools.cache
def pinned_type(base: Any) -> Any:
    """Return the subclass of CuPy's array, or of the emulated one, for pinned memory."""

    class PinnedArray(base):  # type: ignore[misc]  # no type information is published
        def set(self, values: NDArray[Any]) -> None:
            """Copy values into the array; only for contiguous one-dimensional arrays and slices."""
            on_host(self)[...] = values

        def get(self) -> NDArray[Any]:
            """Return a copy of the values of a contiguous one-dimensional array or slice."""
            return on_host(self).copy()

    return PinnedArray


def on_host(array: Any) -> NDArray[Any]:
    """Return the memory of an array in pinned memory as an array of the host; the former must live as long."""
    if not array.nbytes:
        return np.empty(array.shape, array.dtype)
    room = (ctypes.c_char * array.nbytes).from_address(array.data.ptr)
    return np.frombuffer(room, array.dtype)
