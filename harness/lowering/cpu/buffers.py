"""Buffers of a plan on the CPU."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness.lowering.buffers import Buffer
from harness.lowering.cpu.flags import BLOCK
from harness.lowering.layout import aligned_zeros


@dataclass(frozen=True)
class CpuBuffer(Buffer):
    """An array of a run on the CPU.

    ``two_levels``: it holds flags of vertices, with a second level that has a flag for every block of vertices
    (:mod:`harness.lowering.cpu.flags`). ``placed``: it holds given values of edges, which are in the place of the
    graph's edge arrays.
    """

    two_levels: bool = False
    placed: bool = False

    @property
    def nbytes(self) -> int:
        """The size in bytes, with the second level of flags."""
        return super().nbytes + (-(-self.length // BLOCK) if self.two_levels else 0)

    def allocated(self) -> NDArray[np.generic]:
        """Return a new array of zeros that starts on a cache line."""
        return aligned_zeros(self.length, self.dtype)
