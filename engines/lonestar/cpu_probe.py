"""Figures of a CPU that ``order=auto`` estimates with, and the rates of figure 9: measured in about a second."""

# mypy: allow-untyped-decorators, allow-untyped-calls, no-warn-return-any
from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import int64, njit
from numpy.typing import NDArray

from harness.api.cpu import atomic_add, launch, try_lock, unlock
from harness.api.figures import cache_bytes, own_cache_bytes

Array = NDArray[Any]
SHORT, LONG = 16, 128  # features of the two updates that a line is drawn through
ROWS = 64  # of an update, which fit the nearest cache
UPDATES, LOCKS, LAUNCHES, ATOMICS, SORTED = 1 << 14, 1 << 17, 200, 1 << 17, 1 << 15  # in a sample
MEMORY = 1 << 25  # bytes of each of two arrays
SAMPLES = 5


@njit(nogil=True, fastmath=True, cache=True)  # pragma: no cover - compiled
def _updates(x: Array, features: int, rows: int, count: int) -> None:
    for i in range(count):
        u, v = i % rows, (7 * i + 3) % rows
        if u == v:
            v = (v + 1) % rows
        error = np.float32(1.0)
        for f in range(features):
            error -= x[u, f] * x[v, f]
        for f in range(features):
            a, b = x[u, f], x[v, f]
            x[u, f] = a + np.float32(0.01) * (error * b - np.float32(0.05) * a)
            x[v, f] = b + np.float32(0.01) * (error * a - np.float32(0.05) * b)


@njit(nogil=True, cache=True)  # pragma: no cover - compiled
def _locked(t: int, worker: int, locks: Array, step: int, count: int, done: Array) -> None:
    at = t * step
    for _ in range(count):
        if try_lock(locks, at):
            unlock(locks, at)
            done[16 * t] += 1
        at = (at + step) % len(locks)


@njit(nogil=True, cache=True)  # pragma: no cover - compiled
def _added(t: int, worker: int, total: Array, count: int) -> None:
    for _ in range(count):
        atomic_add(total, 0, 1)


@njit(nogil=True, cache=True)  # pragma: no cover - compiled
def _nothing(t: int, worker: int, seen: Array) -> None:
    seen[t] = worker


@njit(int64(int64, int64[::1]), nogil=True, cache=True)  # pragma: no cover - compiled
def _launches(threads: int, seen: Array) -> int:
    for _ in range(LAUNCHES):
        launch(_nothing, threads, threads, (seen,))
    return threads


@njit(nogil=True, cache=True)  # pragma: no cover - compiled
def _lock_all(threads: int, locks: Array, step: int, count: int, done: Array) -> int:
    return launch(_locked, threads, threads, (locks, step, count, done))


@njit(nogil=True, cache=True)  # pragma: no cover - compiled
def _add_all(threads: int, total: Array, count: int) -> int:
    return launch(_added, threads, threads, (total, count))


def fastest(work: Callable[[], object]) -> float:
    """Return the seconds of the fastest of some calls, after one that compiles: other work only slows calls down."""
    work()
    seconds = []
    for _ in range(SAMPLES):
        began = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - began)
    return min(seconds)


def sorting(numbers: Array) -> float:
    """Return the seconds of a stable sort of numbers that gives their order."""
    return fastest(lambda: np.argsort(numbers, kind="stable"))


def cpu_figures(threads: int) -> dict[str, float]:
    """Measure a CPU with a number of threads.

    ``step``, ``feature``: seconds of an update of two rows in the nearest cache, and for each feature. ``lock``: of
    taking and releasing a free lock. ``barrier``: of a launch on all threads. ``bandwidth``: bytes per second of
    copies in memory. ``cache``: bytes of the last level. ``near_cache``: bytes of the one of a core. ``sort``: seconds
    to sort a number among 2^15, stably and with its place, as edges are ordered. ``same_atomics``, ``same_locks``:
    atomic additions at one address, and locks taken of one, per second, by all threads together. ``parallel``: threads.
    """
    random = np.random.default_rng(0)

    def update(features: int) -> float:
        x = random.uniform(0, 0.1, (ROWS, features)).astype(np.float32)
        return fastest(lambda: _updates(x, features, ROWS, UPDATES)) / UPDATES

    short, long = update(SHORT), update(LONG)
    feature = max(0.0, (long - short) / (LONG - SHORT))
    locks, done = np.zeros(1 << 12, np.int32), np.zeros(16 * threads, np.int64)
    lock = fastest(lambda: _lock_all(1, locks, 17, LOCKS, done)) / LOCKS
    seen = np.zeros(threads, np.int64)
    barrier = fastest(lambda: _launches(threads, seen)) / LAUNCHES
    source, target = np.ones(MEMORY // 4, np.float32), np.zeros(MEMORY // 4, np.float32)
    bandwidth = 2 * MEMORY / fastest(lambda: np.copyto(target, source))
    numbers = random.integers(0, 1 << 30, SORTED)
    total = np.zeros(1, np.int64)
    adds = threads * ATOMICS / fastest(lambda: _add_all(threads, total, ATOMICS))
    one = np.zeros(1, np.int32)

    def contend() -> None:
        _lock_all(threads, one, 1, ATOMICS, done)

    contend()
    done[:] = 0
    began = time.perf_counter()
    contend()
    taken = int(done.sum()) / (time.perf_counter() - began)
    return {
        "step": max(short - SHORT * feature, 1e-10), "feature": feature, "lock": lock, "barrier": barrier,
        "bandwidth": bandwidth, "cache": float(cache_bytes()), "near_cache": float(own_cache_bytes()),
        "sort": sorting(numbers) / SORTED,
        "same_atomics": adds, "same_locks": taken, "parallel": float(threads),
    }  # fmt: skip
