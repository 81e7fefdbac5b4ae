"""Rows: one property of a vertex or edge (k features) as one LLVM vector value in generated Numba code.

LLVM vectorises a plain inner loop over features across *edges*, with gathers, which is 3 to 8 times slower. A row is
loaded, processed and stored as one value, for any k from 1 to 256, and no access reaches outside its k elements.

Usage, in a generated module (k is a literal there; `modules` loads it, `launch` runs parts on all threads)::

    from numba import njit
    from harness.lowering.cpu.rows import row_ops, fma, store, reduce_sum, absolute, prefetch_row

    ROW = row_ops(5)
    load, zero = ROW.load, ROW.zero          # these are made for 5 lanes

    @njit(nogil=True, cache=True, error_model="numpy")
    def part(first, last, offsets, neighbours, weights, x, y):
        for v in range(first, last):
            acc = zero()
            for e in range(offsets[v], offsets[v + 1]):
                acc = fma(weights[e], load(x, neighbours[e] * 5), acc)
            store(y, v * 5, acc / reduce_sum(absolute(acc)))

Arrays are one-dimensional and C-contiguous; a row is n consecutive elements from the index `start` (any integer type,
never wrapped, never checked; make it 64 bits wide before you multiply).  float32 arrays hold Row, float64 arrays
Row64, bool and uint8 arrays RowMask.

Operators on rows: + - * / ** unary + and -, < <= > >= == != (give masks); on masks & | ^ ~ == !=.  Beside a row, a
scalar is converted to the row's element type (0.5 does not widen a float32 row) and repeated. a * b + c may be fused.
Rows of two kinds do not mix: to32, to64.  A local variable needs one type on all paths: start an accumulator with
zero() or splat(s), not with 0.0.

Functions of this module:

- from row_ops(n): load(array, start), zero(), zero64(), splat(scalar), splat64(scalar), unit(i) (1 in lane i, else 0),
  iota() (0, 1, ...), empty_mask(), full_mask()
- at(array, index) (a scalar), store(array, start, row)
- prefetch(array, index), prefetch_write(array, index), prefetch_row(array, start, literal n)
- not_unrolled(): in the body of a loop of few iterations, which LLVM then does not unroll
- atomic_add, atomic_min, atomic_max (array, index, value): for a scalar the result is the old value, a row gives None;
  claim work with atomic_add on an int64 array
- extract(row, i), insert(row, i, scalar) with 0 <= i < n (another i gives any value, never a fault)
- fma(a, b, c), minimum(a, b), maximum(a, b) (NaN where either is), absolute, sqrt, floor, exp, log, to32, to64,
  where(mask or bool, a, b)
- reduce_sum, reduce_prod, reduce_min, reduce_max (balanced trees), dot(a, b), reduce_any(mask), reduce_all(mask),
  count(mask)

Layout: rows need neither padding nor alignment (aggregation at k = 33 and 100 is as fast with a stride of k as with 48
or 112). Prefetching the row 16 edges ahead changed an aggregation on a scale-18 R-MAT graph, on two threads, by -3 to
-15 % of its time for k = 32 to 128 and by 0 to +5 % for k = 1 to 8; on one thread by -15 to +4 % and 0 to +13 %. With
prefetching, the neighbour list must be readable for as many elements past its end.
"""

# mypy: allow-untyped-calls, allow-untyped-decorators, allow-subclassing-any, no-warn-return-any
from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

from llvmlite import ir
from numba.core import types
from numba.core.typing.templates import Signature
from numba.extending import intrinsic

from harness.lowering.cpu.row_functions import (
    absolute,
    exp,
    extract,
    floor,
    fma,
    insert,
    log,
    maximum,
    minimum,
    sqrt,
    to32,
    to64,
    where,
)
from harness.lowering.cpu.row_memory import (
    at,
    atomic_add,
    atomic_max,
    atomic_min,
    make_load,
    not_unrolled,
    prefetch,
    prefetch_row,
    prefetch_write,
    store,
)
from harness.lowering.cpu.row_reductions import (
    count,
    dot,
    reduce_all,
    reduce_any,
    reduce_max,
    reduce_min,
    reduce_prod,
    reduce_sum,
)
from harness.lowering.cpu.row_types import NumbaType, Row, Row64, RowMask, RowType, join, lanes_equal

__all__ = [
    "Row",
    "Row64",
    "RowMask",
    "RowOps",
    "absolute",
    "at",
    "atomic_add",
    "atomic_max",
    "atomic_min",
    "count",
    "dot",
    "exp",
    "extract",
    "floor",
    "fma",
    "insert",
    "log",
    "maximum",
    "minimum",
    "not_unrolled",
    "prefetch",
    "prefetch_row",
    "prefetch_write",
    "reduce_all",
    "reduce_any",
    "reduce_max",
    "reduce_min",
    "reduce_prod",
    "reduce_sum",
    "row_ops",
    "sqrt",
    "store",
    "to32",
    "to64",
    "where",
]

Typed = tuple[Signature, Callable[..., ir.Value]]


class RowOps(NamedTuple):
    """Functions that make rows of one length; bind those needed to globals of a generated module."""

    load: Any
    zero: Any
    zero64: Any
    splat: Any
    splat64: Any
    unit: Any
    iota: Any
    empty_mask: Any
    full_mask: Any


def make_constant(row: RowType, lanes: Sequence[float]) -> Any:
    """Return the function without arguments whose result has these lanes."""

    @intrinsic
    def constant(typingctx: Any) -> Typed:
        def codegen(context: Any, builder: ir.IRBuilder, sig: Signature, args: Sequence[ir.Value]) -> ir.Value:
            vectors = []
            for chunk in row.chunks:
                values = [*lanes[chunk.start : chunk.start + chunk.lanes], *[0] * (chunk.width - chunk.lanes)]
                vectors.append(ir.Constant(row.vector(chunk), values))
            return join(builder, row, vectors)

        return row(), codegen

    return constant


def make_splat(row: RowType) -> Any:
    """Return the function that repeats a scalar in every lane."""

    @intrinsic
    def repeat(typingctx: Any, scalar: NumbaType) -> Typed:
        def codegen(context: Any, builder: ir.IRBuilder, sig: Signature, args: Sequence[ir.Value]) -> ir.Value:
            return args[0]

        return row(row), codegen  # the conversion of the scalar to a row repeats it

    return repeat


def make_unit(row: RowType) -> Any:
    """Return the function unit(i): 1 in lane i, 0 elsewhere; all 0 for i outside the row."""

    @intrinsic
    def unit(typingctx: Any, lane: NumbaType) -> Typed:
        def codegen(context: Any, builder: ir.IRBuilder, sig: Signature, args: Sequence[ir.Value]) -> ir.Value:
            masks = [lanes_equal(builder, chunk, args[0]) for chunk in row.chunks]
            parts = zip(masks, row.chunks, strict=True)
            return join(builder, row, [builder.uitofp(mask, row.vector(chunk)) for mask, chunk in parts])

        return row(types.int64), codegen

    return unit


@cache
def row_ops(lanes: int) -> RowOps:
    """Return the constructors of rows of `lanes` (1 to 256) values; ValueError for another number."""
    row, row64, mask = Row(lanes), Row64(lanes), RowMask(lanes)
    return RowOps(
        load=make_load(lanes),
        zero=make_constant(row, [0.0] * lanes),
        zero64=make_constant(row64, [0.0] * lanes),
        splat=make_splat(row),
        splat64=make_splat(row64),
        unit=make_unit(row),
        iota=make_constant(row, [float(lane) for lane in range(lanes)]),
        empty_mask=make_constant(mask, [0] * lanes),
        full_mask=make_constant(mask, [1] * lanes),
    )
