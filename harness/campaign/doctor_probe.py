"""``python -m harness.campaign.doctor_probe``: what compilers and GPUs can do, as JSON.

It runs in a process of its own: a broken library may end the process, and a process that has opened the CUDA driver
must not be forked.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable
from typing import Any

from harness.plain_text import describe_error, one_line

_KERNEL = 'extern "C" __global__ void nothing() {}'
_ARCHITECTURE = "sm_90"  # of the trial compilation if there is no GPU


def probe() -> dict[str, dict[str, Any]]:
    """Return the result of each trial; that of a failed one has only ``error``, a text."""
    driver = _tried(_driver)
    return {
        "numba": _tried(lambda: {"version": importlib.import_module("numba").__version__}),
        "driver": driver,
        "nvml": _tried(_nvml),
        "cupy": _tried(lambda: {"version": importlib.import_module("cupy").__version__}),
        "nvrtc": _tried(lambda: _nvrtc(driver)),
    }


def _tried(trial: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    try:
        return trial()
    except Exception as error:  # noqa: BLE001  whatever a library raises is the result
        return {"error": one_line(describe_error(error))}


def _driver() -> dict[str, Any]:
    """Return the newest CUDA version that the driver supports (13010 is 13.1), and its devices."""
    from harness.device.driver import cuda_unavailable, describe, newest_cuda

    reason = cuda_unavailable(0)
    if reason:
        return {"error": reason}
    count = next(index for index in range(1, 1025) if cuda_unavailable(index))
    return {"cuda": newest_cuda(), "devices": [vars(describe(index)) for index in range(count)]}


def _nvml() -> dict[str, Any]:
    """Return the number of the driver, and how many processes use the first GPU; this process is not one of them."""
    from harness.campaign.gpu import gpu_facts

    importlib.import_module("pynvml")  # gpu_facts() does without it
    facts = gpu_facts(0, resting=-1)
    if facts is None:
        return {"error": "the NVIDIA management library does not answer"}
    return {name: value for name, value in facts.items() if name in ("driver", "others")}


def _nvrtc(driver: dict[str, Any]) -> dict[str, Any]:
    """Compile an empty kernel for the first device; return the compiler's version, [major, minor]."""
    from harness.device.compilation import compiled, nvrtc_version

    version = nvrtc_version()
    capabilities = [device["compute_capability"] for device in driver.get("devices", [])]
    architecture = f"sm_{capabilities[0].replace('.', '')}" if capabilities else _ARCHITECTURE
    compiled(_KERNEL, {}, architecture)
    return {"version": version, "architecture": architecture}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(probe()))
