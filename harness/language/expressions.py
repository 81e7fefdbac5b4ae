"""Typed expression graphs: the result of tracing a function.

An :class:`Expression` is an immutable node ``op(args; attribute)`` with a shape over the feature symbol :data:`K`, a
dtype (``float`` or ``bool``) and the author's source line. Shapes are ``()``, ``(K,)``, ``(M,)``, ``(M, K)`` or ``(K,
K)`` with M an int. Shapes are checked when a node is created, so an error names the line that created it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Any, Final, Literal, NoReturn, TypeAlias

import numpy as np

from harness.language.errors import LanguageError, SourceLine, user_line
from harness.language.numpy_calls import operator_of, plain_number, refusal
from harness.language.pretty import format_expression


class FeatureSymbol:
    """The number of features, symbolic until an engine is prepared."""

    def __repr__(self) -> str:
        return "K"

    def __reduce__(self) -> str:
        return "K"  # pickling and copying return the same object: shapes compare it by identity


K: Final = FeatureSymbol()
Dimension: TypeAlias = FeatureSymbol | int
Shape: TypeAlias = tuple[Dimension, ...]
DType: TypeAlias = Literal["float", "bool"]
Operand: TypeAlias = "Expression | float | int | bool"

ELEMENTWISE: Final = frozenset(
    [
        "add",
        "sub",
        "mul",
        "div",
        "pow",
        "neg",
        "abs",
        "floor",
        "sqrt",
        "exp",
        "log",
        "min",
        "max",
        "lt",
        "le",
        "gt",
        "ge",
        "eq",
        "ne",
        "and",
        "or",
        "not",
        "where",
        "float",
    ]
)
REDUCTIONS: Final = frozenset(["sum", "reduce_max", "reduce_min", "any", "all"])


def as_shape(shape: Shape | Dimension) -> Shape:
    """Return the shape as a tuple; ``K`` and ``3`` are shorthand for ``(K,)`` and ``(3,)``. Raises LanguageError."""
    dims = shape if isinstance(shape, tuple) else (shape,)
    for dim in dims:
        if not (dim is K or (isinstance(dim, int) and dim > 0)):
            raise LanguageError(f"a dimension is K or a positive int, not {dim!r}")
    if len(dims) > 2:
        raise LanguageError(f"a property has at most two dimensions, not {len(dims)}: {dims}")
    return dims


class Expression:
    """A node of a traced expression graph. ``key`` identifies the structure; ``==`` builds a comparison."""

    __slots__ = ("args", "attribute", "dtype", "key", "op", "shape", "where")
    key: str
    __hash__ = None  # type: ignore[assignment]  # `==` is traced, so sets and dicts must use .key

    def __init__(
        self,
        op: str,
        args: tuple[Expression, ...] = (),
        *,
        shape: Shape = (),
        dtype: DType = "float",
        attribute: Any = None,
        where: SourceLine | None = None,
    ) -> None:
        self.op, self.args, self.shape, self.dtype, self.attribute = op, args, shape, dtype, attribute
        self.where = where if where is not None else user_line()
        text = f"{op}|{shape}|{dtype}|{attribute!r}|{','.join(a.key for a in args)}"
        self.key = hashlib.blake2b(text.encode(), digest_size=12).hexdigest()

    # arithmetic -------------------------------------------------------------------------------------------------
    def __add__(self, other: Operand) -> Expression:
        return arithmetic("add", self, other)

    def __radd__(self, other: Operand) -> Expression:
        return arithmetic("add", other, self)

    def __sub__(self, other: Operand) -> Expression:
        return arithmetic("sub", self, other)

    def __rsub__(self, other: Operand) -> Expression:
        return arithmetic("sub", other, self)

    def __mul__(self, other: Operand) -> Expression:
        return arithmetic("mul", self, other)

    def __rmul__(self, other: Operand) -> Expression:
        return arithmetic("mul", other, self)

    def __truediv__(self, other: Operand) -> Expression:
        return arithmetic("div", self, other)

    def __rtruediv__(self, other: Operand) -> Expression:
        return arithmetic("div", other, self)

    def __pow__(self, other: Operand) -> Expression:
        return arithmetic("pow", self, other)

    def __rpow__(self, other: Operand) -> Expression:
        return arithmetic("pow", other, self)

    def __neg__(self) -> Expression:
        return arithmetic("neg", self)

    def __abs__(self) -> Expression:
        return arithmetic("abs", self)

    def __matmul__(self, other: Operand) -> Expression:
        return matrix_product(self, other)

    def __rmatmul__(self, other: Operand) -> Expression:
        return matrix_product(other, self)

    # comparison and logic ---------------------------------------------------------------------------------------
    def __lt__(self, other: Operand) -> Expression:
        return comparison("lt", self, other)

    def __le__(self, other: Operand) -> Expression:
        return comparison("le", self, other)

    def __gt__(self, other: Operand) -> Expression:
        return comparison("gt", self, other)

    def __ge__(self, other: Operand) -> Expression:
        return comparison("ge", self, other)

    def __eq__(self, other: object) -> Expression:  # type: ignore[override]
        return comparison("eq", self, _operand(other))

    def __ne__(self, other: object) -> Expression:  # type: ignore[override]
        return comparison("ne", self, _operand(other))

    def __and__(self, other: Operand) -> Expression:
        return logic("and", self, other)

    __rand__ = __and__

    def __or__(self, other: Operand) -> Expression:
        return logic("or", self, other)

    __ror__ = __or__

    def __invert__(self) -> Expression:
        return logic("not", self)

    # operations that a traced value does not support -------------------------------------------------------------
    def __bool__(self) -> NoReturn:
        raise LanguageError(
            "a traced value has no truth value while tracing: use where(condition, a, b) instead of "
            "if/and/or/not, & | ~ for logic, minimum() and maximum() instead of min() and max()"
        )

    def __iter__(self) -> Iterator[Expression]:
        raise LanguageError(
            "a traced value cannot be iterated over; write the operation on the whole vector: total(), "
            "largest(), smallest(), mean() reduce it, where() selects by feature"
        )

    def __len__(self) -> NoReturn:
        raise LanguageError("a traced value has no length while tracing; K is the number of features")

    def __float__(self) -> NoReturn:
        raise LanguageError(
            "a traced value is not a number while tracing; use exp(), log(), sqrt(), absolute(), where() of the "
            "language"
        )

    __int__ = __index__ = __complex__ = __round__ = __float__

    def __array_ufunc__(self, ufunc: Any, method: str, *arguments: Any, **_: Any) -> Expression:
        apply = operator_of(ufunc.__name__, method)
        result: Expression = apply(*(one if isinstance(one, Expression) else plain_number(one) for one in arguments))
        return result

    def __array_function__(self, function: Any, *_: Any) -> NoReturn:
        raise LanguageError(refusal(function.__name__))

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        raise LanguageError(refusal("array"))

    def __getitem__(self, index: int) -> Expression:
        """Return element or row ``index`` (a plain int) along a first dimension of known size."""
        if not self.shape or not isinstance(self.shape[0], int):
            raise LanguageError(f"only a first dimension of known size can be indexed; the shape is {self.shape}")
        if not isinstance(index, int) or not 0 <= index < self.shape[0]:
            raise LanguageError(f"index {index!r} is outside the first dimension of shape {self.shape}")
        return Expression("index", (self,), shape=self.shape[1:], dtype=self.dtype, attribute=index)

    @property
    def T(self) -> Expression:  # noqa: N802  # the usual mathematical name
        """The transpose of a matrix."""
        if len(self.shape) != 2:
            raise LanguageError(f"only a matrix can be transposed; the shape is {self.shape}")
        return Expression("transpose", (self,), shape=self.shape[::-1], dtype=self.dtype)

    def without(self, factor: Operand) -> Expression:
        """Return the aggregate with one contribution removed (of a sum or a product; in edge functions)."""
        if self.op != "read" or self.attribute[0] not in ("src", "dst"):
            raise LanguageError(
                "without() applies to an aggregate of the source or the destination itself, such as "
                "src.aggr.without(edge.reverse.msg)"
            )
        removed = _as_float(_operand(factor))
        if removed.shape != self.shape:
            raise LanguageError(
                f"the aggregate has shape {self.shape}, the removed contribution has shape {removed.shape}"
            )
        return Expression("without", (self, removed), shape=self.shape)

    def __repr__(self) -> str:
        return format_expression(self)


def constant(value: float | bool) -> Expression:
    """Return a constant scalar."""
    if isinstance(value, bool):
        return Expression("const", dtype="bool", attribute=value)
    return Expression("const", attribute=float(value))


def parameter(name: str, dtype: DType) -> Expression:
    """Return a run-time parameter, whose value is set when a run is reset."""
    return Expression("param", attribute=name, dtype=dtype)


def read(space: str, name: str, shape: Shape, dtype: DType) -> Expression:
    """Return the value of a property; ``space`` is src, dst, edge, reverse, v, graph or sent."""
    return Expression("read", shape=shape, dtype=dtype, attribute=(space, name))


def read_at(vertex: Expression, name: str, shape: Shape, dtype: DType) -> Expression:
    """Return the value of a property at the vertex that a scalar names."""
    return Expression("at", (vertex,), shape=shape, dtype=dtype, attribute=name)


def _operand(value: object) -> Expression:
    if isinstance(value, Expression):
        return value
    # `item` is called on arrays only: a vertex may have a property of that name.
    plain = value.item() if isinstance(value, (np.generic, np.ndarray)) and value.ndim == 0 else value
    if isinstance(plain, (bool, int, float)):
        return constant(plain)
    raise LanguageError(
        f"{value!r} of type {type(value).__name__} cannot appear in a traced expression; use numbers, fields of "
        "the algorithm and properties"
    )


def _as_float(value: Expression) -> Expression:
    return value if value.dtype == "float" else Expression("float", (value,), shape=value.shape)


def broadcast(what: str, *operands: Expression) -> Shape:
    """Return the common shape: a scalar combines with any shape, other shapes must be equal. Raises LanguageError."""
    shapes = {op.shape for op in operands if op.shape != ()}
    if len(shapes) > 1:
        met = " and ".join(str(op.shape) for op in operands)
        raise LanguageError(
            f"{what} got the shapes {met}; elementwise operations need equal shapes or a scalar. "
            "Use outer(a, b), a @ b, dot(a, b), or a reduction such as total(a)."
        )
    return shapes.pop() if shapes else ()


def arithmetic(op: str, *operands: Operand) -> Expression:
    """Build an elementwise operation on floats (bools count as 0 and 1)."""
    args = tuple(_as_float(_operand(value)) for value in operands)
    return Expression(op, args, shape=broadcast(op, *args))


def comparison(op: str, *operands: Operand) -> Expression:
    """Build an elementwise comparison; the result is a bool."""
    args = tuple(_as_float(_operand(value)) for value in operands)
    return Expression(op, args, shape=broadcast(op, *args), dtype="bool")


def logic(op: str, *operands: Operand) -> Expression:
    """Build an elementwise logical operation on bools. Raises LanguageError for floats."""
    args = tuple(_operand(value) for value in operands)
    for arg in args:
        if arg.dtype != "bool":
            raise LanguageError(f"{op} takes bools, not the float value {arg!r}; compare it first, as in x > 0")
    return Expression(op, args, shape=broadcast(op, *args), dtype="bool")


def matrix_product(left: Operand, right: Operand) -> Expression:
    """Build a vector-matrix, matrix-vector or matrix-matrix product, or the dot product of two vectors.

    Raises LanguageError if the inner dimensions differ.
    """
    a, b = _as_float(_operand(left)), _as_float(_operand(right))
    if not a.shape or not b.shape or a.shape[-1] != b.shape[0]:
        raise LanguageError(f"@ got the shapes {a.shape} and {b.shape}; the inner dimensions must agree")
    if len(a.shape) == len(b.shape) == 1:
        return Expression("dot", (a, b))
    return Expression("matmul", (a, b), shape=a.shape[:-1] + b.shape[1:])


def walk(*roots: Expression) -> Iterator[Expression]:
    """Yield every distinct node below ``roots``, arguments before their users."""
    seen: set[str] = set()
    pending = [(root, False) for root in reversed(roots)]
    while pending:
        node, expanded = pending.pop()
        if expanded:
            yield node
        elif node.key not in seen:
            seen.add(node.key)
            pending.append((node, True))
            pending += [(arg, False) for arg in reversed(node.args)]


def substitute(root: Expression, replace: Callable[[Expression], Expression | None]) -> Expression:
    """Return ``root`` with every node replaced for which ``replace`` returns another one; parents are rebuilt."""
    done: dict[str, Expression] = {}

    def rebuild(node: Expression) -> Expression:
        if node.key not in done:
            new = replace(node)
            if new is None:
                args = tuple(rebuild(arg) for arg in node.args)
                changed = any(a.key != b.key for a, b in zip(args, node.args, strict=True))
                new = (
                    node
                    if not changed
                    else Expression(
                        node.op, args, shape=node.shape, dtype=node.dtype, attribute=node.attribute, where=node.where
                    )
                )
            done[node.key] = new
        return done[node.key]

    return rebuild(root)
