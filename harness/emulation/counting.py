"""Count the requests to memory of emulated kernels, on a sample of their blocks."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.emulation.arrays import DeviceArray
from harness.emulation.compiler import Kernel, Module, library

COUNTS = 8  # of ``struct Counts`` of counting.h
QUANTITIES = 6  # of these: requests, sectors and bytes of loads; requests, sectors and lines of atomic operations
EVERYTHING = (1 << 64) - 1
GOLDEN = (5**0.5 - 1) / 2  # the first blocks in the order of the fractions of its multiples are spread evenly


class _Sample(ctypes.Structure):
    """``struct Sample`` of counting.h."""

    _fields_ = (
        ("order", ctypes.c_void_p), ("blocks", ctypes.c_uint64), ("budget", ctypes.c_uint64),
        ("taken", ctypes.c_uint64), ("counts", ctypes.c_void_p), ("effort", ctypes.c_uint64), ("low", ctypes.c_uint64),
        ("high", ctypes.c_uint64), ("covered_low", ctypes.c_uint64), ("covered_high", ctypes.c_uint64),
        ("seen", ctypes.c_void_p),
    )  # fmt: skip


@dataclass(frozen=True)
class BlockCounts:
    """The counts of the blocks that ran, a sample of ``blocks`` that is spread evenly.

    ``quantities``: float64[n, 6], as listed at :data:`QUANTITIES`. ``covered``: float64[n], the elements of an array
    that the block was the first to read. ``whole``: all other blocks ran as well, uncounted.
    """

    blocks: int
    quantities: NDArray[np.float64]
    covered: NDArray[np.float64]
    whole: bool

    @property
    def taken(self) -> int:
        """The number of blocks that ran."""
        return len(self.quantities)


class CountingModule(Module):
    """A module whose kernels count their requests."""

    @classmethod
    def of(cls, source: str, headers: Mapping[str, str]) -> CountingModule:
        """Compile and load a module. Raises EmulationError."""
        module = cls()
        module.load(str(library(source, headers, counting=True)).encode())
        return module

    def get_function(self, name: str) -> CountingKernel:
        """Return the kernel with a name."""
        return CountingKernel(name, self.library)


class CountingKernel(Kernel):
    """A kernel that runs as many blocks, spread evenly, as it takes to count a number of accesses of lanes."""

    def __init__(self, name: str, module: Any) -> None:
        super().__init__(name, getattr(module, f"launch_{name}"))
        self.ptr = 0  # the handle of the driver, which the emulated driver does not need
        self._module = module
        module.sample.restype = ctypes.POINTER(_Sample)

    def counted(
        self, grid: tuple[int, ...], threads: int, arguments: Sequence[Any], shared: int, *, budget: int = EVERYTHING,
        rest: float = 0.0, covered: NDArray[Any] | None = None,
    ) -> BlockCounts:  # fmt: skip
        """Run and count a sample of the blocks, then run the others if that takes little.

        ``budget``: the number of accesses after which no further block is counted. ``rest``: the number of accesses, as
        estimated, that the others may have. ``covered``: an array of 4-byte elements among the arguments. Raises
        EmulationError as :meth:`__call__` does.
        """
        blocks = int(np.prod(grid))
        order = np.argsort(np.arange(blocks) * GOLDEN % 1).astype(np.uint64)
        counts = np.zeros((blocks, COUNTS))
        seen = np.zeros(0 if covered is None else covered.size, np.uint8)
        arrays = [one for one in arguments if isinstance(one, DeviceArray)]
        sample = self._module.sample().contents
        sample.order, sample.blocks = order.ctypes.data, blocks
        sample.budget, sample.counts = budget, counts.ctypes.data
        sample.low = min((one.ctypes.data for one in arrays), default=0)
        sample.high = max((one.ctypes.data + one.nbytes for one in arrays), default=0)
        sample.covered_low = 0 if covered is None else covered.ctypes.data
        sample.covered_high, sample.seen = sample.covered_low + 4 * seen.size, seen.ctypes.data
        self(grid, (threads,), arguments, shared)
        taken = int(sample.taken)
        others = order[taken:]
        whole = len(others) * int(sample.effort) <= taken * rest
        if whole and len(others):
            sample.order, sample.blocks = others.ctypes.data, len(others)
            sample.budget, sample.counts = EVERYTHING, None
            self(grid, (threads,), arguments, shared)
        found = counts[:taken]
        return BlockCounts(blocks, found[:, :QUANTITIES], found[:, QUANTITIES], whole)
