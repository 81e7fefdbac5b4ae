"""What evaluating expressions asks of a library of arrays: NumPy here, others by the engines that use them.

A value of shape S over N vertices or edges is an array ``[N, *S]``; one that is the same everywhere is ``[1, *S]``.
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

    What a library calls or does otherwise, its subclass overrides.
    """

    functions = FUNCTIONS

    def __init__(self, module: Any = np) -> None:
        self.module = module
        self._constants: dict[tuple[Any, ...], Array] = {}

    def call(self, op: str, *args: Any, **options: Any) -> Array:
        """The library's function for an operation of the language."""
        return getattr(self.module, self.functions[op])(*args, **options)

    # making -------------------------------------------------------------------------------------------------------
    def upload(self, values: NDArray[Any]) -> Array:
        """An array of the library, with the values and the dtype of one of NumPy's; possibly that very one."""
        return self.module.asarray(values)

    def download(self, array: Array) -> NDArray[Any]:
        """A NumPy array of one's own."""
        return np.array(array)

    def constant(self, values: NDArray[Any]) -> Array:
        """A small array, uploaded when it is first met; not to be written to."""
        key = (values.tobytes(), values.dtype.str, values.shape)
        if key not in self._constants:
            self._constants[key] = self.upload(values)
        return self._constants[key]

    def copy(self, array: Array) -> Array:
        """A copy to write to."""
        return array.copy()

    def cast(self, array: Array, dtype: DTypeLike) -> Array:
        """The array in that dtype, copied only where it has another."""
        return array.astype(dtype, copy=False)

    # operations ---------------------------------------------------------------------------------------------------
    def elementwise(self, node: Expression, evaluate: Evaluate, dtype: DTypeLike) -> Array:
        """The value of an elementwise node, whose arguments ``evaluate`` gives."""
        rank = len(node.shape)
        args = [self.spread(evaluate(arg), rank) for arg in node.args]
        return self.cast(args[0], dtype) if node.op == "float" else self.call(node.op, *args)

    @staticmethod
    def spread(array: Array, rank: int) -> Array:
        """The array with so many axes behind the first."""
        missing = rank - (array.ndim - 1)
        return array.reshape(tuple(array.shape) + (1,) * missing) if missing else array

    def reduce(self, op: str, array: Array) -> Array:
        """Over all axes but the first."""
        return self.call(op, array, axis=tuple(range(1, array.ndim)))

    def over_rows(self, reducer: Reducer, array: Array) -> Array:
        """Over the first axis; the reducer's identity where there are no rows."""
        if not len(array):
            return self.constant(np.full(array.shape[1:], IDENTITY[reducer], np.float32))
        if reducer in ("min", "max"):
            return getattr(self.module, f"a{reducer}")(array, 0)
        # in float64: NumPy adds rows one after another
        return self.cast(getattr(self.module, reducer)(array, 0, dtype=np.float64), array.dtype)

    def broadcast(self, array: Array, shape: tuple[int, ...]) -> Array:
        """A view that repeats the array along axes of length 1."""
        return self.module.broadcast_to(array, shape)

    def stack(self, arrays: list[Array]) -> Array:
        """Arrays of equal shape, but for a first axis of length 1, side by side along a new axis 1."""
        count = rows_of(arrays)
        full = [self.broadcast(array, (count, *array.shape[1:])) for array in arrays]
        return self.module.stack(full, 1)

    def largest_products(self, a: Array, b: Array) -> Array:
        """``[n, j]``, the largest over i of ``a[n, i] * b[n, i, j]``, row by row as all products at once are large."""
        found = a[:, 0, None] * b[:, 0]
        for i in range(1, a.shape[1]):
            found = self.call("max", found, a[:, i, None] * b[:, i])
        return found

    def normalized(self, x: Array, kind: str) -> Array:
        """Normalised over the last axis; in the L1 and L2 norms a zero vector stays zero (its softmax is uniform)."""
        if kind == "softmax":
            e = self.call("exp", x - self.call("reduce_max", x, axis=-1)[..., None])
            return e / self.row_sums(e)[..., None]
        size = self.row_sums(self.call("abs", x)) if kind == "l1" else self.call("sqrt", self.row_sums(x * x))
        return x * (1 / (size + (size == 0)))[..., None]

    def row_sums(self, x: Array) -> Array:
        """Sums over the last axis."""
        # einsum, as NumPy's sum over a short last axis is four times slower
        return np.einsum("...k->...", x)

    def solve(self, a: Array, b: Array) -> Array:
        """Batched ``a x = b``, a symmetric and positive definite; NaN where a matrix is singular."""
        count = rows_of([a, b])
        a, b = self.broadcast(a, (count, *a.shape[1:])), self.broadcast(b, (count, *b.shape[1:]))
        try:
            return np.linalg.solve(a, b[:, :, None])[:, :, 0]
        except np.linalg.LinAlgError:
            return np.stack([_or_nan(partial(np.linalg.solve, a[i], b[i]), b[i]) for i in range(count)])

    def invert(self, a: Array) -> Array:
        """Batched inverse; NaN where a matrix is singular."""
        try:
            return np.linalg.inv(a)
        except np.linalg.LinAlgError:
            return np.stack([_or_nan(partial(np.linalg.inv, a[i]), a[i]) for i in range(len(a))])

    # supersteps ---------------------------------------------------------------------------------------------------
    def moved(self, old: Array, new: Array, tolerance: float, relative: bool) -> Array:
        """Per vertex: whether any feature moved by more than the tolerance. NaN always counts as moving."""
        if self.is_bool(new):
            return self.reduce("any", new != old) if new.ndim > 1 else new != old
        near = new == old  # equal infinities are near, too
        with np.errstate(invalid="ignore"):
            distance = self.call("abs", new - old)
            near |= distance <= (tolerance * self.call("abs", new) if relative else tolerance)
        return ~(self.reduce("all", near) if near.ndim > 1 else near)

    def within_sum(self, old: Array, new: Array, tolerance: float) -> Array:
        """Whether in every column of ``[V]`` or ``[V, k]`` the distances from old to new add up to no more than
        ``tolerance`` times the sum of the new magnitudes: one truth value of the library. NaN is not within."""
        with np.errstate(invalid="ignore"):
            distance = self.call("where", new == old, 0.0, self.call("abs", new - old))
            moved, size = self.over_rows("sum", distance), self.over_rows("sum", self.call("abs", new))
            return (moved <= tolerance * size).all()

    @staticmethod
    def is_bool(array: Array) -> bool:
        """Whether these are truth values."""
        return bool(array.dtype == np.bool_)


def rows_of(arrays: Sequence[Array]) -> int:
    """The length of the first axis that arrays have together, some of which may have one row for all."""
    return next((len(array) for array in arrays if len(array) != 1), 1)


def _or_nan(compute: Callable[[], NDArray[Any]], like: NDArray[Any]) -> NDArray[Any]:
    try:
        return compute()
    except np.linalg.LinAlgError:
        return np.full_like(like, np.nan)


NUMPY = Arrays()
