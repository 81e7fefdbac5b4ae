"""A static cache of mapped edge arrays, planned: the first edges of each are in the memory of the device as well.

A kernel that reads edges of consecutive vertices is called twice: for the vertices whose edges are all among the first
ones, with the arrays of the device, and for the others, with those of the host. Kernels do not change, and both calls
are recorded. Which edges are cached does not depend on the run, as in Liberator (Li et al. 2023), because sweeps over
all edges leave nothing of use in a cache that follows them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from harness.lowering.cuda.buffers import CudaBuffer
from harness.lowering.cuda.windows import ALIGNED_BYTES, OFFSETS, SLACK, aligned

if TYPE_CHECKING:
    from harness.facts import GraphFacts
    from harness.lowering.cuda.kernels import CudaKernel
    from harness.lowering.cuda.launches import Launch


@dataclass(frozen=True)
class Prefix:
    """The first ``edges`` of every array; ``row_bytes``: of an edge, by the names of the arrays. None by default."""

    edges: int = 0
    row_bytes: tuple[tuple[str, int], ...] = ()

    @classmethod
    def of(cls, cache_bytes: int, facts: GraphFacts, buffers: Iterable[CudaBuffer]) -> Self:
        """Return as many edges as fit ``cache_bytes`` with all their arrays; 0: no cache."""
        rows = {one.name: one.stride * np.dtype(one.dtype).itemsize for one in buffers if one.of_edges}
        if not cache_bytes or not rows:
            return cls()
        left = cache_bytes - len(rows) * (SLACK + ALIGNED_BYTES)
        return cls(min(facts.num_edges, max(0, left) // sum(rows.values())), tuple(sorted(rows.items())))

    @property
    def nbytes(self) -> int:
        """Bytes in the memory of the device."""
        return sum(self.bytes_of(row) for _, row in self.row_bytes) if self.edges else 0

    def bytes_of(self, row: int) -> int:
        """Return the bytes of the first edges of an array with ``row`` bytes an edge."""
        return aligned(self.edges * row + SLACK)

    def takes(self, kernel: CudaKernel) -> bool:
        """Return whether a kernel reads cached arrays."""
        return not dict(self.row_bytes).keys().isdisjoint(kernel.arguments)

    def refusal(self, launches: Sequence[Launch], *, combined: bool) -> str:
        """Return why the launches of a plan cannot use a cache; empty if they can."""
        if combined:
            return "cache_mb: one launch runs all supersteps, and a cache needs two for each kernel; omit one of them"
        for launch in launches:
            if not self.takes(launch.kernel):
                continue
            if {"reverse", "places"} & set(launch.kernel.arguments):
                return "cache_mb: the program reads reverse edges, which may be outside of the cache; omit it"
            if launch.over not in OFFSETS:
                return (
                    f"cache_mb: the kernel {launch.kernel.name} of this schedule does not work on consecutive "
                    "vertices; omit it, or give a schedule in which owners of vertices have whole rows"
                )
        return ""
