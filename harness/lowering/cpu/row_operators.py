"""Python's operators on rows in compiled code: typing and lowering.

Operands are rows of one type, or one row and scalars, which are converted to the row's element type.  Rows of numbers
take + - * / **, unary + and -, and the comparisons, which give masks; masks take & | ^ ~ == !=.
a * b + c may be fused.
"""

# mypy: allow-untyped-calls, allow-untyped-decorators, allow-subclassing-any, no-warn-return-any
from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.core.errors import TypingError
from numba.core.imputils import lower_builtin
from numba.core.typing.templates import AbstractTemplate, Signature, infer_global, signature

from harness.lowering.cpu.row_types import NumbaType, RowType, chunkwise
from harness.lowering.cpu.row_vectors import CONTRACT, call_intrinsic, filled

Emit = Callable[[ir.IRBuilder, ir.Value, ir.Value], ir.Value]
LARGEST_EXPANDED_POWER = 64


def row_among(operands: Sequence[NumbaType]) -> RowType | None:
    """Return the one row type among operands, the others being scalars.

    None if there is no row, or if an operand is neither.
    """
    rows = {operand for operand in operands if isinstance(operand, RowType)}
    if not rows:
        return None
    if len(rows) > 1:
        raise TypingError(f"these rows differ: {', '.join(sorted(map(str, rows)))}; convert with to32 or to64")
    scalars = (types.Number, types.Boolean, types.Literal)
    if any(not isinstance(operand, (RowType, *scalars)) for operand in operands):
        return None
    row: RowType = rows.pop()
    return row


def declare(function: Any, arity: int, *, masks: bool, numbers: bool, to_mask: bool = False) -> None:
    """Type `function` on `arity` rows (or scalars) of one kind."""

    class RowOperator(AbstractTemplate):
        def generic(self, args: tuple[types.Type, ...], kws: dict[str, NumbaType]) -> Signature | None:
            if kws or len(args) != arity:
                return None
            row = row_among(args)
            if row is None or not (masks if row.is_mask else numbers):
                return None
            return signature(row.of_kind("bool") if to_mask else row, *[row] * arity)

    infer_global(function)(RowOperator)


def define(function: Any, emit: Emit, *, masks: bool = False, to_mask: bool = False) -> None:
    """Type and lower a binary operator and, if it has one, its in-place form."""
    in_place = {operator.and_: operator.iand, operator.or_: operator.ior, operator.xor: operator.ixor}
    in_place |= {operator.add: operator.iadd, operator.sub: operator.isub}
    in_place |= {operator.mul: operator.imul, operator.truediv: operator.itruediv}

    def lower(context: Any, builder: ir.IRBuilder, sig: Signature, args: Sequence[ir.Value]) -> ir.Value:
        return chunkwise(builder, sig.return_type, emit, *args)

    for form in [function] + ([in_place[function]] if function in in_place else []):
        declare(form, 2, masks=masks, numbers=not masks, to_mask=to_mask)
        lower_builtin(form, RowType, RowType)(lower)


define(operator.add, lambda builder, a, b: builder.fadd(a, b, flags=CONTRACT))
define(operator.sub, lambda builder, a, b: builder.fsub(a, b, flags=CONTRACT))
define(operator.mul, lambda builder, a, b: builder.fmul(a, b, flags=CONTRACT))
define(operator.truediv, lambda builder, a, b: builder.fdiv(a, b))
define(operator.lt, lambda builder, a, b: builder.fcmp_ordered("<", a, b), to_mask=True)
define(operator.le, lambda builder, a, b: builder.fcmp_ordered("<=", a, b), to_mask=True)
define(operator.gt, lambda builder, a, b: builder.fcmp_ordered(">", a, b), to_mask=True)
define(operator.ge, lambda builder, a, b: builder.fcmp_ordered(">=", a, b), to_mask=True)
define(operator.and_, lambda builder, a, b: builder.and_(a, b), masks=True)
define(operator.or_, lambda builder, a, b: builder.or_(a, b), masks=True)
define(operator.xor, lambda builder, a, b: builder.xor(a, b), masks=True)


declare(operator.eq, 2, masks=True, numbers=True, to_mask=True)
declare(operator.ne, 2, masks=True, numbers=True, to_mask=True)


@lower_builtin(operator.eq, RowType, RowType)
def lower_eq(context: Any, builder: ir.IRBuilder, sig: Signature, args: Sequence[ir.Value]) -> ir.Value:
    """Compare lane by lane; NaN equals nothing."""
    compare = ir.IRBuilder.icmp_signed if sig.args[0].is_mask else ir.IRBuilder.fcmp_ordered
    return chunkwise(builder, sig.return_type, lambda builder, a, b: compare(builder, "==", a, b), *args)


@lower_builtin(operator.ne, RowType, RowType)
def lower_ne(context: Any, builder: ir.IRBuilder, sig: Signature, args: Sequence[ir.Value]) -> ir.Value:
    """Compare lane by lane; NaN differs from everything."""
    compare = ir.IRBuilder.icmp_signed if sig.args[0].is_mask else ir.IRBuilder.fcmp_unordered
    return chunkwise(builder, sig.return_type, lambda builder, a, b: compare(builder, "!=", a, b), *args)


declare(operator.neg, 1, masks=False, numbers=True)
declare(operator.pos, 1, masks=False, numbers=True)
declare(operator.invert, 1, masks=True, numbers=False)


@lower_builtin(operator.neg, RowType)
def lower_neg(context: Any, builder: ir.IRBuilder, sig: Signature, args: Sequence[ir.Value]) -> ir.Value:
    """Negate each lane, zeros included."""
    return chunkwise(builder, sig.return_type, ir.IRBuilder.fneg, args[0])


@lower_builtin(operator.pos, RowType)
def lower_pos(context: Any, builder: ir.IRBuilder, sig: Signature, args: Sequence[ir.Value]) -> ir.Value:
    """Return the row itself."""
    return args[0]


@lower_builtin(operator.invert, RowType)
def lower_invert(context: Any, builder: ir.IRBuilder, sig: Signature, args: Sequence[ir.Value]) -> ir.Value:
    """Negate each lane logically."""
    return chunkwise(builder, sig.return_type, ir.IRBuilder.not_, args[0])


@infer_global(operator.pow)
class RowPower(AbstractTemplate):
    """`row ** exponent`: a literal integer is expanded to products; any other exponent calls the C library's pow per
    lane.
    """

    prefer_literal = True

    def generic(self, args: tuple[types.Type, ...], kws: dict[str, NumbaType]) -> Signature | None:
        """Keep a literal exponent as a type; convert any other to a row."""
        row = row_among(args)
        if kws or row is None or row.is_mask:
            return None
        exponent = args[1]
        if isinstance(exponent, types.IntegerLiteral) and abs(exponent.literal_value) <= LARGEST_EXPANDED_POWER:
            return signature(row, row, exponent)
        return signature(row, row, row)


@lower_builtin(operator.pow, RowType, RowType)
def lower_pow(context: Any, builder: ir.IRBuilder, sig: Signature, args: Sequence[ir.Value]) -> ir.Value:
    """Call the C library's pow on each lane (about 10 ns per lane)."""
    return chunkwise(builder, sig.return_type, lambda builder, *pair: call_intrinsic(builder, "pow", pair), *args)


@lower_builtin(operator.pow, RowType, types.IntegerLiteral)
def lower_literal_pow(context: Any, builder: ir.IRBuilder, sig: Signature, args: Sequence[ir.Value]) -> ir.Value:
    """Expand to products; a negative exponent gives the reciprocal."""
    exponent = sig.args[1].literal_value
    return chunkwise(builder, sig.return_type, lambda builder, base: integer_power(builder, base, exponent), args[0])


def integer_power(builder: ir.IRBuilder, base: ir.Value, exponent: int) -> ir.Value:
    """Return the vector `base` ** exponent by repeated squaring."""
    one = filled(base.type, 1.0)
    square, result, remaining = base, one, abs(exponent)
    while remaining:
        if remaining & 1:
            result = square if result is one else builder.fmul(result, square)
        remaining >>= 1
        if remaining:
            square = builder.fmul(square, square)
    return builder.fdiv(one, result) if exponent < 0 else result
