"""The sparse matrix of a reduction, for SciPy's product with dense features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

Array = NDArray[Any]
RUN = 512  # in-edges that SciPy sums one after another in float32; of 3,000 equal ones it would lose 7e-5


@dataclass
class Matrix:
    """A product's sparse matrix; rows are destinations, those of more than ``RUN`` in-edges (hubs) apart.

    ``rows``: every vertex's row, empty for hubs. ``runs``: the rows of the hubs in runs of at most ``RUN`` entries, of
    which those of ``hubs[i]`` begin with row ``starts[i]``.
    """

    rows: Any
    runs: Any
    hubs: Array
    starts: Array

    @classmethod
    def of(cls, coefficient: Array, sources: Array, offsets: Array, columns: int) -> Matrix:
        """The matrix of in-edges in CSC order."""
        degrees = np.diff(offsets)
        hubs = np.flatnonzero(degrees > RUN)
        entries = np.repeat(degrees > RUN, degrees)
        kept = np.concatenate([[0], np.cumsum(np.where(degrees > RUN, 0, degrees))]).astype(offsets.dtype)
        pieces = -(-degrees[hubs] // RUN)
        starts = np.cumsum(pieces) - pieces
        sizes = np.full(int(pieces.sum()), RUN, offsets.dtype)
        sizes[starts + pieces - 1] = degrees[hubs] - RUN * (pieces - 1)
        cuts = np.concatenate([[0], np.cumsum(sizes)]).astype(offsets.dtype)
        rows = (coefficient[~entries], sources[~entries], kept) if len(hubs) else (coefficient, sources, offsets)
        return cls(
            scipy.sparse.csr_array(rows, shape=(len(degrees), columns)),
            scipy.sparse.csr_array((coefficient[entries], sources[entries], cuts), shape=(len(sizes), columns)),
            hubs,
            starts,
        )

    @property
    def nnz(self) -> int:
        """Arcs."""
        return int(self.rows.nnz + self.runs.nnz)

    def __matmul__(self, dense: Array) -> Array:
        total = np.asarray(self.rows @ dense)
        if len(self.hubs):
            total[self.hubs] = np.add.reduceat(np.asarray(self.runs @ dense), self.starts, axis=0)
        return total
