"""CuPy arrays for the evaluation of expressions: CuPy's generator makes each formula one kernel."""

from __future__ import annotations

import math
from typing import Any

import cupy
import numpy as np
from numpy.typing import DTypeLike, NDArray

from engines.libraries import cupy_rows
from harness.api import ELEMENTWISE, Arrays, Expression

Array = Any  # cupy.ndarray
_INFINITY = "__int_as_float(0x7f800000)"
_SYMBOLS = {
    "add": "({0} + {1})", "sub": "({0} - {1})", "mul": "({0} * {1})", "div": "({0} / {1})", "pow": "powf({0}, {1})",
    "lt": "({0} < {1})", "le": "({0} <= {1})", "gt": "({0} > {1})", "ge": "({0} >= {1})", "eq": "({0} == {1})",
    "ne": "({0} != {1})", "and": "({0} && {1})", "or": "({0} || {1})", "neg": "(-{0})", "abs": "fabsf({0})",
    "sqrt": "sqrtf({0})", "floor": "floorf({0})", "exp": "expf({0})", "log": "logf({0})", "not": "(!{0})",
    "where": "({0} ? {1} : {2})", "float": "(float)({0})",
    # both propagate NaN, as NumPy's do
    "min": "(isnan({0}) || {0} < {1} ? {0} : {1})", "max": "(isnan({0}) || {0} > {1} ? {0} : {1})",
}  # fmt: skip
_REDUCERS = {"sum": "sum", "reduce_max": "max", "reduce_min": "min", "any": "any", "all": "all"}  # of expressions
_TYPES = {"float": "float32", "bool": "bool"}


class CupyArrays(Arrays):
    """Arrays on the current CUDA device."""

    def __init__(self) -> None:
        super().__init__(cupy)
        self._kernels: dict[str, tuple[Any, list[Expression], list[str]]] = {}

    def download(self, array: Array) -> NDArray[Any]:
        """Return a copy on the host."""
        return np.array(cupy.asnumpy(array))

    def elementwise(self, node: Expression, evaluate: Any, dtype: DTypeLike) -> Array:
        """Evaluate a whole formula in one kernel: the largest tree of elementwise operations below the node."""
        if node.key not in self._kernels:
            self._kernels[node.key] = _kernel(node)
        kernel, leaves, _ = self._kernels[node.key]
        if kernel is None:  # only constants
            return super().elementwise(node, evaluate, dtype)
        rank = len(node.shape)
        return kernel(*(self.spread(evaluate(leaf), rank) for leaf in leaves))

    def reduce(self, op: str, array: Array) -> Array:
        """Reduce over all axes but the first."""
        return cupy_rows.reduced(array, _REDUCERS[op])

    def over_rows(self, reducer: str, array: Array) -> Array:
        """Reduce over the first axis; an empty array gives the reducer's identity."""
        if not len(array) or self.is_bool(array):
            return super().over_rows(reducer, array)
        return cupy_rows.over_rows(array, reducer)

    def row_sums(self, x: Array) -> Array:
        """Return the sums over the last axis."""
        return cupy_rows.row_sums(x)

    def normalized(self, x: Array, kind: str) -> Array:
        """Normalise over the last axis in one kernel."""
        return cupy_rows.normalized(x, kind)

    def solve(self, a: Array, b: Array) -> Array:
        """Solve all systems at once with cuBLAS; the result is not finite if a matrix is singular."""
        count = max(len(a), len(b)) if len(a) and len(b) else 0
        if not count:
            return cupy.empty((0, b.shape[1]), np.float32)
        a, b = self.broadcast(a, (count, *a.shape[1:])), self.broadcast(b, (count, *b.shape[1:]))
        return cupy.linalg.solve(a, b[:, :, None])[:, :, 0]

    def invert(self, a: Array) -> Array:
        """Invert all matrices at once with cuBLAS; the result is not finite if a matrix is singular."""
        return cupy.linalg.inv(a)

    def moved(self, old: Array, new: Array, tolerance: float, relative: bool) -> Array:
        """Return for each vertex whether any feature moved by more than the tolerance."""
        if self.is_bool(new):
            return super().moved(old, new, tolerance, relative)
        return cupy_rows.moved(old, new, tolerance, relative)


def _kernel(node: Expression) -> tuple[Any, list[Expression], list[str]]:
    """Return the kernel of a formula, its arguments, and its statements; no kernel if there are no arguments."""
    leaves: dict[str, tuple[str, Expression]] = {}
    names: dict[str, str] = {}
    statements: list[str] = []

    def name(part: Expression) -> str:
        if part.key in names:
            return names[part.key]
        if part.op == "const":
            return _number(part)
        if part.op not in ELEMENTWISE:
            leaves[part.key] = (f"x{len(leaves)}", part)
            names[part.key] = leaves[part.key][0]
            return names[part.key]
        value = _SYMBOLS[part.op].format(*(name(arg) for arg in part.args))
        names[part.key] = f"t{len(statements)}"
        statements.append(f"{part.dtype} {names[part.key]} = {value};")
        return names[part.key]

    result = name(node)
    if not leaves:
        return None, [], statements
    arguments = ", ".join(f"{_TYPES[leaf.dtype]} {argument}" for argument, leaf in leaves.values())
    body = "\n".join([*statements, f"out = {result};"])
    kernel = cupy.ElementwiseKernel(arguments, f"{_TYPES[node.dtype]} out", body, f"formula_{node.key}")
    return kernel, [leaf for _, leaf in leaves.values()], statements


def _number(node: Expression) -> str:
    if node.dtype == "bool":
        return "true" if node.attribute else "false"
    value = float(np.float32(node.attribute))
    if math.isinf(value):
        return _INFINITY if value > 0 else f"(-{_INFINITY})"
    return "__int_as_float(0x7fffffff)" if math.isnan(value) else f"({value!r}f)"
