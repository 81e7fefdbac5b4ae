"""Select a CUDA device; query its memory and the resources of its kernels."""

from __future__ import annotations

import gc
from typing import Any

from harness.device.driver import cuda_unavailable, describe, newest_cuda
from harness.device.errors import DeviceUnavailable


def open_device(index: int) -> Any:
    """Make device ``index`` the current one and return its CuPy object. Raises DeviceUnavailable with the cause."""
    _require_device(index)
    import cupy

    device = cupy.cuda.Device(index)
    device.use()
    _OPENED.add(index)
    return device


def architecture(index: int) -> str:
    """Return the architecture to compile for, such as sm_90; no context is created. Raises DeviceUnavailable."""
    _require_device(index)
    return "sm_" + describe(index).compute_capability.replace(".", "")


def _require_device(index: int) -> None:
    """Raise DeviceUnavailable unless device ``index`` exists and its driver fits CuPy."""
    reason = cuda_unavailable(index)
    if reason:
        raise DeviceUnavailable(reason)
    import cupy

    made_for, known = cupy.cuda.runtime.runtimeGetVersion() // 1000, newest_cuda() // 1000
    if known < made_for:
        raise DeviceUnavailable(
            f"the NVIDIA driver is for CUDA {known}, and the CuPy installed for CUDA {made_for}; update the driver, or "
            f"install CuPy for CUDA {known}"
        )


_OPENED: set[int] = set()


def was_opened(index: int) -> bool:
    """Return whether this process has made device ``index`` the current one, and thus initialized the driver on it."""
    return index in _OPENED


def allow_shared_memory(function: Any, size: int) -> None:
    """Allow a kernel ``size`` bytes of dynamic shared memory per block.

    Without this call, the static and dynamic shared memory of a block are limited to 48 KiB together.
    """
    from cupy_backends.cuda.api import driver

    driver.funcSetAttribute(function.ptr, driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, size)


def registers_of(function: Any) -> int:
    """Return the registers per thread of a loaded kernel."""
    from cupy_backends.cuda.api import driver

    return int(driver.funcGetAttribute(driver.CU_FUNC_ATTRIBUTE_NUM_REGS, function.ptr))


def blocks_of_multiprocessor(function: Any, threads: int, shared: int = 0) -> int:
    """Return the number of resident blocks of a loaded kernel per multiprocessor.

    A block has ``threads`` threads and ``shared`` bytes of dynamic shared memory.
    """
    from cupy_backends.cuda.api import driver

    return int(driver.occupancyMaxActiveBlocksPerMultiprocessor(function.ptr, threads, shared))


def free_memory() -> None:
    """Return the unused blocks of CuPy's pool on the current device to the driver."""
    import cupy

    cupy.get_default_memory_pool().free_all_blocks()


def require_memory(needed: int) -> None:
    """Raise MemoryError if ``needed`` bytes exceed what the current device has free or the limit of CuPy's pool allows.

    Allocates nothing.
    """
    import cupy

    pool = cupy.get_default_memory_pool()
    total = cupy.cuda.runtime.memGetInfo()[1]

    def free() -> int:
        unused = int(cupy.cuda.runtime.memGetInfo()[0] + pool.free_bytes())
        limit = int(pool.get_limit())  # 0: none
        return min(unused, limit - int(pool.used_bytes())) if limit else unused

    if needed > free():
        gc.collect()  # frees arrays in reference cycles
    left = free()
    if needed > left:
        limited = f", and {pool.get_limit() / 2**30:.2f} GiB as its limit" if pool.get_limit() else ""
        raise MemoryError(
            f"the run needs {needed / 2**30:.2f} GiB on the device, which has {left / 2**30:.2f} of "
            f"{total / 2**30:.2f} GiB left{limited}; take fewer features or a smaller graph"
        )
