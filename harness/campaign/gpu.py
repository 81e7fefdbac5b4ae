"""The state of a GPU as reported by its driver through NVML (``nvidia-ml-py``, part of the CUDA extras)."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterator
from typing import Any, cast

from harness.records import Mark
from harness.records.schema import Gpu

# Bits of nvmlDeviceGetCurrentClocksEventReasons that reduce the clock, except idling and user-set clocks.
_SLOWED = {
    0x04: "power cap", 0x08: "hardware slowdown", 0x20: "temperature", 0x40: "temperature (hardware)",
    0x80: "power brake",
}  # fmt: skip


@functools.cache  # NVML takes milliseconds to open, and every lock of a GPU has this in its name
def gpu_uuid(index: int) -> str | None:
    """Return the UUID of the GPU with the CUDA number ``index``; None if NVML or the GPU is missing."""
    with opened_gpu(index) as opened:
        return None if opened is None else str(opened[0].nvmlDeviceGetUUID(opened[1]))


def gpu_facts(index: int, resting: int = 0) -> Gpu | None:
    """Return the current state of the GPU; None if NVML or the GPU is missing.

    Values that a device does not report are omitted (some have no power cap). ``resting``: the number of idle processes
    among the others that the driver lists.
    """
    with opened_gpu(index) as opened:
        if opened is None:
            return None
        nvml, gpu = opened
        queries: dict[str, Callable[[], Any]] = {
            "name": lambda: str(nvml.nvmlDeviceGetName(gpu)),
            "uuid": lambda: str(nvml.nvmlDeviceGetUUID(gpu)),
            "memory": lambda: int(nvml.nvmlDeviceGetMemoryInfo(gpu).total),
            "driver": lambda: str(nvml.nvmlSystemGetDriverVersion()),
            "cuda": lambda: _version(nvml.nvmlSystemGetCudaDriverVersion()),
            "compute_capability": lambda: "{}.{}".format(*nvml.nvmlDeviceGetCudaComputeCapability(gpu)),
            "clock": lambda: int(nvml.nvmlDeviceGetClockInfo(gpu, nvml.NVML_CLOCK_SM)),
            "most_clock": lambda: int(nvml.nvmlDeviceGetMaxClockInfo(gpu, nvml.NVML_CLOCK_SM)),
            "memory_clock": lambda: int(nvml.nvmlDeviceGetClockInfo(gpu, nvml.NVML_CLOCK_MEM)),
            "power_cap": lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(gpu) / 1000,
            "temperature": lambda: int(nvml.nvmlDeviceGetTemperature(gpu, nvml.NVML_TEMPERATURE_GPU)),
            "slowed_by": lambda: _reasons(nvml.nvmlDeviceGetCurrentClocksEventReasons(gpu)),
            # This process is one of them. Process numbers may belong to another process space, so they are only
            # counted.
            "others": lambda: max(0, len(nvml.nvmlDeviceGetComputeRunningProcesses(gpu)) - 1 - resting),
        }
        facts: dict[str, Any] = {}
        for name, ask in queries.items():
            with contextlib.suppress(nvml.NVMLError):
                facts[name] = ask()
        return cast(Gpu, facts)


def gpu_marks(facts: Gpu | None) -> list[Mark]:
    """Return the caveats of times taken on a GPU in this state."""
    if facts is None:
        return []
    slowed = [Mark.THROTTLED] if facts.get("slowed_by") else []
    return slowed + ([Mark.SHARED] if facts.get("others") else [])


@contextlib.contextmanager
def opened_gpu(index: int) -> Iterator[tuple[Any, Any] | None]:
    """Yield the module of NVML and its handle of the GPU with this CUDA number; None if NVML or the GPU is missing."""
    try:
        import pynvml
    except ModuleNotFoundError:
        yield None
        return
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        yield None
        return
    try:
        yield pynvml, _handle(pynvml, index)
    except pynvml.NVMLError:
        yield None
    finally:
        pynvml.nvmlShutdown()


def _handle(nvml: Any, index: int) -> Any:
    """Return the handle of the GPU that CUDA numbers ``index``.

    CUDA numbers the GPUs that CUDA_VISIBLE_DEVICES names, in bus order.
    """
    visible = [name.strip() for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name.strip()]
    name = visible[index] if index < len(visible) else str(index)
    return nvml.nvmlDeviceGetHandleByIndex(int(name)) if name.isdigit() else nvml.nvmlDeviceGetHandleByUUID(name)


def _reasons(bits: int) -> list[str]:
    return [reason for bit, reason in _SLOWED.items() if bits & bit]


def _version(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"
