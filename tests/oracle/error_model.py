"""How far an answer in float32 may be from the exact one: the error model that every oracle uses.

Nothing here is fitted to an engine. ``U`` is the unit roundoff of float32. A sum of d rounded products, in any order,
has a relative error of at most (d + 1) * U if all terms are nonnegative (Higham, *Accuracy and Stability of Numerical
Algorithms*, 2002, section 4.2). A superstep of x -> T x + b with T >= 0 adds its rounding r to what the errors of the
sources become: e -> T (e + l) + r. An engine that propagates changes only leaves out l, a share of the tolerance t.
A run settles when a superstep moves x by no more than t, so its distance to the fixed point is at most the solution e
of e = T (e + t + l) + r. Where t limits the L1 norm of a column and T shrinks that norm by alpha, the L1 norm of the
error is at most alpha t / (1 - alpha) beside the other two.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

Array = NDArray[np.float64]
U = 2.0**-24
WORST = (True, False)  # at worst, and on average over many vertices
LEFT_OUT = 0.25  # of the tolerance: the largest change that is not propagated (harness.language.criterion)
TINY = 2.0**-126  # the smallest normal float32: below it an engine may flush to zero


@dataclass(frozen=True)
class Expected:
    """The right values and the allowed errors.

    value: float64[V, k]. allowed: float64[V, k], the largest absolute error of each entry; 0 requires equality.
    column: float64[k], the largest sum of absolute errors in each column. source: how the value was computed.
    """

    value: Array
    allowed: Array
    column: Array
    source: str

    @classmethod
    def within(cls, value: Array, allowed: Array, source: str) -> Expected:
        """Return bounds per entry; a column may use all of them."""
        return cls(value, allowed, allowed.sum(axis=0), source)

    def wider(self, column: Array) -> Expected:
        """Return these bounds plus further errors with a known sum over each column: float64[k]."""
        return replace(self, allowed=self.allowed + column, column=self.column + column)

    @classmethod
    def exact(cls, value: Array, source: str) -> Expected:
        """Require equality at every entry."""
        return cls(value, np.zeros_like(value), np.zeros(value.shape[1]), source)

    def ratio(self, got: NDArray[np.generic]) -> float:
        """Return the largest error over its bound, over entries and columns; infinity if a bound of 0 is exceeded.

        Infinite values must agree exactly. NaN counts as infinitely wrong.
        """
        got = np.asarray(got, np.float64).reshape(self.value.shape)
        same = got == self.value
        with np.errstate(invalid="ignore"):
            error = np.where(same, 0.0, np.abs(got - self.value))
        error[np.isnan(error)] = np.inf
        columns = np.where(np.isfinite(self.value), error, 0.0).sum(axis=0)
        return max(_worst(error, self.allowed), _worst(columns, self.column))

    def place(self, got: NDArray[np.generic]) -> str:
        """Describe the entry of the largest error over its bound."""
        got = np.asarray(got, np.float64).reshape(self.value.shape)
        with np.errstate(invalid="ignore", divide="ignore"):
            error = np.where(got == self.value, 0.0, np.abs(got - self.value) / self.allowed)
        v, f = np.unravel_index(int(np.nan_to_num(error, nan=np.inf, posinf=np.inf).argmax()), error.shape)
        return f"[{v}, {f}]: {got[v, f]!r} for {self.value[v, f]!r}, allowed error {self.allowed[v, f]:.3g}"


def summed(terms: NDArray[np.generic], worst: bool) -> Array:
    """Return the relative error of a float32 sum of nonnegative terms, in units of U.

    worst: for any order and any terms. Otherwise the error that holds on average over many vertices, where rounding
    errors of both signs cancel: it grows with the root of the number (Higham and Mary, "A new approach to
    probabilistic rounding error analysis", SIAM Journal on Scientific Computing 41(5), 2019).
    """
    count = np.asarray(terms, np.float64)
    return count if worst else np.minimum(count, 2 * np.sqrt(count))


def combined(value: Array, worst: Array, average: Array, source: str) -> Expected:
    """Combine bounds: the worst errors for each entry, the average ones for the sum over a column."""
    return Expected(value, worst, average.sum(axis=0), source)


def _worst(error: Array, allowed: Array) -> float:
    wrong = error > 0
    if not wrong.any():
        return 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = error[wrong] / np.broadcast_to(allowed, error.shape)[wrong]
    return float(np.nan_to_num(ratio, nan=np.inf, posinf=np.inf).max())


def in_matrix(num_vertices: int, source: Array, destination: Array, weight: Array) -> sp.csr_array:
    """Return the matrix whose product with ``[V, k]`` sums over in-edges: entry [v, u] is the total weight of u ->
    v."""
    ends = (np.asarray(destination, np.int64), np.asarray(source, np.int64))
    return sp.csr_array(sp.coo_array((np.asarray(weight, np.float64), ends), shape=(num_vertices, num_vertices)))
