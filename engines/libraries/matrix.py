"""The sparse matrix of a reduction, for a library's product with dense features."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.api import Arrays

Array = Any  # of the library
RUN = 512  # in-edges that a library sums one after another in float32; of 3,000 equal ones it would lose 7e-5
# values [nnz], columns [nnz], offsets [rows + 1] and the shape, to what ``@`` multiplies with dense features
Csr = Callable[[Array, Array, Array, tuple[int, int]], Any]


@dataclass(frozen=True)
class Pattern:
    """Where a matrix of in-edges (in CSC order) has its entries; rows of more than ``RUN`` of them (hubs) stand apart.

    ``rows``: columns and offsets of every row, empty for hubs. ``kept``: the in-edges in them; None: all. ``runs``: the
    rows of the hubs in runs of at most ``RUN`` entries, those of the in-edges ``split``. ``hubs``: their numbers;
    ``joined``: the matrix that adds up the runs of each.
    """

    csr: Csr
    shape: tuple[int, int]
    rows: tuple[Array, Array]
    kept: Array | None = None
    runs: tuple[Array, Array] | None = None
    split: Array | None = None
    hubs: Array | None = None
    joined: Any = None

    @classmethod
    def of(
        cls, columns: NDArray[Any], offsets: NDArray[Any], width: int, arrays: Arrays, csr: Csr, run: int | None = RUN
    ) -> Pattern:
        """Of columns and offsets on the host. ``run``: None where the library's sums need no splitting."""
        shape = (len(offsets) - 1, width)
        degrees = np.diff(offsets)
        hubs = np.flatnonzero(degrees > run) if run else np.empty(0, np.int64)
        if run is None or not len(hubs):
            return cls(csr, shape, (arrays.upload(columns), arrays.upload(offsets)))
        entries = np.repeat(degrees > run, degrees)
        kept, split = np.flatnonzero(~entries), np.flatnonzero(entries)
        pieces = -(-degrees[hubs] // run)
        ends = np.cumsum(pieces)
        sizes = np.full(int(ends[-1]), run, offsets.dtype)
        sizes[ends - 1] = degrees[hubs] - run * (pieces - 1)

        def cuts(lengths: NDArray[Any]) -> Array:
            return arrays.upload(np.concatenate([[0], np.cumsum(lengths)]).astype(offsets.dtype))

        each = arrays.upload(np.arange(len(sizes), dtype=columns.dtype))
        ones = arrays.upload(np.ones(len(sizes), np.float32))
        return cls(
            csr,
            shape,
            (arrays.upload(columns[kept]), cuts(np.where(degrees > run, 0, degrees))),
            arrays.upload(kept),
            (arrays.upload(columns[split]), cuts(sizes)),
            arrays.upload(split),
            arrays.upload(hubs),
            csr(ones, each, cuts(pieces), (len(hubs), len(sizes))),
        )

    def matrix(self, coefficient: Array) -> Matrix:
        """With its values, one for each in-edge."""
        if self.runs is None or self.hubs is None:
            return Matrix(self.csr(coefficient, *self.rows, self.shape), self)
        shape = (self.joined.shape[1], self.shape[1])
        runs = self.csr(coefficient[self.split], *self.runs, shape)
        return Matrix(self.csr(coefficient[self.kept], *self.rows, self.shape), self, runs)


@dataclass(frozen=True)
class Matrix:
    """A matrix by its rows and, apart, the runs of its hubs."""

    rows: Any
    pattern: Pattern
    runs: Any = None

    def __matmul__(self, dense: Array) -> Array:
        """Times ``dense [columns, n]``: ``[rows, n]``."""
        total = self.rows @ dense
        if self.runs is not None:
            total[self.pattern.hubs] = self.pattern.joined @ (self.runs @ dense)
        return total
