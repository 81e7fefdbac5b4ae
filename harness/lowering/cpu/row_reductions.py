"""Functions of all lanes of a row to one scalar (usage: see `rows`)."""

# mypy: allow-untyped-calls, allow-untyped-decorators, allow-subclassing-any, no-warn-return-any
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.core.typing.templates import Signature, signature
from numba.extending import intrinsic

from harness.lowering.cpu import row_vectors
from harness.lowering.cpu.row_functions import Emit, Typed, typed_row
from harness.lowering.cpu.row_types import NumbaType
from harness.lowering.cpu.row_vectors import CONTRACT, fold, reduce_mask


def emit_sum(builder: ir.IRBuilder, vector: ir.Value) -> ir.Value:
    """The sum of all lanes."""
    return fold(builder, vector, lambda builder, a, b: builder.fadd(a, b, flags=CONTRACT), -0.0)


def emit_count(builder: ir.IRBuilder, mask: ir.Value) -> ir.Value:
    """The number of set lanes, in 64 bits."""
    bits = builder.bitcast(mask, ir.IntType(mask.type.count))
    number = builder.ctpop(bits)
    width = ir.IntType(64)
    if mask.type.count > 64:
        return builder.trunc(number, width)
    return builder.zext(number, width) if mask.type.count < 64 else number


def reduction(
    emit: Emit, operand: NumbaType, *, name: str, mask: bool = False, result: NumbaType | None = None
) -> Typed:
    """Typing and code of a function from one row to a scalar of its element type, or to `result`."""
    row = typed_row(name, [operand], mask=mask)

    def codegen(context: Any, builder: ir.IRBuilder, sig: Signature, args: Sequence[ir.Value]) -> ir.Value:
        return emit(builder, args[0])

    return signature(result or row.element, row), codegen


@intrinsic
def reduce_sum(typingctx: Any, row: NumbaType) -> Typed:
    """The sum of the lanes, added as a balanced tree."""
    return reduction(emit_sum, row, name="reduce_sum")


@intrinsic
def reduce_prod(typingctx: Any, row: NumbaType) -> Typed:
    """The product of the lanes, multiplied as a balanced tree."""
    return reduction(
        lambda builder, vector: fold(builder, vector, lambda b, x, y: b.fmul(x, y), 1.0), row, name="reduce_prod"
    )


@intrinsic
def reduce_min(typingctx: Any, row: NumbaType) -> Typed:
    """The smallest lane; NaN if there is one."""
    return reduction(
        lambda builder, vector: fold(builder, vector, row_vectors.minimum, math.inf), row, name="reduce_min"
    )


@intrinsic
def reduce_max(typingctx: Any, row: NumbaType) -> Typed:
    """The largest lane; NaN if there is one."""
    return reduction(
        lambda builder, vector: fold(builder, vector, row_vectors.maximum, -math.inf), row, name="reduce_max"
    )


@intrinsic
def reduce_any(typingctx: Any, mask: NumbaType) -> Typed:
    """Whether any lane holds."""
    return reduction(lambda builder, value: reduce_mask(builder, "or", value), mask, name="reduce_any", mask=True)


@intrinsic
def reduce_all(typingctx: Any, mask: NumbaType) -> Typed:
    """Whether every lane holds."""
    return reduction(lambda builder, value: reduce_mask(builder, "and", value), mask, name="reduce_all", mask=True)


@intrinsic
def count(typingctx: Any, mask: NumbaType) -> Typed:
    """How many lanes hold (int64)."""
    return reduction(emit_count, mask, name="count", mask=True, result=types.int64)


@intrinsic
def dot(typingctx: Any, a: NumbaType, b: NumbaType) -> Typed:
    """The sum of the products of the lanes; one of both may be a scalar."""
    row = typed_row("dot", [a, b])

    def codegen(context: Any, builder: ir.IRBuilder, sig: Signature, args: Sequence[ir.Value]) -> ir.Value:
        return emit_sum(builder, builder.fmul(args[0], args[1], flags=CONTRACT))

    return signature(row.element, row, row), codegen
