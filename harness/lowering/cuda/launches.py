"""The launches of a superstep: their work and arguments."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from harness.lowering.cuda.kernels import CudaKernel
from harness.lowering.cuda.ranges import Range

MOST_BLOCKS = 64  # for each multiprocessor; beyond this, blocks process several items of work
FEW_THREADS = 4096  # for each multiprocessor, of kernels that often have little or nothing to do
Most: TypeAlias = Literal["few", "some", "resident", "all"]


@dataclass(frozen=True)
class Launch:
    """A kernel of a superstep: its work, the threads per item of work, and the arrays that swap with their second
    buffer after it.

    ``lanes``: per vertex, edge or other item of work. ``blocks``: a fixed number of blocks; 0: as many as the work
    needs. ``most`` limits the latter: *some* per multiprocessor, at most MOST_BLOCKS; a *few*, of FEW_THREADS; the
    *resident* ones that the device runs concurrently, which process adjacent work, so that data read by neighbours is
    still cached; or *all* that the work needs. ``optional``: the observer of a run may omit the launch.
    ``apart``: launches with the same text here, other than an empty one, process different vertices and may run at the
    same time.
    """

    kernel: CudaKernel
    over: Range
    lanes: float
    swaps: tuple[str, ...] = ()
    blocks: int = 0
    most: Most = "some"
    optional: bool = False
    apart: str = ""

    def blocks_over(self, count: int, threads: int, multiprocessors: int, at_once: int) -> int:
        """Return the number of blocks of ``threads`` for ``count`` items of work.

        Each of the ``multiprocessors`` runs ``at_once`` blocks concurrently.
        """
        wanted = self.blocks or max(1, math.ceil(count * self.lanes / threads))
        if self.blocks or self.most == "all":
            return wanted
        of_each = {"few": FEW_THREADS // threads, "some": MOST_BLOCKS, "resident": at_once}[self.most]
        return min(wanted, multiprocessors * max(1, of_each))


def turned(launches: Sequence[Launch]) -> set[str]:
    """Return the arrays whose buffers are swapped at the end of a superstep: those that swap an odd number of times."""
    found: set[str] = set()
    for launch in launches:
        found ^= set(launch.swaps)
    return found


def named_apart(launches: Sequence[Launch]) -> list[Launch]:
    """Return the launches with distinct kernel names.

    A number is appended to the name of a kernel if an earlier, different kernel has that name: the name of a stage may
    equal one generated for another stage.
    """
    kernels: dict[str, CudaKernel] = {}
    found = []
    for launch in launches:
        kernel, number = launch.kernel, 1
        while kernels.setdefault(kernel.name, kernel).source != kernel.source:
            number += 1
            kernel = launch.kernel.called(f"{launch.kernel.name}_{number}")
        found.append(launch if kernel is launch.kernel else replace(launch, kernel=kernel))
    return found
