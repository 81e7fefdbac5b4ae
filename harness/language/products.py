"""Products over many factors, kept as a sum of logarithms, a count of zeros and the parity of signs.

A product of vectors over a hub's 10^5 edges leaves the range of any float, so it is defined up to a positive factor
per vertex: what is read is scaled to a largest magnitude of 1. A product of scalars is read as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass
class LogProduct:
    """``log``: sum of log|x| over the non-zero factors; ``zeros``: number of zero factors; ``negative``: number of
    negative ones. All ``[N, *shape]``, log in float64."""

    log: Array
    zeros: Array
    negative: Array

    @classmethod
    def of(cls, x: Array) -> LogProduct:
        """The product of one factor."""
        zero = x == 0
        return cls(np.log(np.where(zero, 1.0, np.abs(x))), zero.astype(np.int64), (x < 0).astype(np.int64))

    def at(self, index: Array) -> LogProduct:
        """The products at some rows."""
        return LogProduct(self.log[index], self.zeros[index], self.negative[index])

    def set(self, rows: slice, products: LogProduct) -> None:
        """Replace the products of some rows."""
        self.log[rows], self.zeros[rows], self.negative[rows] = products.log, products.zeros, products.negative

    def copy(self) -> LogProduct:
        """Products that may be changed apart from these."""
        return LogProduct(self.log.copy(), self.zeros.copy(), self.negative.copy())

    def times(self, x: Array) -> LogProduct:
        """The product with one more factor ``x``."""
        one = LogProduct.of(x)
        return LogProduct(self.log + one.log, self.zeros + one.zeros, self.negative + one.negative)

    def without(self, x: Array) -> LogProduct:
        """The product with the factor ``x`` taken out again."""
        one = LogProduct.of(x)
        return LogProduct(self.log - one.log, self.zeros - one.zeros, self.negative - one.negative)

    def value(self) -> Array:
        """The product; of vectors, scaled to a largest magnitude of 1 (all zero where every feature has a zero)."""
        log = np.where(self.zeros > 0, -np.inf, self.log)
        if log.ndim > 1:
            top = log.max(axis=tuple(range(1, log.ndim)), keepdims=True)
            log = log - np.where(np.isfinite(top), top, 0.0)
        return np.where(self.negative % 2 == 1, -1.0, 1.0) * np.exp(log)
