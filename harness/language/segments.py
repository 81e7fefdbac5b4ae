"""Reductions over ranges of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.language.products import LogProduct
from harness.language.program import IDENTITY, Reducer

Array = NDArray[Any]

_UFUNC: dict[Reducer, np.ufunc] = {"sum": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum}


def segment_reduce(values: Array, offsets: Array, reducer: Reducer) -> Array:
    """Reduce ranges of rows: row i of the result covers ``values[offsets[i]:offsets[i+1]]``.

    The result is float64 and accumulated in float64 for every dtype of ``values``: ``reduceat`` adds rows sequentially,
    which in float32 loses up to (n - 1) 2^-24 of a sum of n terms. An empty range gives the reducer's identity.
    """
    counts = np.diff(offsets)
    result = np.full((len(counts), *values.shape[1:]), IDENTITY[reducer], np.result_type(values.dtype, np.float64))
    filled = np.flatnonzero(counts)
    if len(filled):
        result[filled] = _UFUNC[reducer].reduceat(values, offsets[:-1][filled], axis=0, dtype=result.dtype)
    return result


def segment_product(values: Array, offsets: Array) -> LogProduct:
    """Multiply ranges of rows, with ranges as in :func:`segment_reduce`."""
    one = LogProduct.of(values)
    log, zeros, negative = (segment_reduce(part, offsets, "sum") for part in (one.log, one.zeros, one.negative))
    return LogProduct(log, zeros.astype(np.int64), negative.astype(np.int64))
