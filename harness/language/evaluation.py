"""Evaluation of expressions over whole arrays: NumPy in float64 for the reference, any library in float32 for engines.

A value of shape S over N vertices or edges is an array ``[N, *S]``. A value that is equal for all of them is ``[1,
*S]``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import DTypeLike

from harness.language.arrays import NUMPY, Array, Arrays
from harness.language.expressions import ELEMENTWISE, REDUCTIONS, Dimension, Expression, K, Shape

Read = Callable[[str, str], Array]
Without = Callable[[str, str, Array], Array]
At = Callable[[str, Array], Array]


def concrete(shape: Shape, features: int) -> tuple[int, ...]:
    """Return the shape with K replaced by the number of features."""
    return tuple(features if dim is K else _size(dim) for dim in shape)


def _size(dim: Dimension) -> int:
    assert isinstance(dim, int)
    return dim


class Evaluator:
    """Evaluates expressions that share their reads; equal subexpressions are computed once.

    ``read(space, name)`` returns the property's values as ``[N, *shape]``. ``without(space, name, factor)`` returns the
    aggregate of that name with one contribution removed. ``at(name, vertices)`` returns a property at the vertices that
    ``[N]`` or ``[1]`` numbers name. ``arrays``: the library of all arrays.
    """

    def __init__(
        self,
        read: Read,
        parameters: Mapping[str, float],
        features: int,
        dtype: DTypeLike = np.float64,
        without: Without | None = None,
        arrays: Arrays = NUMPY,
        at: At | None = None,
    ) -> None:
        self._at = at
        self._read, self._parameters, self._features, self._dtype = read, parameters, features, np.dtype(dtype)
        self._without, self._arrays = without, arrays
        self._done: dict[str, Array] = {}
        self._silent = False

    def __call__(self, node: Expression) -> Array:
        """Return the value of ``node`` in the given dtype (bool for conditions)."""
        if node.key not in self._done:
            if self._silent:
                self._evaluate(node)
            else:  # only around the outermost node, since it takes longer than an operation on few numbers
                self._silent = True
                try:
                    with np.errstate(all="ignore"):  # infinities and NaN are legal values; validation checks them
                        self._evaluate(node)
                finally:
                    self._silent = False
        return self._done[node.key]

    def _evaluate(self, node: Expression) -> None:
        value = self._apply(node)
        self._done[node.key] = value if node.dtype == "bool" else self._arrays.cast(value, self._dtype)

    def _apply(self, node: Expression) -> Array:
        match node.op:
            case "read":
                return self._read(*node.attribute)
            case "at":
                if self._at is None:
                    raise NotImplementedError("this evaluator cannot read at named vertices")
                return self._at(node.attribute, self(node.args[0]))
            case "const":
                kind = self._dtype if node.dtype == "float" else np.bool_
                return self._arrays.constant(np.asarray([node.attribute], kind))
            case "param":
                value = self._parameters[node.attribute]
                kind = self._dtype if node.dtype == "float" else np.bool_
                return self._arrays.constant(np.asarray([value]).astype(kind))
            case "without":
                if self._without is None:
                    raise NotImplementedError("this evaluator cannot remove a contribution from an aggregate")
                space, name = node.args[0].attribute
                return self._without(space, name, self(node.args[1]))
            case "eye":
                size = concrete(node.shape, self._features)[0]
                return self._arrays.constant(np.eye(size, dtype=self._dtype)[None])
        if node.op in ELEMENTWISE:
            return self._arrays.elementwise(node, self, self._dtype)
        return self._structural(node, [self(arg) for arg in node.args])

    def _structural(self, node: Expression, args: list[Array]) -> Array:
        arrays = self._arrays
        match node.op:
            case op if op in REDUCTIONS:
                return arrays.reduce(op, args[0])
            case "dot":
                return arrays.reduce("sum", args[0] * args[1])
            case "outer":
                return args[0][:, :, None] * args[1][:, None, :]
            case "matmul":
                return self._matmul(node, *args)
            case "max_product":
                return arrays.largest_products(*args)
            case "transpose":
                return args[0].swapaxes(1, 2)
            case "index":
                return args[0][:, node.attribute]
            case "stack":
                return arrays.stack(args)
            case "full":
                shape = concrete(node.shape, self._features)
                return arrays.broadcast(arrays.spread(args[0], len(shape)), (len(args[0]), *shape))
            case "normalize":
                return arrays.normalized(args[0], node.attribute)
            case "solve_spd":
                return arrays.solve(args[0], args[1])
            case "inverse":
                return arrays.invert(args[0])
        raise NotImplementedError(f"operation {node.op!r} cannot be evaluated over arrays")

    @staticmethod
    def _matmul(node: Expression, a: Array, b: Array) -> Array:
        ranks = (len(node.args[0].shape), len(node.args[1].shape))
        if ranks == (1, 2) and len(b) == 1:  # one matrix for all rows: a single large product
            return a @ b[0]
        if ranks == (1, 2):
            return (a[:, None, :] @ b)[:, 0, :]
        if ranks == (2, 1):
            return (a @ b[:, :, None])[:, :, 0]
        return a @ b
