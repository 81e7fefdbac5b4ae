"""Memory transactions of warps: the traffic of a schedule's loads and atomic operations (thesis figs 7.1, 7.2).

A model counts them on any machine (:mod:`harness.transactions.sectors`, on the lanes of
:mod:`harness.transactions.lanes`). A GPU's hardware counters count them too (:mod:`harness.transactions.profiler`).
Both report the same quantities (:mod:`harness.transactions.behaviour`).
"""

from __future__ import annotations

from harness.transactions.behaviour import SECTOR, Atomics, Behaviour, KernelBehaviour, Loads
from harness.transactions.lanes import WARP, Lanes, Load, Step, repeated
from harness.transactions.sectors import atomics, loads

__all__ = [
    "SECTOR", "WARP", "Atomics", "Behaviour", "KernelBehaviour", "Lanes", "Load", "Loads", "Step", "atomics", "loads",
    "repeated",
]  # fmt: skip
