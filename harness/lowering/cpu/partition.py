"""Divide vertices and edges among threads: parts of equal edges, and owners of ranges of destinations."""

# mypy: allow-untyped-decorators
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from harness.graph.file_maps import release_pages
from harness.lowering.edge_windows import windows

Array = NDArray[Any]
VERTEX_COST = 2  # a vertex costs about as much as this many edges (k = 8, one core)
EDGES_AT_ONCE = 1 << 18  # whose pages are released before the next ones are read, if neighbours are in a file


@dataclass(frozen=True)
class Partition:
    """The cut of vertices into parts of about equal edges, for a number of threads.

    ``parts_per_thread``: at most. ``smallest_part``: edges plus vertices, of several parts.
    """

    threads: int
    parts_per_thread: int
    smallest_part: int

    @property
    def most(self) -> int:
        """The largest number of parts of a kernel."""
        return max(1, self.threads * self.parts_per_thread)

    def count(self, vertices: int, edges: int) -> int:
        """Return the number of parts into which vertices with ``edges`` edges are cut."""
        return min(self.most, max(1, (edges + VERTEX_COST * vertices) // self.smallest_part))

    def bounds(self, offsets: Array, first: int, last: int) -> NDArray[np.int64]:
        """Return bounds that cut ``first..last`` into parts of about equal edges: int64[parts + 1].

        A vertex is never divided.
        """
        cost = offsets[first : last + 1] - offsets[first] + VERTEX_COST * np.arange(last - first + 1)
        parts = self.count(last - first, int(offsets[last] - offsets[first]))
        cuts = np.searchsorted(cost, np.linspace(0, cost[-1], parts + 1)[1:-1])
        return np.concatenate([[first], first + cuts, [last]]).astype(np.int64)


def owner_bounds(in_offsets: Array, owners: int) -> NDArray[np.int64]:
    """Return ranges of destinations with about equal in-edges, one for each owner: int64[owners + 1].

    Bounds are multiples of 64 vertices, so that no two owners write flags in one cache line.
    """
    count = len(in_offsets) - 1
    cost = in_offsets + VERTEX_COST * np.arange(count + 1)
    cuts = np.searchsorted(cost, np.linspace(0, cost[-1], owners + 1)[1:-1])
    cuts = np.minimum(-(-cuts // 64) * 64, count)
    return np.concatenate([[0], cuts, [count]]).astype(np.int64)


@njit(nogil=True, cache=True)  # pragma: no cover - compiled
def _split(offsets: Array, neighbours: Array, bounds: Array, cuts: Array, start: int, stop: int) -> None:
    owners = len(bounds) - 1
    for u in range(start, stop):
        row = u * (owners + 1)
        cuts[row] = offsets[u]
        for p in range(1, owners):
            low, high = cuts[row + p - 1], offsets[u + 1]
            while low < high:
                middle = (low + high) // 2
                if neighbours[middle] < bounds[p]:
                    low = middle + 1
                else:
                    high = middle
            cuts[row + p] = low
        cuts[row + owners] = offsets[u + 1]


def owned_edges(offsets: Array, neighbours: Array, bounds: Array) -> NDArray[np.int64]:
    """Return where each owner's out-edges are stored: int64[V * (owners + 1)].

    Rows are sorted by destination, so the edges of u whose destination owner p owns are
    ``cuts[u * (owners + 1) + p] .. cuts[u * (owners + 1) + p + 1]`` of the CSR.
    """
    cuts = np.empty(len(bounds) * (len(offsets) - 1), np.int64)
    for start, stop in windows(offsets, 0, len(offsets) - 1, EDGES_AT_ONCE):
        _split(offsets, neighbours, bounds, cuts, start, stop)
        release_pages(neighbours[offsets[start] : offsets[stop]])
    return cuts
