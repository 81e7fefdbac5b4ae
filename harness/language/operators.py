"""The functions of the language, in addition to Python's operators. Shapes are checked at each call."""

from __future__ import annotations

from typing import Literal

from harness.language.errors import LanguageError
from harness.language.expressions import (
    Dimension,
    Expression,
    K,
    Operand,
    Shape,
    _as_float,
    _operand,
    arithmetic,
    as_shape,
    broadcast,
    matrix_product,
)

Norm = Literal["l1", "l2", "softmax"]


def where(condition: Operand, then: Operand, otherwise: Operand) -> Expression:
    """Select ``then`` where ``condition`` holds, else ``otherwise``; elementwise. The traced form of ``if``."""
    cond, a, b = _operand(condition), _operand(then), _operand(otherwise)
    if cond.dtype != "bool":
        raise LanguageError(f"where() takes a condition, not the float value {cond!r}; compare it first, as in x > 0")
    if a.dtype != b.dtype:
        a, b = _as_float(a), _as_float(b)
    return Expression("where", (cond, a, b), shape=broadcast("where", cond, a, b), dtype=a.dtype)


def minimum(a: Operand, b: Operand) -> Expression:
    """Return the elementwise smaller value; NaN if either is NaN."""
    return arithmetic("min", a, b)


def maximum(a: Operand, b: Operand) -> Expression:
    """Return the elementwise larger value; NaN if either is NaN."""
    return arithmetic("max", a, b)


def exp(x: Operand) -> Expression:
    """Return e to the power x, elementwise."""
    return arithmetic("exp", x)


def log(x: Operand) -> Expression:
    """Return the natural logarithm, elementwise."""
    return arithmetic("log", x)


def sqrt(x: Operand) -> Expression:
    """Return the square root, elementwise."""
    return arithmetic("sqrt", x)


def absolute(x: Operand) -> Expression:
    """Return the absolute value, elementwise; equivalent to ``abs(x)``."""
    return arithmetic("abs", x)


def hadamard_inverse(x: Operand) -> Expression:
    """Return 1 / x, elementwise."""
    return arithmetic("div", 1.0, x)


def _reduction(op: str, x: Operand) -> Expression:
    value = _operand(x)
    logical = op in ("any", "all")
    if logical and value.dtype != "bool":
        raise LanguageError(f"{op}() takes bools, not the float value {value!r}; compare it first, as in x > 0")
    if not value.shape:
        raise LanguageError(f"{op}() reduces over features; {value!r} is a scalar already")
    return Expression(op, (value if logical else _as_float(value),), dtype="bool" if logical else "float")


def total(x: Operand) -> Expression:
    """Sum over all features (all elements of a matrix)."""
    return _reduction("sum", x)


def largest(x: Operand) -> Expression:
    """Return the largest feature."""
    return _reduction("reduce_max", x)


def smallest(x: Operand) -> Expression:
    """Return the smallest feature."""
    return _reduction("reduce_min", x)


def any_feature(x: Operand) -> Expression:
    """Return whether any feature is true."""
    return _reduction("any", x)


def all_features(x: Operand) -> Expression:
    """Return whether all features are true."""
    return _reduction("all", x)


def mean(x: Operand) -> Expression:
    """Return the mean over all features."""
    value = _operand(x)
    return total(value) / total(full(value.shape, 1.0))


def norm(x: Operand, kind: Literal["l1", "l2", "max"] = "l2") -> Expression:
    """Return the L1, L2 or maximum norm over all features."""
    value = _operand(x)
    match kind:
        case "l1":
            return total(abs(value))
        case "l2":
            return sqrt(total(value * value))
        case "max":
            return largest(abs(value))
    raise LanguageError(f"norm() supports 'l1', 'l2' and 'max', not {kind!r}")


def normalize(x: Operand, kind: Norm = "l1") -> Expression:
    """Scale to L1 norm 1 (default) or L2 norm 1, or return the softmax; over the last dimension.

    In the L1 and L2 norms a zero vector stays zero; its softmax is uniform.
    """
    value = _operand(x)
    if kind not in ("l1", "l2", "softmax"):
        raise LanguageError(f"normalize() supports 'l1', 'l2' and 'softmax', not {kind!r}")
    if not value.shape:
        raise LanguageError("normalize() works over features; a scalar has none")
    return Expression("normalize", (_as_float(value),), shape=value.shape, attribute=kind)


def _vector(x: Operand, what: str) -> Expression:
    value = _as_float(_operand(x))
    if len(value.shape) != 1:
        raise LanguageError(f"{what} takes vectors, not the shape {value.shape}")
    return value


def dot(a: Operand, b: Operand) -> Expression:
    """Return the dot product of two vectors of equal shape: a scalar."""
    return matrix_product(_vector(a, "dot()"), _vector(b, "dot()"))


def outer(a: Operand, b: Operand) -> Expression:
    """Return the outer product, of shape ``(n, m)``, of vectors of shape ``(n,)`` and ``(m,)``."""
    left, right = _vector(a, "outer()"), _vector(b, "outer()")
    return Expression("outer", (left, right), shape=left.shape + right.shape)


def max_product(vector: Operand, matrix: Operand) -> Expression:
    """Return ``vector @ matrix`` with the maximum instead of the sum.

    Element j is the maximum over i of ``vector[i] * matrix[i, j]``; NaN if one of these is NaN.
    """
    left, right = _vector(vector, "max_product()"), _as_float(_operand(matrix))
    if len(right.shape) != 2 or right.shape[0] != left.shape[0]:
        raise LanguageError(f"max_product() got the shapes {left.shape} and {right.shape}; it takes (n,) and (n, m)")
    return Expression("max_product", (left, right), shape=right.shape[1:])


def transpose(a: Expression) -> Expression:
    """Return the transpose of a matrix; equivalent to ``a.T``."""
    return a.T


def eye(n: Dimension = K) -> Expression:
    """Return the identity matrix of shape ``(n, n)``."""
    return Expression("eye", shape=(n, n))


def full(shape: Shape | Dimension, value: Operand) -> Expression:
    """Broadcast a scalar value to a shape."""
    scalar = _as_float(_operand(value))
    if scalar.shape:
        raise LanguageError(f"full() broadcasts a scalar, not the shape {scalar.shape}")
    return Expression("full", (scalar,), shape=as_shape(shape))


def stack(*rows: Operand) -> Expression:
    """Stack scalars to a vector, or vectors of equal shape to a matrix, along a new first dimension."""
    values = tuple(_as_float(_operand(row)) for row in rows)
    if not values or len({value.shape for value in values}) > 1 or len(values[0].shape) > 1:
        raise LanguageError(f"stack() takes scalars or vectors of one shape, not {[v.shape for v in values]}")
    return Expression("stack", values, shape=(len(values), *values[0].shape))


def _square(a: Operand, what: str) -> Expression:
    matrix = _as_float(_operand(a))
    if len(matrix.shape) != 2 or matrix.shape[0] != matrix.shape[1]:
        raise LanguageError(f"{what} takes a square matrix, not the shape {matrix.shape}")
    return matrix


def solve_spd(a: Operand, b: Operand) -> Expression:
    """Solve ``a @ x = b`` for a symmetric positive definite matrix; for other matrices the result is undefined."""
    matrix, right = _square(a, "solve_spd()"), _vector(b, "solve_spd()")
    if matrix.shape[0] != right.shape[0]:
        raise LanguageError(f"solve_spd() got the shapes {matrix.shape} and {right.shape}; they must agree")
    return Expression("solve_spd", (matrix, right), shape=right.shape)


def inverse(a: Operand) -> Expression:
    """Return the inverse of a square matrix (NaN if it is singular)."""
    matrix = _square(a, "inverse()")
    return Expression("inverse", (matrix,), shape=matrix.shape)
