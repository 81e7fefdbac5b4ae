"""What the CUDA driver says of the devices there are, whatever library an engine uses on them."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

LIBRARY = "libcuda.so.1"


class NoDevice(Exception):
    """There is no CUDA device; the message says why."""


def used_bytes(index: int = 0) -> int:
    """Memory of a device that is taken, by any process, once it has done all its work. Raises NoDevice."""
    free, whole = ctypes.c_size_t(), ctypes.c_size_t()
    with _context(index) as driver:
        _check(driver, "cuCtxSynchronize")
        _check(driver, "cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(whole))
    return whole.value - free.value


def synchronize(index: int = 0) -> None:
    """Wait until a device has done all the work of this process, whichever library queued it. Raises NoDevice."""
    with _context(index) as driver:
        _check(driver, "cuCtxSynchronize")


@contextmanager
def _context(index: int) -> Iterator[ctypes.CDLL]:
    """The driver, with the context that libraries share on a device."""
    driver = _driver()
    device, context = ctypes.c_int(), ctypes.c_void_p()
    _check(driver, "cuDeviceGet", ctypes.byref(device), index)
    _check(driver, "cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    try:
        _check(driver, "cuCtxPushCurrent_v2", context)
        try:
            yield driver
        finally:
            _check(driver, "cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))
    finally:
        _check(driver, "cuDevicePrimaryCtxRelease_v2", device)


def require_device(index: int = 0) -> None:
    """Raises NoDevice unless the driver shows the device."""
    driver, count = _driver(), ctypes.c_int()
    _check(driver, "cuDeviceGetCount", ctypes.byref(count))
    if index >= count.value:
        raise NoDevice(f"the driver shows {count.value} CUDA devices; there is none with index {index}")


def _driver() -> ctypes.CDLL:
    try:
        driver = ctypes.CDLL(LIBRARY)
    except OSError as error:
        raise NoDevice(f"there is no NVIDIA driver on this machine ({error})") from error
    _check(driver, "cuInit", 0)
    return driver


def _check(driver: ctypes.CDLL, name: str, *arguments: object) -> None:
    status = getattr(driver, name)(*arguments)
    if status:
        raise NoDevice(f"{name} of the NVIDIA driver failed with error {status}")
