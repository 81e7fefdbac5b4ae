"""The maximum rates of a CPU's memory: bytes per second by level, of NumPy's copies and of its reads."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

_CACHES = Path("/sys/devices/system/cpu")
_PASS = 1 << 23  # bytes of a sample, at least
_SAMPLES, _FEWEST, _ENOUGH_S = 7, 3, 0.05  # samples; fewer once they have taken so long
_MOST = 1 << 30  # bytes of both arrays in memory
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}

Floats = NDArray[np.float32]


def cache_sizes(folder: Path = _CACHES) -> list[tuple[int, int]]:
    """Return the data caches by level, nearest first: bytes of one, and of all that the usable cores have.

    Empty if the system does not describe them.
    """
    found: dict[int, dict[str, int]] = {}
    for core in os.sched_getaffinity(0):
        for index in (folder / f"cpu{core}" / "cache").glob("index*"):
            entries = {
                name: (index / name).read_text().strip() for name in ("type", "level", "size", "shared_cpu_list")
            }
            if entries["type"] != "Instruction" and entries["size"][-1:] in _UNITS:
                size = int(entries["size"][:-1]) * _UNITS[entries["size"][-1]]
                found.setdefault(int(entries["level"]), {})[entries["shared_cpu_list"]] = size
    return [(max(caches.values()), sum(caches.values())) for _, caches in sorted(found.items())]


def cpu_rates(threads: int, memory: int) -> dict[str, Any] | None:
    """Measure the levels (see ``harness.records.floor.Rates``) for a number of threads; None without known caches.

    The rate of the last-level cache is that of one thread times the number of threads, which is more than it can be.
    Nearer caches have no rate: NumPy's calls are too slow to measure it. Memory is measured with all threads in arrays
    of twice the caches, or of as much as ``memory`` (bytes of the machine) allows. Each rate is that of the fastest
    sample: other work only lowers it.
    """
    caches = cache_sizes()
    if not caches:
        return None
    *private, (size, shared) = caches
    nearer = sum(total for _, total in private)
    cached = threads * _rate(min(size // 2, max(4 * nearer, _PASS)), 1)
    remote = _rate(min(2 * (nearer + shared), memory // 8, _MOST), threads)
    levels = [(nearer, max(cached, remote)), (nearer + shared, remote)]
    return {"levels": levels, "on_chip": 0, "adds": None, "wide_adds": None, "launch": None}


def _rate(size: int, threads: int) -> float:
    """Return the bytes per second of copies, or of reads if these are faster, within ``size`` bytes of two arrays."""
    part = max(1, size // 2 // 4 // threads)
    arrays = [(np.ones(part, np.float32), np.zeros(part, np.float32)) for _ in range(threads)]
    repeats = max(1, _PASS // (8 * part))

    def copied(pair: tuple[Floats, Floats]) -> None:
        for _ in range(repeats):
            np.copyto(pair[1], pair[0])

    def read(pair: tuple[Floats, Floats]) -> None:
        for _ in range(repeats):
            pair[0].max(), pair[1].max()

    moved = 2 * 4 * part * repeats * threads
    with ThreadPoolExecutor(threads) as pool:

        def fastest(work: Callable[[tuple[Floats, Floats]], None]) -> float:
            seconds: list[float] = []
            while len(seconds) < (_SAMPLES if sum(seconds) < _ENOUGH_S else _FEWEST):
                began = time.perf_counter()
                list(pool.map(work, arrays) if threads > 1 else map(work, arrays))
                seconds.append(time.perf_counter() - began)
            return min(seconds)

        return moved / min(fastest(copied), fastest(read))
