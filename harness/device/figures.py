"""Figures of a device that an engine measures once and plans with: kept in the cache by the identity of the device.

CACHE/figures/NAME-KEY.json   the figures, and the device that they are of
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Callable, Mapping
from pathlib import Path

from harness.atomic_write import write_whole
from harness.cache import cache_folder, filling_cache
from harness.contract import Device
from harness.device.cpu_rates import cache_sizes
from harness.device.driver import describe

Figures = tuple[tuple[str, float], ...]
_DRIVER = Path("/proc/driver/nvidia/version")


def cpu_model() -> str:
    """Return the processor's name as reported by the system."""
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def device_name(device: Device) -> str:
    """Return the model of a device, with the threads of a CPU. Raises DriverError for a CUDA device that is missing."""
    if device.kind == "cuda":
        return describe(device.index).name
    return f"{cpu_model()}, threads {device.threads}"


def known_figures(name: str, device: Device) -> Figures | None:
    """Return the figures that an earlier :func:`figures_of` has kept; None without them, or if they cannot be read.

    Raises DriverError for a CUDA device that is missing.
    """
    try:
        kept = json.loads(_path(name, device).read_text(encoding="utf-8"))
        return tuple((str(key), float(value)) for key, value in kept["figures"].items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def figures_of(name: str, device: Device, measure: Callable[[], Mapping[str, float]]) -> Figures:
    """Return the figures of a device, measured now if the cache lacks them.

    ``name``: of the set of figures, with a version that changes whenever they are measured differently. Raises
    CacheError if the cache cannot be written.
    """
    found = known_figures(name, device)
    if found is None:
        found = tuple((key, float(value)) for key, value in measure().items())
        with filling_cache():
            path = _path(name, device)
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, json.dumps({"device": device_name(device), "figures": dict(found)}))
    return found


def cache_bytes() -> int:
    """Return the bytes of the last-level cache that the usable cores share; 0 if the system does not describe it."""
    return max((shared for _, shared in cache_sizes()), default=0)


def _path(name: str, device: Device) -> Path:
    identity: tuple[object, ...]
    if device.kind == "cuda":
        identity = (describe(device.index).uuid, _DRIVER.read_text() if _DRIVER.exists() else "")
    else:
        identity = (cpu_model(), sorted(os.sched_getaffinity(0)), device.threads)
    key = hashlib.sha256(repr((device.kind, identity)).encode()).hexdigest()[:20]
    return cache_folder() / "figures" / f"{name}-{key}.json"
