"""Memory transactions of warps: the traffic of a schedule's loads and atomic operations (thesis figs 7.1, 7.2).

A model counts them on any machine: kernels run on the emulated device (:mod:`harness.emulation.counting`), on a sample
of their blocks (:mod:`harness.transactions.sampling`). A GPU's hardware counters count them too
(:mod:`harness.transactions.profiler`). Both report the same quantities (:mod:`harness.transactions.behaviour`).
"""

from __future__ import annotations

from harness.transactions.behaviour import SECTOR, Atomics, Behaviour, KernelBehaviour, Loads

__all__ = ["SECTOR", "Atomics", "Behaviour", "KernelBehaviour", "Loads"]
