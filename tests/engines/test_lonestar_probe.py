"""The figures that the probes of a CPU and of a GPU measure on made machines, whose rates are known."""

from __future__ import annotations

import contextlib
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from engines.lonestar import cpu_probe, cuda_probe

STEP, FEATURE, LOCK, BARRIER = 3e-8, 2e-10, 5e-9, 4e-6  # seconds
ADDS, LOCKS = 4e7, 1e7  # at one address, per second, by all threads
TAKEN = 0.25  # of the contended locks
COMPILING = 30.0  # seconds of the first call of a kernel
READING = 1e-7  # seconds between two readings of the clock
THREADS = 4


class Machine:
    """A machine with a clock. The kernels of the probe advance it by the time that they take."""

    def __init__(self):
        self.now, self.compiled = 0.0, set()

    def perf_counter(self):
        """Return the time."""
        self.now += READING
        return self.now

    def takes(self, kernel, seconds):
        """Advance the clock, the first time by the time of compilation as well."""
        self.now += seconds + (0.0 if kernel in self.compiled else COMPILING)
        self.compiled.add(kernel)

    def updates(self, x, features, rows, count):
        """Update rows."""
        assert (x.shape, x.dtype, rows) == ((cpu_probe.ROWS, features), np.float32, cpu_probe.ROWS)
        self.takes("updates", count * (STEP + FEATURE * features))

    def launches(self, threads, seen):
        """Launch kernels on all threads."""
        self.takes("launches", BARRIER * cpu_probe.LAUNCHES)

    def add_all(self, threads, total, count):
        """Add at one address."""
        self.takes("added", threads * count / ADDS)

    def lock_all(self, threads, locks, step, count, done):
        """Take free locks, or some of the attempts at one lock."""
        taken = int(count * (1.0 if len(locks) > 1 else TAKEN))
        done[: 16 * threads : 16] += taken
        self.takes("locked", count * LOCK if len(locks) > 1 else threads * taken / LOCKS)


def test_figures_are_the_rates_of_the_machine(monkeypatch):
    machine = Machine()
    monkeypatch.setattr(cpu_probe, "time", SimpleNamespace(perf_counter=machine.perf_counter))
    for name in ("updates", "launches", "add_all", "lock_all"):
        monkeypatch.setattr(cpu_probe, f"_{name}", getattr(machine, name))
    found = cpu_probe.cpu_figures(THREADS)
    known = {
        "step": STEP, "feature": FEATURE, "lock": LOCK, "barrier": BARRIER, "same_atomics": ADDS, "same_locks": LOCKS,
        "bandwidth": 2 * cpu_probe.MEMORY / READING, "sort": READING / cpu_probe.SORTED, "parallel": THREADS,
    }  # fmt: skip
    assert {name: found[name] for name in known} == pytest.approx(known, rel=1e-2)


class DeviceArray(np.ndarray):
    """An array of the made GPU."""

    def get(self):
        """Return a copy on the host."""
        return np.array(self)


def array(values):
    return np.asarray(values).view(DeviceArray)


MULTIPROCESSORS, TOTAL = 7, 1 << 22  # bytes of memory
COPIES = 5e11  # bytes a second


class Gpu(Machine):
    """A GPU whose kernels check that they get what their source takes."""

    step = STEP

    def updates(self, grid, block, arguments):
        """Update rows by one warp."""
        rows, features, number, count = arguments
        assert (grid, block, len(rows), rows.dtype) == ((1,), (32,), features * number, np.float32)
        self.takes("updates", count * (self.step + FEATURE * features))

    def free_locks(self, grid, block, arguments):
        """Take and release locks by one thread."""
        locks, number, count = arguments
        assert (grid, block, len(locks), locks.dtype) == ((1,), (1,), number, np.uint32)
        assert not locks.any()
        self.takes("locked", count * LOCK)

    def same_atomics(self, grid, block, arguments):
        """Add at one address."""
        word, seen, count = arguments
        assert (word.dtype, seen.dtype) == (np.uint32, np.uint32)
        assert seen.ctypes.data - word.ctypes.data == 128, "not in the line of the additions"
        self.takes("added", grid[0] * block[0] * count / ADDS)

    def same_locks(self, grid, block, arguments):
        """Try one lock."""
        lock, taken, count = arguments
        assert (len(lock), lock.dtype, taken.dtype, lock[0]) == (1, np.uint32, np.uint64, 0)
        now = int(grid[0] * block[0] // 32 * count * TAKEN)
        taken += np.uint64(now)
        self.takes("tried", now / LOCKS)

    def barriers(self, grid, block, arguments, *, enable_cooperative_groups):
        """Wait for all blocks."""
        words, count = arguments
        assert (grid, enable_cooperative_groups, words.any()) == ((MULTIPROCESSORS,), True, False)
        words[0] = 1
        self.takes("barriers", count * BARRIER)

    def copied(self, grid, block, arguments):
        """Copy 16 bytes at a time."""
        source, target, count = arguments
        assert source.nbytes == target.nbytes == 16 * count == TOTAL // 16
        self.takes("copied", 32 * count / COPIES)

    def fastest_on(self, stream, work, samples):
        """Return the shortest time of some calls after a first one."""
        seconds = []
        for _ in range(1 + samples):
            began = self.now
            work()
            seconds.append(self.now - began)
        return min(seconds[1:])


@contextlib.contextmanager
def entered(*_, **__):
    yield


@pytest.mark.parametrize("step", [STEP, 0.0])
def test_figures_are_the_rates_of_the_gpu(step, monkeypatch):
    gpu = Gpu()
    gpu.step = step
    module = SimpleNamespace(load=lambda code: None, get_function=lambda name: getattr(gpu, name))
    cupy = SimpleNamespace(
        cuda=SimpleNamespace(
            function=SimpleNamespace(Module=lambda: module), using_allocator=entered, Stream=entered,
        ),
        zeros=lambda *given: array(np.zeros(*given)), full=lambda *given: array(np.full(*given)),
        ones=lambda *given: array(np.ones(*given)),
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    attributes = {"MultiProcessorCount": MULTIPROCESSORS, "L2CacheSize": 40 << 20}
    monkeypatch.setattr(cuda_probe, "compiled", lambda *_: SimpleNamespace(code=b""))
    monkeypatch.setattr(cuda_probe, "architecture", lambda index: "sm_90")
    monkeypatch.setattr(
        cuda_probe, "open_device", lambda index: SimpleNamespace(attributes=attributes, mem_info=(TOTAL // 2, TOTAL))
    )
    monkeypatch.setattr(cuda_probe, "fastest_on", gpu.fastest_on)
    monkeypatch.setattr(cuda_probe, "sorting", lambda numbers: 3e-9 * len(numbers))
    found = cuda_probe.cuda_figures(0)
    assert found == pytest.approx(
        {
            "step": step or 1e-10, "feature": FEATURE, "lock": LOCK, "barrier": BARRIER, "bandwidth": COPIES,
            "cache": 40 << 20, "near_cache": 40 << 20, "sort": 3e-9, "same_atomics": ADDS, "same_locks": LOCKS,
            "parallel": 32 * MULTIPROCESSORS,
        },
        rel=1e-6,
    )  # fmt: skip
