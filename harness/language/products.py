"""Products over many factors, stored as a sum of logarithms, a count of zeros and a count of negative factors.

A product of vectors over the 10^5 edges of a hub overflows or underflows any float. Therefore it is defined up to a
positive factor per vertex: the value read is scaled to a largest magnitude of 1. A product of scalars is not scaled.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass
class LogProduct:
    """A product in the log domain.

    ``log``: sum of log|x| over the non-zero factors, float64. ``zeros``: number of zero factors. ``negative``: number
    of negative factors. All have shape ``[N, *shape]``.
    """

    log: Array
    zeros: Array
    negative: Array

    @classmethod
    def of(cls, x: Array) -> LogProduct:
        """Return the product of one factor."""
        zero = x == 0
        return cls(np.log(np.where(zero, 1.0, np.abs(x))), zero.astype(np.int64), (x < 0).astype(np.int64))

    def at(self, index: Array) -> LogProduct:
        """Return the products of the given rows."""
        return LogProduct(*(part.take(index, axis=0) for part in (self.log, self.zeros, self.negative)))

    def set(self, rows: slice, products: LogProduct) -> None:
        """Replace the products of the given rows."""
        self.log[rows], self.zeros[rows], self.negative[rows] = products.log, products.zeros, products.negative

    def copy(self) -> LogProduct:
        """Return an independent copy."""
        return LogProduct(self.log.copy(), self.zeros.copy(), self.negative.copy())

    def times(self, x: Array) -> LogProduct:
        """Return the product with one more factor ``x``."""
        one = LogProduct.of(x)
        return LogProduct(self.log + one.log, self.zeros + one.zeros, self.negative + one.negative)

    def without(self, x: Array) -> LogProduct:
        """Return the product with the factor ``x`` removed."""
        one = LogProduct.of(x)
        return LogProduct(self.log - one.log, self.zeros - one.zeros, self.negative - one.negative)

    def value(self) -> Array:
        """Return the product; vectors are scaled to a largest magnitude of 1 (all zero if every feature has a zero
        factor)."""
        log = np.where(self.zeros > 0, -np.inf, self.log)
        if log.ndim > 1:
            top = log.max(axis=tuple(range(1, log.ndim)), keepdims=True)
            log = log - np.where(np.isfinite(top), top, 0.0)
        return np.where(self.negative % 2 == 1, -1.0, 1.0) * np.exp(log)
