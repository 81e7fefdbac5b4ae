"""What the CUDA driver says of the devices there are, whatever library an engine uses on them."""

from __future__ import annotations

import ctypes

LIBRARY = "libcuda.so.1"


class NoDevice(Exception):
    """There is no CUDA device; the message says why."""


def used_bytes(index: int = 0) -> int:
    """Memory of a device that is taken, by any process. Raises NoDevice."""
    driver = _driver()
    device, context = ctypes.c_int(), ctypes.c_void_p()
    free, whole = ctypes.c_size_t(), ctypes.c_size_t()
    _check(driver, "cuDeviceGet", ctypes.byref(device), index)
    _check(driver, "cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    try:
        _check(driver, "cuCtxPushCurrent_v2", context)
        _check(driver, "cuCtxSynchronize")
        _check(driver, "cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(whole))
        _check(driver, "cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))
    finally:
        _check(driver, "cuDevicePrimaryCtxRelease_v2", device)
    return whole.value - free.value


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
