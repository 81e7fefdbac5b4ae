"""The machine and the software that a record was made with."""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import subprocess
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import psutil

from harness import __version__
from harness.campaign.cgroup import memory_limit, times_throttled

_PACKAGES = ("numpy", "scipy", "numba", "llvmlite", "cupy-cuda12x", "cupy-cuda13x", "torch")


_NO_PART_OF_THE_KEY = ("commit", "harness", "host", "governor", "most_clock")
_FREQUENCY = Path("/sys/devices/system/cpu/cpu0/cpufreq")


@functools.cache
def environment() -> dict[str, Any]:
    """Host, processor, cores, memory (bytes), versions, commit; the same for every cell of a process."""
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
        "packages": {name: found for name in _PACKAGES if (found := _version(name)) is not None},
        "commit": _commit(),
    }


def environment_key() -> str:
    """A hash of what times depend on: processor, cores, memory and versions, but not the commit.

    Nor the host's name: that of a container is another each time.
    """
    told = {name: value for name, value in environment().items() if name not in _NO_PART_OF_THE_KEY}
    return hashlib.sha256(repr(sorted(told.items())).encode()).hexdigest()[:16]


class Bystanders:
    """What the machine did besides this process since this object was made."""

    def __init__(self) -> None:
        self._began, self._busy, self._own = time.perf_counter(), _busy_seconds(), time.process_time()
        self._throttled = times_throttled()

    def cores(self) -> float:
        """How many cores others kept busy on average; the system counts in ticks of 10 ms."""
        others = _busy_seconds() - self._busy - (time.process_time() - self._own)
        return max(0.0, others) / max(time.perf_counter() - self._began, 1e-9)

    def throttled(self) -> bool:
        """Whether this process's group was held back by its quota of processor time."""
        return times_throttled() > self._throttled


def _busy_seconds() -> float:
    """Seconds that all cores together have not been idle, also those a virtual machine's host took for itself."""
    told = psutil.cpu_times()
    return sum(getattr(told, kind, 0.0) for kind in ("user", "nice", "system", "irq", "softirq", "steal"))


def memory_total() -> int:
    """Bytes of memory that the machine has, or the control group that this process is in."""
    machine = int(psutil.virtual_memory().total)
    return min(machine, memory_limit() or machine)


def _governor() -> str | None:
    """The frequency governor of the first core; None where the system has no say, as in most virtual machines."""
    path = _FREQUENCY / "scaling_governor"
    return path.read_text().strip() if path.exists() else None


def _most_clock() -> float | None:
    """The highest clock of the first core in MHz, where it is told."""
    path = _FREQUENCY / "cpuinfo_max_freq"  # in kHz
    return int(path.read_text()) / 1000 if path.exists() else None


def cpu_model() -> str:
    """The processor's name as the system gives it."""
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _commit() -> str | None:
    """The commit of the checkout that the harness runs from, with ``+`` where it was changed; None elsewhere."""
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
