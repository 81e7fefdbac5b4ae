"""Evaluating expressions over whole arrays with NumPy: the reference in float64, the SciPy engine in float32.

A value of shape S over N vertices or edges is an array ``[N, *S]``; one that is the same everywhere is ``[1, *S]``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from harness.language.expressions import Dimension, Expression, K, Shape

Array = NDArray[Any]
Read = Callable[[str, str], Array]
Without = Callable[[str, str, Array], Array]


def concrete(shape: Shape, features: int) -> tuple[int, ...]:
    """The shape with K replaced by the number of features."""
    return tuple(features if dim is K else _size(dim) for dim in shape)


def _size(dim: Dimension) -> int:
    assert isinstance(dim, int)
    return dim


_BINARY: dict[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "pow": np.power, "min": np.minimum,
    "max": np.maximum, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal,
    "ne": np.not_equal, "and": np.logical_and, "or": np.logical_or,
}  # fmt: skip
_UNARY: dict[str, Callable[..., Any]] = {
    "neg": np.negative, "abs": np.abs, "sqrt": np.sqrt,
    "floor": np.floor, "exp": np.exp, "log": np.log, "not": np.logical_not
}  # fmt: skip
_REDUCE: dict[str, Callable[..., Any]] = {
    "sum": np.sum, "reduce_max": np.max, "reduce_min": np.min, "any": np.any, "all": np.all
}  # fmt: skip


class Evaluator:
    """Evaluates expressions that share their reads; equal subexpressions are computed once.

    ``read(space, name)`` gives the property's values as ``[N, *shape]``; ``without(space, name, factor)`` the
    aggregate of that name with one contribution taken out.
    """

    def __init__(
        self,
        read: Read,
        parameters: Mapping[str, float],
        features: int,
        dtype: DTypeLike = np.float64,
        without: Without | None = None,
    ) -> None:
        self._read, self._parameters, self._features, self._dtype = read, parameters, features, np.dtype(dtype)
        self._without = without
        self._done: dict[str, Array] = {}

    def __call__(self, node: Expression) -> Array:
        """The value of ``node``: dtype as given (bool for conditions)."""
        if node.key not in self._done:
            with np.errstate(all="ignore"):  # infinities and NaN are legal values; validation judges them
                value = np.asarray(self._apply(node))
            self._done[node.key] = value if node.dtype == "bool" else value.astype(self._dtype, copy=False)
        return self._done[node.key]

    def _apply(self, node: Expression) -> Array:
        op = node.op
        match op:
            case "read":
                return self._read(*node.attribute)
            case "const":
                return np.asarray([node.attribute], self._dtype if node.dtype == "float" else np.bool_)
            case "param":
                value = self._parameters[node.attribute]
                return np.asarray([bool(value) if node.dtype == "bool" else value])
            case "without":
                if self._without is None:
                    raise NotImplementedError("aggregates cannot be taken apart here")
                space, name = node.args[0].attribute
                return self._without(space, name, self(node.args[1]))
            case "eye":
                return np.asarray(np.eye(concrete(node.shape, self._features)[0])[None])
        args = [self(arg) for arg in node.args]
        if op in _BINARY or op in _UNARY or op in ("where", "float"):
            return self._elementwise(node, args)
        return self._structural(node, args)

    def _elementwise(self, node: Expression, args: list[Array]) -> Array:
        rank = len(node.shape)
        spread = [a.reshape(a.shape + (1,) * (rank - (a.ndim - 1))) for a in args]
        if node.op == "where":
            return np.where(spread[0], spread[1], spread[2])
        if node.op == "float":
            return spread[0].astype(self._dtype)
        operation: Callable[..., Any] = (_UNARY if node.op in _UNARY else _BINARY)[node.op]
        return np.asarray(operation(*spread))

    def _structural(self, node: Expression, args: list[Array]) -> Array:
        match node.op:
            case op if op in _REDUCE:
                return np.asarray(_REDUCE[op](args[0], axis=tuple(range(1, args[0].ndim))))
            case "dot":
                return np.asarray((args[0] * args[1]).sum(axis=1))
            case "outer":
                return np.asarray(args[0][:, :, None] * args[1][:, None, :])
            case "matmul":
                return self._matmul(node, *args)
            case "max_product":
                return largest_products(*args)
            case "transpose":
                return args[0].swapaxes(1, 2)
            case "index":
                return args[0][:, node.attribute]
            case "stack":
                return np.stack(np.broadcast_arrays(*args), axis=1)
            case "full":
                shape = concrete(node.shape, self._features)
                return np.broadcast_to(args[0].reshape(-1, *(1,) * len(shape)), (len(args[0]), *shape))
            case "normalize":
                return normalized(args[0], node.attribute)
            case "solve_spd":
                return solve(args[0], args[1])
            case "inverse":
                return invert(args[0])
        raise NotImplementedError(f"operation {node.op!r} cannot be evaluated over arrays")

    @staticmethod
    def _matmul(node: Expression, a: Array, b: Array) -> Array:
        ranks = (len(node.args[0].shape), len(node.args[1].shape))
        if ranks == (1, 2) and len(b) == 1:  # one matrix for all rows: a single large product
            return np.asarray(a @ b[0])
        if ranks == (1, 2):
            return np.asarray(np.matmul(a[:, None, :], b)[:, 0, :])
        if ranks == (2, 1):
            return np.asarray(np.matmul(a, b[:, :, None])[:, :, 0])
        return np.asarray(np.matmul(a, b))


def largest_products(a: Array, b: Array) -> Array:
    """``[n, j]``, the largest over i of ``a[n, i] * b[n, i, j]``, row by row as all products at once are large."""
    found = a[:, 0, None] * b[:, 0]
    for i in range(1, a.shape[1]):
        np.maximum(found, a[:, i, None] * b[:, i], out=found)
    return np.asarray(found)


def normalized(x: Array, kind: str) -> Array:
    """Normalised over the last axis; in the L1 and L2 norms a zero vector stays zero (its softmax is uniform)."""
    if kind == "softmax":
        e = np.exp(x - x.max(axis=-1, keepdims=True))
        return np.asarray(e / e.sum(axis=-1, keepdims=True))
    # einsum, as NumPy's sum over a short last axis is four times slower
    size = np.einsum("...k->...", np.abs(x)) if kind == "l1" else np.sqrt(np.einsum("...k,...k->...", x, x))
    return np.asarray(x * (1 / np.where(size == 0, x.dtype.type(1), size))[..., None])


def solve(a: Array, b: Array) -> Array:
    """Batched ``a x = b``; NaN where a matrix is singular."""
    (n,) = np.broadcast_shapes(a.shape[:1], b.shape[:1])
    a, b = np.broadcast_to(a, (n, *a.shape[1:])), np.broadcast_to(b, (n, *b.shape[1:]))
    try:
        return np.linalg.solve(a, b[:, :, None])[:, :, 0]
    except np.linalg.LinAlgError:
        return np.stack([_or_nan(partial(np.linalg.solve, a[i], b[i]), b[i]) for i in range(n)])


def invert(a: Array) -> Array:
    """Batched inverse; NaN where a matrix is singular."""
    try:
        return np.linalg.inv(a)
    except np.linalg.LinAlgError:
        return np.stack([_or_nan(partial(np.linalg.inv, a[i]), a[i]) for i in range(len(a))])


def _or_nan(compute: Callable[[], Array], like: Array) -> Array:
    try:
        return compute()
    except np.linalg.LinAlgError:
        return np.full_like(like, np.nan)
