"""The machine and the software of a record."""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import re
import subprocess
import time
from collections.abc import Collection
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import psutil

from harness import __version__
from harness.campaign.cgroup import memory_limit, times_throttled
from harness.device.figures import cpu_model

_PACKAGES = ("numpy", "scipy", "numba", "llvmlite", "cupy-cuda12x", "cupy-cuda13x", "torch")


_NO_PART_OF_THE_KEY = ("commit", "harness", "host", "governor", "most_clock")
_FREQUENCY = Path("/sys/devices/system/cpu/cpu0/cpufreq")
_CORE_TIMES = Path("/proc/stat")


@functools.cache
def environment() -> dict[str, Any]:
    """Return host, processor, cores, memory (bytes), versions, commit; the same for every cell of a process."""
    return {
        "host": platform.node(),
        "system": platform.platform(),
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "usable_cores": len(os.sched_getaffinity(0)),
        "memory": memory_total(),
        "governor": _governor(),
        "most_clock": _most_clock(),
        "python": platform.python_version(),
        "harness": __version__,
        "packages": {name: found for name in _PACKAGES if (found := installed_version(name)) is not None},
        "commit": _commit(),
    }


def environment_key() -> str:
    """Return a hash of what times depend on: processor, cores, memory and versions.

    Commit and host name are excluded; the host name of a container changes each time.
    """
    facts = {name: value for name, value in environment().items() if name not in _NO_PART_OF_THE_KEY}
    return hashlib.sha256(repr(sorted(facts.items())).encode()).hexdigest()[:16]


class Bystanders:
    """Activity of other processes since this object was created, on the whole machine or on these ``cores``."""

    def __init__(self, cores: Collection[int] | None = None) -> None:
        self._cores = cores
        self._began, self._busy, self._own = time.perf_counter(), _busy_seconds(cores), time.process_time()
        self._throttled = times_throttled()

    def cores(self) -> float:
        """Return how many cores other processes kept busy on average; the system counts in ticks of 10 ms."""
        others = _busy_seconds(self._cores) - self._busy - (time.process_time() - self._own)
        return max(0.0, others) / max(time.perf_counter() - self._began, 1e-9)

    def throttled(self) -> bool:
        """Return whether this process's group was throttled by its CPU quota."""
        return times_throttled() > self._throttled


def _busy_seconds(cores: Collection[int] | None) -> float:
    """Return the non-idle seconds of these cores, including those stolen by the host of a virtual machine.

    If the system does not list each of them, all cores are counted.
    """
    times = dict(zip(_listed_cores(), psutil.cpu_times(percpu=True), strict=False)) if cores else {}
    counted = [times[core] for core in cores] if cores and times.keys() >= set(cores) else [psutil.cpu_times()]
    kinds = ("user", "nice", "system", "irq", "softirq", "steal")
    return sum(getattr(of_core, kind, 0.0) for of_core in counted for kind in kinds)


def _listed_cores() -> list[int]:
    """Return the numbers of the cores whose times the system lists, in that order: those that are online."""
    lines = _CORE_TIMES.read_text().splitlines() if _CORE_TIMES.exists() else []
    return [int(number[1]) for line in lines if (number := re.match(r"cpu(\d+) ", line))]


def memory_total() -> int:
    """Return the memory in bytes of the machine, or of the control group of this process."""
    machine = int(psutil.virtual_memory().total)
    return min(machine, memory_limit() or machine)


def _governor() -> str | None:
    """Return the frequency governor of the first core; None if the system has none, as in most virtual machines."""
    path = _FREQUENCY / "scaling_governor"
    return path.read_text().strip() if path.exists() else None


def _most_clock() -> float | None:
    """Return the highest clock of the first core in MHz, or None."""
    path = _FREQUENCY / "cpuinfo_max_freq"  # in kHz
    return int(path.read_text()) / 1000 if path.exists() else None


def installed_version(package: str) -> str | None:
    """Return the version of an installed package; None if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _commit() -> str | None:
    """Return the commit of the harness's checkout, with ``+`` if it was changed; None outside a checkout."""
    root = Path(__file__).parents[2]
    if not (root / ".git").exists():
        return None
    try:
        commit = _git(root, "rev-parse", "HEAD")
        return f"{commit}+" if _git(root, "status", "--porcelain", "--untracked-files=no") else commit
    except (OSError, subprocess.CalledProcessError):
        return None


def _git(root: Path, *arguments: str) -> str:
    finished = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True)
    return finished.stdout.strip()
