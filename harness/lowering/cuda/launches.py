"""The launches of a superstep: over what, with which arguments."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from harness.lowering.cuda.kernels import CudaKernel

MOST_BLOCKS = 64  # for each multiprocessor; beyond, blocks take several pieces of work
FEW_THREADS = 4096  # for each multiprocessor, of kernels that often have nothing to do, or little
Most: TypeAlias = Literal["few", "some", "resident", "all"]


@dataclass(frozen=True)
class Launch:
    """A kernel of a superstep: what it goes over, the threads that each takes, and the arrays that swap with their
    second buffer after it.

    ``over``: the *vertices* that a superstep updates or the *in arcs* of these, the *sources* that those hear or the
    *arcs* that leave these, *all* vertices, *all arcs*, the *teams* of ``blocks`` blocks of a launch before, or
    pieces of work of the engine's own (:meth:`CudaEngine.transform`).
    ``lanes``: of each. ``blocks``: so many, whatever the work; 0: as the work asks for. ``most``: these are *some* for
    each multiprocessor, MOST_BLOCKS at most, or a *few*, of FEW_THREADS; the *resident* ones that the device runs
    at once, which go over the work side by side, so that what neighbours read is still cached for each other; or *all*
    that the work asks for. ``untracked``: it does nothing where changes are tracked.
    """

    kernel: CudaKernel
    over: str
    lanes: float
    swaps: tuple[str, ...] = ()
    blocks: int = 0
    most: Most = "some"
    untracked: bool = False

    def blocks_over(self, count: int, threads: int, multiprocessors: int, at_once: int) -> int:
        """How many blocks of ``threads`` there are for ``count`` pieces of work, on so many multiprocessors, each of
        which runs ``at_once`` of them at once."""
        wanted = self.blocks or max(1, math.ceil(count * self.lanes / threads))
        if self.blocks or self.most == "all":
            return wanted
        of_each = {"few": FEW_THREADS // threads, "some": MOST_BLOCKS, "resident": at_once}[self.most]
        return min(wanted, multiprocessors * max(1, of_each))


def turned(launches: Sequence[Launch]) -> set[str]:
    """The arrays whose buffers have changed places at the end of a superstep: what swaps an odd number of times."""
    found: set[str] = set()
    for launch in launches:
        found ^= set(launch.swaps)
    return found


def named_apart(launches: Sequence[Launch]) -> list[Launch]:
    """The launches, with a number behind the name of a kernel where an earlier, other one has that name: a stage may be
    called like what is made for another one."""
    kernels: dict[str, CudaKernel] = {}
    found = []
    for launch in launches:
        kernel, number = launch.kernel, 1
        while kernels.setdefault(kernel.name, kernel).source != kernel.source:
            number += 1
            kernel = launch.kernel.called(f"{launch.kernel.name}_{number}")
        found.append(launch if kernel is launch.kernel else replace(launch, kernel=kernel))
    return found
