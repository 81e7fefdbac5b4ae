"""The sparse matrix of a reduction, for a library's product with dense features."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.api import Arrays

Array = Any  # of the library
RUN = 512  # in-edges summed sequentially in float32; with 3,000 equal ones the error would be 7e-5
# from values [nnz], columns [nnz], offsets [rows + 1] and the shape, to what ``@`` multiplies with dense features
Csr = Callable[[Array, Array, Array, tuple[int, int]], Any]


@dataclass(frozen=True)
class HubRuns:
    """The hub rows of a pattern on the host, cut into runs; see :class:`Pattern`.

    ``each``, ``offsets``: the columns and the offsets of the matrix that adds up the runs of each hub.
    """

    kept: NDArray[Any]
    runs: tuple[NDArray[Any], NDArray[Any]]
    split: NDArray[Any]
    hubs: NDArray[Any]
    each: NDArray[Any]
    offsets: NDArray[Any]


@dataclass(frozen=True)
class HostPattern:
    """The arrays of a :class:`Pattern` on the host; ``hubs`` is None if no row is cut."""

    shape: tuple[int, int]
    rows: tuple[NDArray[Any], NDArray[Any]]
    hubs: HubRuns | None = None

    @classmethod
    def of(cls, columns: NDArray[Any], offsets: NDArray[Any], width: int, run: int | None = RUN) -> HostPattern:
        """Cut rows of more than ``run`` entries; None: no row."""
        shape = (len(offsets) - 1, width)
        degrees = np.diff(offsets)
        hubs = np.flatnonzero(degrees > run) if run else np.empty(0, np.int64)
        if run is None or not len(hubs):
            return cls(shape, (columns, _with_room(offsets, width)))
        entries = np.repeat(degrees > run, degrees)
        kept, split = np.flatnonzero(~entries), np.flatnonzero(entries)
        runs_of_hub = -(-degrees[hubs] // run)
        ends = np.cumsum(runs_of_hub)
        sizes = np.full(int(ends[-1]), run, offsets.dtype)
        sizes[ends - 1] = degrees[hubs] - run * (runs_of_hub - 1)

        def cuts(lengths: NDArray[Any], width: int) -> NDArray[Any]:
            found = np.concatenate([[0], np.cumsum(lengths)]).astype(offsets.dtype)
            return _with_room(found, width)

        each = np.arange(len(sizes), dtype=columns.dtype)
        runs = HubRuns(kept, (columns[split], cuts(sizes, width)), split, hubs, each, cuts(runs_of_hub, len(sizes)))
        return cls(shape, (columns[kept], cuts(np.where(degrees > run, 0, degrees), width)), runs)


@dataclass(frozen=True)
class Pattern:
    """The positions of the entries of a matrix of in-edges (in CSC order); rows of more than ``RUN`` entries (hubs) are
    stored separately.

    ``rows``: columns and offsets of every row; hub rows are empty. ``kept``: the in-edges in ``rows``; None: all.
    ``runs``: the hub rows in runs of at most ``RUN`` entries, which are the in-edges ``split``. ``hubs``: the row
    numbers of the hubs. ``joined``: the matrix that adds up the runs of each hub.

    cuSPARSE, and therefore PyTorch, refuse a matrix with more entries than rows times columns, which parallel edges of
    few vertices produce. Such a matrix has additional empty rows after its own.
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
        """Build a pattern from columns and offsets on the host. ``run``: None if the library's sums need no
        splitting."""
        return cls.uploaded(HostPattern.of(columns, offsets, width, run), arrays, csr)

    @classmethod
    def uploaded(cls, host: HostPattern, arrays: Arrays, csr: Csr) -> Pattern:
        """Return the pattern with its arrays on the device of a library."""
        rows = arrays.upload(host.rows[0]), arrays.upload(host.rows[1])
        if host.hubs is None:
            return cls(csr, host.shape, rows)
        hubs = host.hubs
        count, size = len(hubs.hubs), len(hubs.each)
        ones = arrays.upload(np.ones(size, np.float32))
        return cls(
            csr,
            host.shape,
            rows,
            arrays.upload(hubs.kept),
            (arrays.upload(hubs.runs[0]), arrays.upload(hubs.runs[1])),
            arrays.upload(hubs.split),
            arrays.upload(hubs.hubs),
            csr(ones, arrays.upload(hubs.each), arrays.upload(hubs.offsets), (count, size)),
        )

    def structures(self) -> list[Array]:
        """Return the columns of every matrix that a product multiplies by, on the device."""
        parts = [part[0] for part in (self.rows, self.runs) if part is not None]
        return parts if self.joined is None else [*parts, self.joined.columns]

    def matrix(self, coefficient: Array) -> Matrix:
        """Return the matrix with its values, one for each in-edge."""
        if self.runs is None or self.hubs is None:
            return Matrix(self._csr(coefficient, *self.rows), self)
        runs = self._csr(coefficient[self.split], *self.runs)
        return Matrix(self._csr(coefficient[self.kept], *self.rows), self, runs)

    def _csr(self, values: Array, columns: Array, offsets: Array) -> Any:
        return self.csr(values, columns, offsets, (len(offsets) - 1, self.shape[1]))


def _with_room(offsets: NDArray[Any], width: int) -> NDArray[Any]:
    """Return the offsets with additional empty rows, so that rows times ``width`` is at least the number of entries."""
    missing = -(-int(offsets[-1]) // max(1, width)) - (len(offsets) - 1)
    return np.concatenate([offsets, np.full(max(0, missing), offsets[-1])]).astype(offsets.dtype)


@dataclass(frozen=True)
class Matrix:
    """A matrix of its rows and, separately, the runs of its hubs."""

    rows: Any
    pattern: Pattern
    runs: Any = None

    def __matmul__(self, dense: Array) -> Array:
        """Multiply by ``dense [columns, n]``; return ``[rows, n]``."""
        pattern = self.pattern
        total = (self.rows @ dense)[: pattern.shape[0]]
        if self.runs is not None:
            total[pattern.hubs] = pattern.joined @ (self.runs @ dense)[: pattern.joined.shape[1]]
        return total
