"""The figures that the probe of a CPU measures on a made machine, whose rates are known."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from engines.lonestar import cpu_probe

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
