"""The useful, potentially useful and never used bytes of every superstep (Zheng et al. 2020, characterization of data).

UD are the bytes of the rows that are read in a superstep. PUD are the bytes of other rows that are read in a later
superstep of the run. NUD are the remaining bytes. PUD and NUD are computed after the run. If several calls of ``run``
make one run, each call is logged by itself: rows that only a later call reads are never used in it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

LAST_BYTES = 4  # of a vertex: the last superstep in which its row was read
KINDS = ("useful", "potentially useful", "never used")


class ActivityLog:
    """Record the last superstep of a run in which each row was read.

    ``offsets``: of the rows, int[V + 1]. ``edge_bytes``: the bytes of one edge in all edge arrays.
    """

    def __init__(self, offsets: NDArray[Any], edge_bytes: int) -> None:
        self.offsets, self.edge_bytes = offsets, edge_bytes
        self._last = np.empty(len(offsets) - 1, np.int32)
        self._useful: list[int] = []
        self.begin()

    def begin(self) -> None:
        """Clear the record at the beginning of a run."""
        self._last.fill(-1)
        self._useful.clear()

    def note(self, superstep: int, rows: NDArray[Any]) -> None:
        """Note that a superstep reads the ``rows`` of distinct vertices, int[n].

        Supersteps count from 0. A row that several kernels of a superstep read counts once.
        """
        self._useful += [0] * (superstep + 1 - len(self._useful))
        new = rows[self._last[rows] != superstep]
        self._last[new] = superstep
        self._useful[superstep] += int((self.offsets[new + 1] - self.offsets[new]).sum())

    def data(self, supersteps: int) -> dict[str, list[int]]:
        """Return the bytes of each kind in each of the first ``supersteps`` supersteps.

        In every superstep the kinds add up to the bytes of all edges.
        """
        edges = int(self.offsets[-1])
        useful = np.array((self._useful + [0] * supersteps)[:supersteps], np.int64)
        read = self._last >= 0
        degrees = self.offsets[1:] - self.offsets[:-1]
        ended = np.zeros(supersteps + 1, np.int64)  # edges of the rows that were read last in each superstep
        np.add.at(ended, np.minimum(self._last[read], supersteps), degrees[read].astype(np.int64))
        before = (
            edges - int(ended.sum()) + np.concatenate([[0], np.cumsum(ended[:-1])])
        )  # of rows that are not read any more
        found = np.stack([useful, edges - useful - before[:supersteps], before[:supersteps]]) * self.edge_bytes
        return {kind: [int(one) for one in row] for kind, row in zip(KINDS, found, strict=True)}
