"""The array operations that the evaluation of expressions needs: NumPy here, other libraries in the engines that use
them.

A value of shape S over N vertices or edges is an array ``[N, *S]``. A value that is equal for all of them is ``[1,
*S]``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from harness.language.expressions import Expression
from harness.language.program import IDENTITY, Reducer

Array = Any  # of the library: NDArray[Any] with NumPy
Evaluate = Callable[[Expression], Array]

FUNCTIONS = {
    "add": "add", "sub": "subtract", "mul": "multiply", "div": "divide", "pow": "power", "min": "minimum",
    "max": "maximum", "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal", "eq": "equal",
    "ne": "not_equal", "and": "logical_and", "or": "logical_or", "neg": "negative", "abs": "abs", "sqrt": "sqrt",
    "floor": "floor", "exp": "exp", "log": "log", "not": "logical_not", "where": "where",
    "sum": "sum", "reduce_max": "amax", "reduce_min": "amin", "any": "any", "all": "all",
}  # fmt: skip


class Arrays:
    """The operations of expressions in a library that has NumPy's functions under NumPy's names.

    A subclass overrides the names or operations that differ in its library.
    """

    functions = FUNCTIONS

    def __init__(self, module: Any = np) -> None:
        self.module = module
        self._constants: dict[tuple[Any, ...], Array] = {}

    def call(self, op: str, *args: Any, **options: Any) -> Array:
        """Call the library's function for an operation of the language."""
        return getattr(self.module, self.functions[op])(*args, **options)

    # construction -------------------------------------------------------------------------------------------------
    def upload(self, values: NDArray[Any]) -> Array:
        """Return a NumPy array as an array of the library, with the same values and dtype; it may share memory."""
        return self.module.asarray(values)

    def download(self, array: Array) -> NDArray[Any]:
        """Return the array as a NumPy array, always a copy."""
        return np.array(array)

    def constant(self, values: NDArray[Any]) -> Array:
        """Return a small array, uploaded at its first use and cached; it must not be written to."""
        key = (values.tobytes(), values.dtype.str, values.shape)
        if key not in self._constants:
            self._constants[key] = self.upload(values)
        return self._constants[key]

    def copy(self, array: Array) -> Array:
        """Return a writable copy."""
        return array.copy()

    def cast(self, array: Array, dtype: DTypeLike) -> Array:
        """Convert the array to ``dtype``; copy only if the dtype differs."""
        return array.astype(dtype, copy=False)

    # operations ---------------------------------------------------------------------------------------------------
    def elementwise(self, node: Expression, evaluate: Evaluate, dtype: DTypeLike) -> Array:
        """Evaluate an elementwise node; ``evaluate`` computes its arguments."""
        rank = len(node.shape)
        args = [self.spread(evaluate(arg), rank) for arg in node.args]
        return self.cast(args[0], dtype) if node.op == "float" else self.call(node.op, *args)

    @staticmethod
    def spread(array: Array, rank: int) -> Array:
        """Append axes of length 1 until the array has ``rank`` axes after the first."""
        missing = rank - (array.ndim - 1)
        return array.reshape(tuple(array.shape) + (1,) * missing) if missing else array

    def reduce(self, op: str, array: Array) -> Array:
        """Reduce over all axes but the first."""
        return self.call(op, array, axis=tuple(range(1, array.ndim)))

    def over_rows(self, reducer: Reducer, array: Array) -> Array:
        """Reduce over the first axis; an empty array gives the reducer's identity."""
        if not len(array):
            return self.constant(np.full(array.shape[1:], IDENTITY[reducer], np.float32))
        if reducer in ("min", "max"):
            return getattr(self.module, f"a{reducer}")(array, 0)
        # float64, since NumPy adds rows sequentially
        return self.cast(getattr(self.module, reducer)(array, 0, dtype=np.float64), array.dtype)

    def broadcast(self, array: Array, shape: tuple[int, ...]) -> Array:
        """Return a view that repeats the array along axes of length 1."""
        return self.module.broadcast_to(array, shape)

    def stack(self, arrays: list[Array]) -> Array:
        """Stack arrays along a new axis 1; their shapes are equal, except that a first axis may have length 1."""
        count = rows_of(arrays)
        full = [self.broadcast(array, (count, *array.shape[1:])) for array in arrays]
        return self.module.stack(full, 1)

    def largest_products(self, a: Array, b: Array) -> Array:
        """Return ``[n, j]``, the maximum over i of ``a[n, i] * b[n, i, j]``; loops over i to avoid storing all
        products."""
        found = a[:, 0, None] * b[:, 0]
        for i in range(1, a.shape[1]):
            found = self.call("max", found, a[:, i, None] * b[:, i])
        return found

    def normalized(self, x: Array, kind: str) -> Array:
        """Normalise over the last axis; a zero vector stays zero in the L1 and L2 norms and gives a uniform softmax."""
        if kind == "softmax":
            e = self.call("exp", x - self.call("reduce_max", x, axis=-1)[..., None])
            return e / self.row_sums(e)[..., None]
        size = self.row_sums(self.call("abs", x)) if kind == "l1" else self.call("sqrt", self.row_sums(x * x))
        return x * (1 / (size + (size == 0)))[..., None]

    def row_sums(self, x: Array) -> Array:
        """Sum over the last axis."""
        # einsum: NumPy's sum over a short last axis is four times slower.
        return np.einsum("...k->...", x)

    def solve(self, a: Array, b: Array) -> Array:
        """Solve ``a x = b`` in batches, with a symmetric and positive definite; NaN for singular matrices."""
        count = rows_of([a, b])
        a, b = self.broadcast(a, (count, *a.shape[1:])), self.broadcast(b, (count, *b.shape[1:]))
        try:
            return np.linalg.solve(a, b[:, :, None])[:, :, 0]
        except np.linalg.LinAlgError:
            return np.stack([_or_nan(partial(np.linalg.solve, a[i], b[i]), b[i]) for i in range(count)])

    def invert(self, a: Array) -> Array:
        """Invert matrices in batches; NaN for singular matrices."""
        try:
            return np.linalg.inv(a)
        except np.linalg.LinAlgError:
            return np.stack([_or_nan(partial(np.linalg.inv, a[i]), a[i]) for i in range(len(a))])

    # supersteps ---------------------------------------------------------------------------------------------------
    def moved(self, old: Array, new: Array, tolerance: float, relative: bool) -> Array:
        """Return per vertex whether any feature moved by more than the tolerance; NaN always counts as moving."""
        if self.is_bool(new):
            return self.reduce("any", new != old) if new.ndim > 1 else new != old
        near = new == old  # covers equal infinities
        with np.errstate(invalid="ignore"):
            distance = self.call("abs", new - old)
            near |= distance <= (tolerance * self.call("abs", new) if relative else tolerance)
        return ~(self.reduce("all", near) if near.ndim > 1 else near)

    def within_sum(self, old: Array, new: Array, tolerance: float) -> Array:
        """Return whether in every column of ``[V]`` or ``[V, k]`` the sum of ``|new - old|`` is at most ``tolerance``
        times the sum of ``|new|``.

        The result is one truth value of the library. NaN is not within.
        """
        with np.errstate(invalid="ignore"):
            distance = self.call("where", new == old, 0.0, self.call("abs", new - old))
            moved, size = self.over_rows("sum", distance), self.over_rows("sum", self.call("abs", new))
            return (moved <= tolerance * size).all()

    @staticmethod
    def is_bool(array: Array) -> bool:
        """Return whether the dtype is bool."""
        return bool(array.dtype == np.bool_)


def rows_of(arrays: Sequence[Array]) -> int:
    """Return the common length of the first axis; arrays of length 1 are broadcast."""
    return next((len(array) for array in arrays if len(array) != 1), 1)


def _or_nan(compute: Callable[[], NDArray[Any]], like: NDArray[Any]) -> NDArray[Any]:
    try:
        return compute()
    except np.linalg.LinAlgError:
        return np.full_like(like, np.nan)


NUMPY = Arrays()
