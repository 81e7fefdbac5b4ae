"""Direct calls of the CUDA driver: list devices, synchronize, query memory. Needs no other library.

The driver shows the devices of CUDA_VISIBLE_DEVICES, numbered from 0 in that order. Only a cell's own process calls it:
a process that has initialized the driver must not be forked.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import threading
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

from harness.contract import EngineFailure

_SUCCESS, _NO_DEVICE, _OLD_DRIVER = 0, 100, (35, 803)
_MAJOR, _MINOR = 75, 76  # attributes of a device: its compute capability
_HOST, _HOST_OF_OLD_DRIVERS = 2, -1  # places of pages: CU_MEM_LOCATION_TYPE_HOST, CU_DEVICE_CPU
_SET_PREFERRED_LOCATION = 3  # CU_MEM_ADVISE_SET_PREFERRED_LOCATION


class DriverError(EngineFailure):
    """A driver call failed, or an earlier kernel had failed; the message quotes the driver."""


@dataclass(frozen=True)
class CudaDevice:
    """A device as the driver describes it; ``memory`` in bytes."""

    index: int
    name: str
    uuid: str
    memory: int
    compute_capability: str


def cuda_unavailable(index: int) -> str:
    """Return why CUDA device ``index`` is unavailable, as a sentence; empty if it is available."""
    library = _library()
    if library is None:
        return "no CUDA device: this machine has no NVIDIA driver; run on one that has, or with device=cpu"
    status = library.cuInit(0)
    if status in _OLD_DRIVER:
        return "no CUDA device: the NVIDIA driver is too old for its own library; update it"
    if status not in (_SUCCESS, _NO_DEVICE):
        return f"no CUDA device: the NVIDIA driver says {_words(library, status)}"
    count = _count(library) if status == _SUCCESS else 0
    if count == 0:
        return "no CUDA device: the NVIDIA driver shows none; see nvidia-smi and CUDA_VISIBLE_DEVICES"
    if index >= count:
        return f"no CUDA device {index}: the NVIDIA driver shows {count}; set device.index to one of 0..{count - 1}"
    return ""


def start_driver() -> bool:
    """Begin to initialise the driver in a thread; return whether there is a driver.

    That takes 0.15 s, in which this process can do other work. Functions that need the driver wait for its end.
    """
    library = _library()
    if library is None:
        return False
    threading.Thread(target=library.cuInit, args=(0,), daemon=True).start()
    return True


def describe(index: int) -> CudaDevice:
    """Describe device ``index``. Raises DriverError if it does not exist."""
    reason = cuda_unavailable(index)
    if reason:
        raise DriverError(reason)
    library = _library()
    name, identity = ctypes.create_string_buffer(256), (ctypes.c_ubyte * 16)()
    memory, major, minor = ctypes.c_size_t(), ctypes.c_int(), ctypes.c_int()
    _ask("cuDeviceGetName", name, 256, index)
    _ask("cuDeviceGetUuid_v2" if hasattr(library, "cuDeviceGetUuid_v2") else "cuDeviceGetUuid", identity, index)
    _ask("cuDeviceTotalMem_v2", ctypes.byref(memory), index)
    _ask("cuDeviceGetAttribute", ctypes.byref(major), _MAJOR, index)
    _ask("cuDeviceGetAttribute", ctypes.byref(minor), _MINOR, index)
    identifier = f"GPU-{uuid.UUID(bytes=bytes(identity))}"
    return CudaDevice(index, name.value.decode(), identifier, memory.value, f"{major.value}.{minor.value}")


def newest_cuda() -> int:
    """Return the newest CUDA version that the driver supports: 13010 is 13.1. Raises DriverError."""
    version = ctypes.c_int()
    _ask("cuDriverGetVersion", ctypes.byref(version))
    return version.value


def synchronize(index: int) -> None:
    """Wait for all work that this process has submitted to the device, through any library.

    Raises DriverError if any of that work failed.
    """
    with _entered(index):
        _ask("cuCtxSynchronize")


def used_bytes(index: int) -> int:
    """Wait for this process's work, then return the bytes used on the device by all processes. Raises DriverError."""
    free, whole = ctypes.c_size_t(), ctypes.c_size_t()
    with _entered(index):
        _ask("cuCtxSynchronize")
        _ask("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(whole))
    return whole.value - free.value


class _Location(ctypes.Structure):
    """CUmemLocation: a kind of place, and the number of one of its kind."""

    _fields_ = (("type", ctypes.c_int), ("id", ctypes.c_int))


def prefetch_to_host(pointer: int, nbytes: int, index: int) -> None:
    """Move pages of managed memory to the host after all work on the device, and wait until they are there.

    CuPy 14 can name only devices as the destination. Raises DriverError.
    """
    pages, flags, stream = _pages(pointer, nbytes), ctypes.c_uint(0), ctypes.c_void_p()
    with _entered(index):
        _ask("cuCtxSynchronize")
        if hasattr(_library(), "cuMemPrefetchAsync_v2"):  # since CUDA 12.2
            _ask("cuMemPrefetchAsync_v2", *pages, _Location(_HOST, 0), flags, stream)
        else:
            _ask("cuMemPrefetchAsync", *pages, ctypes.c_int(_HOST_OF_OLD_DRIVERS), stream)
        _ask("cuCtxSynchronize")


def prefer_host(pointer: int, nbytes: int, index: int) -> None:
    """Make the host the preferred location of pages of managed memory. CuPy 14 can name only devices.

    Raises DriverError.
    """
    pages, advice = _pages(pointer, nbytes), ctypes.c_int(_SET_PREFERRED_LOCATION)
    with _entered(index):
        if hasattr(_library(), "cuMemAdvise_v2"):  # since CUDA 12.2
            _ask("cuMemAdvise_v2", *pages, advice, _Location(_HOST, 0))
        else:
            _ask("cuMemAdvise", *pages, advice, ctypes.c_int(_HOST_OF_OLD_DRIVERS))


def _pages(pointer: int, nbytes: int) -> tuple[ctypes.c_uint64, ctypes.c_size_t]:
    return ctypes.c_uint64(pointer), ctypes.c_size_t(nbytes)


@contextlib.contextmanager
def _entered(index: int) -> Iterator[None]:
    """Make the device's primary context, which libraries share, the current one."""
    _ask("cuCtxPushCurrent_v2", _primary_context(index))
    try:
        yield
    finally:
        _ask("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))


@functools.cache
def _primary_context(index: int) -> ctypes.c_void_p:
    """Retain the device's primary context, which the libraries of a process share, until the process ends."""
    _ask("cuInit", 0)
    context = ctypes.c_void_p()
    _ask("cuDevicePrimaryCtxRetain", ctypes.byref(context), index)
    return context


@functools.cache
def _library() -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None


def _ask(function: str, *arguments: object) -> None:
    library = _library()
    if library is None:
        raise DriverError("this machine has no NVIDIA driver")
    status = getattr(library, function)(*arguments)
    if status != _SUCCESS:
        raise DriverError(f"{function} of the NVIDIA driver failed: {_words(library, status)}")


def _count(library: ctypes.CDLL) -> int:
    count = ctypes.c_int()
    return count.value if library.cuDeviceGetCount(ctypes.byref(count)) == _SUCCESS else 0


def _words(library: ctypes.CDLL, status: int) -> str:
    text = ctypes.c_char_p()
    library.cuGetErrorString(status, ctypes.byref(text))
    return text.value.decode() if text.value else f"error {status}"
