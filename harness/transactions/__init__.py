"""Memory transactions of warps: what a schedule's loads and atomic operations move (thesis figs 7.1, 7.2).

Counted by a model on any machine (:mod:`harness.transactions.sectors`, on the lanes of
:mod:`harness.transactions.lanes`) or by a GPU's own counters (:mod:`harness.transactions.profiler`), in the same terms
(:mod:`harness.transactions.behaviour`).
"""

from __future__ import annotations

from harness.transactions.behaviour import SECTOR, Atomics, Behaviour, KernelBehaviour, Loads
from harness.transactions.lanes import WARP, Lanes, Load, Step, repeated
from harness.transactions.sectors import atomics, loads

__all__ = [
    "SECTOR", "WARP", "Atomics", "Behaviour", "KernelBehaviour", "Lanes", "Load", "Loads", "Step", "atomics", "loads",
    "repeated",
]  # fmt: skip
