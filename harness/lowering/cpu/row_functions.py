"""Functions from rows to rows: arithmetic, exp and log, selection, single lanes and conversions (usage: see `rows`)."""

# mypy: allow-untyped-calls, allow-untyped-decorators, allow-subclassing-any, no-warn-return-any
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.errors import TypingError
from numba.core.typing.templates import Signature, signature
from numba.extending import intrinsic

from harness.lowering.cpu import row_elementary, row_vectors
from harness.lowering.cpu.row_operators import row_among
from harness.lowering.cpu.row_types import NumbaType, RowType, chunkwise, join, lanes_equal, splat, split
from harness.lowering.cpu.row_vectors import call_intrinsic

Typed = tuple[Signature, Callable[..., ir.Value]]
Emit = Callable[..., ir.Value]


def typed_row(name: str, operands: Sequence[NumbaType], *, mask: bool = False) -> RowType:
    """Return the row type among the operands of `name`; TypingError if there is none or one of the wrong kind."""
    row = row_among(operands)
    if row is None or row.is_mask != mask:
        wanted = "a mask" if mask else "a row of numbers"
        raise TypingError(f"{name}() takes {wanted}, not {', '.join(map(str, operands))}")
    return row


def elementwise(emit: Emit, *operands: NumbaType, name: str) -> Typed:
    """Return the typing and code of a function from rows (or scalars) of one type to a row of that type."""
    row = typed_row(name, operands)

    def codegen(context: Any, builder: ir.IRBuilder, sig: Signature, args: Sequence[ir.Value]) -> ir.Value:
        return chunkwise(builder, row, emit, *args)

    return signature(row, *[row] * len(operands)), codegen


@intrinsic
def fma(typingctx: Any, a: NumbaType, b: NumbaType, c: NumbaType) -> Typed:
    """Compute a * b + c with one rounding; scalars are repeated."""
    return elementwise(row_vectors.fma, a, b, c, name="fma")


@intrinsic
def minimum(typingctx: Any, a: NumbaType, b: NumbaType) -> Typed:
    """Return the smaller of each pair of lanes; NaN if either is NaN."""
    return elementwise(row_vectors.minimum, a, b, name="minimum")


@intrinsic
def maximum(typingctx: Any, a: NumbaType, b: NumbaType) -> Typed:
    """Return the larger of each pair of lanes; NaN if either is NaN."""
    return elementwise(row_vectors.maximum, a, b, name="maximum")


@intrinsic
def absolute(typingctx: Any, a: NumbaType) -> Typed:
    """Return the magnitude of each lane."""
    return elementwise(lambda builder, value: call_intrinsic(builder, "fabs", [value]), a, name="absolute")


@intrinsic
def sqrt(typingctx: Any, a: NumbaType) -> Typed:
    """Return the square root of each lane, correctly rounded; NaN below zero."""
    return elementwise(lambda builder, value: call_intrinsic(builder, "sqrt", [value]), a, name="sqrt")


@intrinsic
def floor(typingctx: Any, a: NumbaType) -> Typed:
    """Return the largest integer that is at most each lane."""
    return elementwise(lambda builder, value: call_intrinsic(builder, "floor", [value]), a, name="floor")


@intrinsic
def exp(typingctx: Any, a: NumbaType) -> Typed:
    """Return the exponential of each lane (see row_elementary for its error)."""
    return elementwise(row_elementary.exp, a, name="exp")


@intrinsic
def log(typingctx: Any, a: NumbaType) -> Typed:
    """Return the natural logarithm of each lane (see row_elementary for its error)."""
    return elementwise(row_elementary.log, a, name="log")


@intrinsic
def where(typingctx: Any, mask: NumbaType, a: NumbaType, b: NumbaType) -> Typed:
    """Return lanes of a if the mask (or one truth value for all lanes) holds, else of b.

    One of a and b may be a scalar.
    """
    row = row_among([a, b])
    if row is None or (isinstance(mask, RowType) and mask != row.of_kind("bool")):
        raise TypingError(f"where() takes a mask or a truth value and one or two rows as long, not {mask}, {a}, {b}")
    if not isinstance(mask, (RowType, types.Boolean)):
        raise TypingError(f"where() takes a mask or a truth value first, not {mask}")

    choice = row.of_kind("bool") if isinstance(mask, RowType) else types.boolean

    def codegen(context: Any, builder: ir.IRBuilder, sig: Signature, args: Sequence[ir.Value]) -> ir.Value:
        if isinstance(mask, RowType):
            return chunkwise(builder, row, ir.IRBuilder.select, *args)
        return chunkwise(builder, row, lambda builder, a, b: builder.select(args[0], a, b), *args[1:])

    return signature(row, choice, row, row), codegen


@intrinsic
def extract(typingctx: Any, row: NumbaType, lane: NumbaType) -> Typed:
    """Return the scalar in lane `lane`, which need not be constant."""
    if not isinstance(row, RowType) or not isinstance(lane, types.Integer):
        raise TypingError(f"extract() takes a row and an integer, not {row}, {lane}")

    def codegen(context: Any, builder: ir.IRBuilder, sig: Signature, args: Sequence[ir.Value]) -> ir.Value:
        vectors = split(builder, args[0])
        if len(vectors) == 1:
            return builder.extract_element(vectors[0], args[1])
        space = cgutils.alloca_once(builder, ir.ArrayType(vectors[0].type.element, row.lanes + row.chunks[-1].width))
        for chunk, vector in zip(row.chunks, vectors, strict=True):
            place = cgutils.gep_inbounds(builder, space, 0, chunk.start)
            builder.store(vector, builder.bitcast(place, vector.type.as_pointer()), align=1)
        index = args[1]
        last = index.type(row.lanes - 1)
        index = builder.select(builder.icmp_unsigned("<", index, last), index, last)
        return builder.load(cgutils.gep_inbounds(builder, space, 0, index))

    return row.element(row, lane), codegen


@intrinsic
def insert(typingctx: Any, row: NumbaType, lane: NumbaType, scalar: NumbaType) -> Typed:
    """Return the row with lane `lane`, which need not be constant, replaced."""
    if not isinstance(row, RowType) or not isinstance(lane, types.Integer):
        raise TypingError(f"insert() takes a row, an integer and a scalar, not {row}, {lane}, {scalar}")

    def codegen(context: Any, builder: ir.IRBuilder, sig: Signature, args: Sequence[ir.Value]) -> ir.Value:
        vectors = []
        for chunk, vector in zip(row.chunks, split(builder, args[0]), strict=True):
            scalars = splat(builder, args[2], chunk.width)
            vectors.append(builder.select(lanes_equal(builder, chunk, args[1]), scalars, vector))
        return join(builder, row, vectors)

    return row(row, lane, row.element), codegen


def conversion(row: NumbaType, kind: str, name: str) -> Typed:
    """Return the typing and code of the conversion of a row of numbers, or of a mask (to 1 and 0), to `kind`."""
    if not isinstance(row, RowType):
        raise TypingError(f"{name}() takes a row, not {row}; make a row of a scalar with splat")
    target = row.of_kind(kind)

    def codegen(context: Any, builder: ir.IRBuilder, sig: Signature, args: Sequence[ir.Value]) -> ir.Value:
        if row == target:
            return args[0]
        if row.is_mask:
            convert = ir.IRBuilder.uitofp
        else:
            convert = ir.IRBuilder.fpext if kind == "float64" else ir.IRBuilder.fptrunc
        element = target.vector(target.chunks[0]).element
        return chunkwise(builder, target, lambda b, v: convert(b, v, ir.VectorType(element, v.type.count)), args[0])

    return target(row), codegen


@intrinsic
def to32(typingctx: Any, row: NumbaType) -> Typed:
    """Round the row to float32; a mask becomes 1 and 0."""
    return conversion(row, "float32", "to32")


@intrinsic
def to64(typingctx: Any, row: NumbaType) -> Typed:
    """Convert the row to float64; a mask becomes 1 and 0."""
    return conversion(row, "float64", "to64")
