"""Page-locked host memory that kernels of the current device read in place, over the host link (zero copy)."""

from __future__ import annotations

import ctypes
import functools
import mmap
import weakref
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.contract import EngineFailure
from harness.graph.pages import PrivatePages, array_in_pages, private_pages

RANGE_BYTES = 64 << 30  # bytes registered at once: drivers refuse single registrations of several hundred GiB
PORTABLE, MAPPED = 1, 2  # flags of cudaHostRegister
SAME_POINTER = 91  # cudaDevAttrCanUseHostPointerForRegisteredMem


class PinnedMemory:
    """Page-aligned host memory, zeroed if it is new, registered with the current device.

    It is unregistered and freed when the last reference to it is dropped. ``pointer``: its address, on the host and on
    the device. Raises MemoryError if the host cannot provide or lock the pages; nothing stays registered then.
    """

    def __init__(self, nbytes: int, pages: PrivatePages | None = None) -> None:
        """Register new memory, or ``pages`` of ``nbytes`` bytes, which keep their values."""
        import cupy

        runtime = cupy.cuda.runtime
        size = max(1, nbytes)
        if pages is None:
            whole = array_in_pages(size, np.uint8)
            pages = private_pages(whole)
            assert pages is not None
        pages.madvise(mmap.MADV_DONTFORK)  # after a fork, a write would move this process to a copy of the page
        self.nbytes = nbytes
        self.host: NDArray[np.uint8] = np.frombuffer(pages, np.uint8)
        self.pointer = int(self.host.ctypes.data)
        registered: list[int] = []
        # `pages` is an argument so that they are mapped until they are unregistered.
        weakref.finalize(self, _released, runtime, registered, pages).atexit = False
        _register(runtime, self.pointer, size, registered)


def _register(runtime: Any, pointer: int, size: int, registered: list[int]) -> None:
    """Register memory range by range, and note each in ``registered``. Raises MemoryError after undoing all."""
    try:
        for first in range(0, size, RANGE_BYTES):
            runtime.hostRegister(pointer + first, min(RANGE_BYTES, size - first), PORTABLE | MAPPED)
            registered.append(pointer + first)
    except runtime.CUDARuntimeError as error:
        _unregister(runtime, registered)
        raise MemoryError(f"the driver cannot lock {size:,} bytes of host memory for edge arrays: {error}") from error


def _unregister(runtime: Any, registered: list[int]) -> None:
    while registered:
        runtime.hostUnregister(registered.pop())


def _released(runtime: Any, registered: list[int], pages: PrivatePages) -> None:
    _unregister(runtime, registered)
    pages.madvise(mmap.MADV_DOFORK)  # others may still use them


def pinned_array(length: int, dtype: type[np.generic]) -> Any:
    """Return a zeroed array in pinned memory: a CuPy array whose ``set`` and ``get`` copy within the host.

    It owns its memory. Raises MemoryError, and EngineFailure if the device cannot read host memory in place.
    """
    device = _device()
    return _in_place(PinnedMemory(length * np.dtype(dtype).itemsize), device, length, dtype)


def pinned_values(values: NDArray[Any]) -> Any:
    """Return one-dimensional values in pinned memory, as a CuPy array that kernels may only read.

    Values that fill private pages (:mod:`harness.graph.pages`) are not copied: these pages are registered, and stay so
    until the last such array is released. Raises MemoryError, and EngineFailure as :func:`pinned_array` does.
    """
    device, pages = _device(), private_pages(values)
    if pages is None:
        array = pinned_array(values.size, values.dtype.type)
        array.set(values)
        return array
    known = _REGISTERED.get((id(pages), device))
    memory = known if known is not None else PinnedMemory(values.nbytes, pages)
    _REGISTERED[id(pages), device] = memory  # it refers to the pages, so that no others have their id meanwhile
    return _in_place(memory, device, values.size, values.dtype.type)


_REGISTERED: weakref.WeakValueDictionary[tuple[int, int], PinnedMemory] = weakref.WeakValueDictionary()


def _device() -> int:
    """Return the current device. Raises EngineFailure if it cannot read host memory in place."""
    import cupy

    device = int(cupy.cuda.runtime.getDevice())
    if not cupy.cuda.runtime.deviceGetAttribute(SAME_POINTER, device):
        raise EngineFailure(f"CUDA device {device} cannot read host memory in place; run with edges=resident")
    return device


def _in_place(memory: PinnedMemory, device: int, length: int, dtype: type[np.generic]) -> Any:
    """Return the array of some pinned memory, which it keeps."""
    import cupy

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
    memory = (ctypes.c_char * array.nbytes).from_address(array.data.ptr)
    return np.frombuffer(memory, array.dtype)
