"""Functions from all lanes of a row to one scalar (usage: see `rows`)."""

# mypy: allow-untyped-calls, allow-untyped-decorators, allow-subclassing-any, no-warn-return-any
from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.core.typing.templates import Signature, signature
from numba.extending import intrinsic

from harness.lowering.cpu import row_vectors
from harness.lowering.cpu.row_functions import Typed, typed_row
from harness.lowering.cpu.row_types import NumbaType, RowType, split
from harness.lowering.cpu.row_vectors import CONTRACT, Combine, fold, reduce_mask, with_unused


def used_lanes(builder: ir.IRBuilder, row: RowType, value: ir.Value, neutral: float) -> list[ir.Value]:
    """Return the chunks of a row with `neutral` in lanes that are not part of it."""
    parts = zip(row.chunks, split(builder, value), strict=True)
    return [with_unused(builder, vector, chunk.lanes, neutral) for chunk, vector in parts]


def add(builder: ir.IRBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    """Return the sum of two vectors, which may be fused with a product."""
    return builder.fadd(a, b, flags=CONTRACT)


def reduction(name: str, row: NumbaType, combine: Combine, neutral: float) -> Typed:
    """Return the typing and code of the combination of all lanes of a row of numbers; `neutral` is its identity."""
    typed_row(name, [row])

    def codegen(context: Any, builder: ir.IRBuilder, sig: Signature, args: Sequence[ir.Value]) -> ir.Value:
        return fold(builder, used_lanes(builder, row, args[0], neutral), combine)

    return signature(row.element, row), codegen


def mask_reduction(name: str, mask: NumbaType, operation: str, neutral: int) -> Typed:
    """Return the typing and code of the "or" or "and" of all lanes of a mask."""
    typed_row(name, [mask], mask=True)

    def codegen(context: Any, builder: ir.IRBuilder, sig: Signature, args: Sequence[ir.Value]) -> ir.Value:
        chunks = used_lanes(builder, mask, args[0], neutral)
        whole = [reduce_mask(builder, operation, chunk) for chunk in chunks]
        return reduce(builder.or_ if operation == "or" else builder.and_, whole)

    return signature(types.boolean, mask), codegen


@intrinsic
def reduce_sum(typingctx: Any, row: NumbaType) -> Typed:
    """Sum the lanes as a balanced tree."""
    return reduction("reduce_sum", row, add, -0.0)


@intrinsic
def reduce_prod(typingctx: Any, row: NumbaType) -> Typed:
    """Multiply the lanes as a balanced tree."""
    return reduction("reduce_prod", row, ir.IRBuilder.fmul, 1.0)


@intrinsic
def reduce_min(typingctx: Any, row: NumbaType) -> Typed:
    """Return the smallest lane; NaN if any lane is NaN."""
    return reduction("reduce_min", row, row_vectors.minimum, math.inf)


@intrinsic
def reduce_max(typingctx: Any, row: NumbaType) -> Typed:
    """Return the largest lane; NaN if any lane is NaN."""
    return reduction("reduce_max", row, row_vectors.maximum, -math.inf)


@intrinsic
def reduce_any(typingctx: Any, mask: NumbaType) -> Typed:
    """Return whether any lane is true."""
    return mask_reduction("reduce_any", mask, "or", 0)


@intrinsic
def reduce_all(typingctx: Any, mask: NumbaType) -> Typed:
    """Return whether every lane is true."""
    return mask_reduction("reduce_all", mask, "and", 1)


@intrinsic
def count(typingctx: Any, mask: NumbaType) -> Typed:
    """Count the true lanes (int64)."""
    typed_row("count", [mask], mask=True)

    def codegen(context: Any, builder: ir.IRBuilder, sig: Signature, args: Sequence[ir.Value]) -> ir.Value:
        wide = ir.IntType(max(64, mask.chunks[0].width))
        total = wide(0)
        for chunk in used_lanes(builder, mask, args[0], 0):
            bits = builder.bitcast(chunk, ir.IntType(chunk.type.count))
            number = builder.ctpop(bits if bits.type == wide else builder.zext(bits, wide))
            total = builder.add(total, number)
        return total if wide.width == 64 else builder.trunc(total, ir.IntType(64))

    return signature(types.int64, mask), codegen


@intrinsic
def dot(typingctx: Any, a: NumbaType, b: NumbaType) -> Typed:
    """Sum the products of the lanes; one of the arguments may be a scalar."""
    row = typed_row("dot", [a, b])

    def codegen(context: Any, builder: ir.IRBuilder, sig: Signature, args: Sequence[ir.Value]) -> ir.Value:
        left, right = (used_lanes(builder, row, value, 0.0) for value in args)
        products = [builder.fmul(x, y, flags=CONTRACT) for x, y in zip(left, right, strict=True)]
        return fold(builder, products, add)

    return signature(row.element, row, row), codegen
