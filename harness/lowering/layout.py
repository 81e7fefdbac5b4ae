"""The layout of properties in memory: arrays of structures, with rows padded so that long ones start on cache lines."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike, NDArray

from harness.graph.slices import in_slices
from harness.language.evaluation import concrete
from harness.language.expressions import Shape

LINE = 16  # float32 in a cache line


def row_stride(lanes: int) -> int:
    """Return the floats from one row to the next: rows longer than a cache line are padded if they would straddle lines
    unevenly.
    """
    return lanes if lanes <= LINE or lanes % (LINE // 2) == 0 else -(-lanes // LINE) * LINE


def aligned_zeros(count: int, dtype: DTypeLike) -> NDArray[np.generic]:
    """Return a zeroed one-dimensional array that starts on a cache line.

    Rows whose length is a power of two then never straddle two lines.
    """
    size = np.dtype(dtype).itemsize
    padded = np.zeros(count + 64 // size, dtype)
    skip = -padded.ctypes.data % 64 // size
    return padded[skip : skip + count]


@dataclass(frozen=True)
class Layout:
    """The layout of every shape for ``features`` features."""

    features: int

    def dims(self, shape: Shape) -> tuple[int, ...]:
        """Return the shape in numbers."""
        return concrete(shape, self.features)

    def row_stride(self, lanes: int) -> int:
        """Return the elements from one row of ``lanes`` values to the next one."""
        return row_stride(lanes)

    def stride(self, shape: Shape) -> int:
        """Return the elements from one vertex's value to the next one's."""
        dims = self.dims(shape)
        match dims:
            case ():
                return 1
            case (lanes,):
                return self.row_stride(lanes)
            case (rows, lanes):
                return rows * self.row_stride(lanes)
        raise ValueError(f"shape {shape} has more than two dimensions")

    def pack(self, values: NDArray[np.generic], shape: Shape) -> NDArray[np.generic]:
        """Pack ``[N, *dims]`` into a flat padded array of float32 (or bool); padding is zero."""
        count, dims = len(values), self.dims(shape)
        dtype = np.bool_ if values.dtype == np.bool_ else np.float32
        flat = aligned_zeros(count * self.stride(shape), dtype)
        inner = (*dims[:-1], self.row_stride(dims[-1])) if dims else ()
        rows = flat.reshape(count, *inner)[..., : dims[-1] if dims else None]

        def fill(part: slice) -> None:
            rows[part] = values[part]

        in_slices(fill, count)
        return flat

    def unpack(self, flat: NDArray[np.generic], shape: Shape) -> NDArray[np.generic]:
        """Unpack the result of :meth:`pack` into a new ``[N, *dims]``."""
        dims = self.dims(shape)
        if not dims:
            return flat.copy()
        count = len(flat) // self.stride(shape)
        return flat.reshape(count, *dims[:-1], self.row_stride(dims[-1]))[..., : dims[-1]].copy()
