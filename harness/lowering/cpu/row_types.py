"""Numba types for one property row: `Row(n)`, `Row64(n)` and `RowMask(n)`, held in LLVM vectors.

A value of these types is in registers: it is a plain local variable of compiled code (also across loop iterations and
as the result of a compiled function), and has no counterpart in Python.  The number of lanes, from 1 to 256, is part of
the type.

LLVM keeps a vector whose length is not a power of two in one register *per lane* if it passes from one basic
block to another.  The accumulator of a loop always does (36 lanes: 15 times slower than 32).  Therefore a row is a few
*chunks*, each a power of two wide: the multiples of 16 lanes in binary, then the rest, in the next power of two with
unused lanes on top.  100 lanes are 64 + 32 + 4; 7 are 8 with one unused.  Unused lanes have undefined values and must
not be read.
"""

# mypy: allow-untyped-calls, allow-untyped-decorators, allow-subclassing-any, no-warn-return-any
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.datamodel.models import PrimitiveModel
from numba.core.imputils import lower_cast
from numba.extending import register_model

from harness.language.algorithm import MOST_FEATURES

NumbaType = Any  # Numba's own annotations are too incomplete to check against
MAX_LANES = MOST_FEATURES

ELEMENTS = {"float32": types.float32, "float64": types.float64, "bool": types.boolean}
LLVM_ELEMENTS = {"float32": ir.FloatType(), "float64": ir.DoubleType(), "bool": ir.IntType(1)}


class Chunk(NamedTuple):
    """Lanes start .. start + lanes - 1 of a row, in a vector of `width`, a power of two; the last may be unused."""

    start: int
    lanes: int
    width: int


def chunks_of(lanes: int) -> tuple[Chunk, ...]:
    """Return the chunks of a row, widest first."""
    chunks: list[Chunk] = []
    start = 0
    for bit in reversed(range(4, MAX_LANES.bit_length())):
        if lanes & (1 << bit):
            chunks.append(Chunk(start, 1 << bit, 1 << bit))
            start += 1 << bit
    rest = lanes - start
    if rest:
        chunks.append(Chunk(start, rest, 1 << (rest - 1).bit_length()))
    return tuple(chunks)


class RowType(types.Type):
    """Type of a row of `lanes` values of one kind: "float32", "float64" or "bool"."""

    def __init__(self, lanes: int, kind: str) -> None:
        if not 1 <= lanes <= MAX_LANES:
            raise ValueError(f"a row has from 1 to {MAX_LANES} lanes, not {lanes}")
        if kind not in ELEMENTS:
            raise ValueError(f"a row holds one of {sorted(ELEMENTS)}, not {kind!r}")
        self.lanes = lanes
        self.kind = kind
        self.chunks = chunks_of(lanes)
        super().__init__(name=f"Row({lanes} x {kind})")

    @property
    def key(self) -> tuple[int, str]:
        """Return the values by which these types are compared."""
        return (self.lanes, self.kind)

    @property
    def element(self) -> NumbaType:
        """Return the Numba scalar type of a lane."""
        return ELEMENTS[self.kind]

    def vector(self, chunk: Chunk) -> ir.VectorType:
        """Return the LLVM type of one chunk."""
        return ir.VectorType(LLVM_ELEMENTS[self.kind], chunk.width)

    @property
    def value(self) -> ir.Type:
        """Return the LLVM type of a row: the vector if there is one chunk, else the structure of the chunks."""
        vectors = [self.vector(chunk) for chunk in self.chunks]
        return vectors[0] if len(vectors) == 1 else ir.LiteralStructType(vectors)

    @property
    def is_mask(self) -> bool:
        """Return whether the lanes are truth values."""
        return self.kind == "bool"

    def of_kind(self, kind: str) -> RowType:
        """Return the type of another kind with as many lanes."""
        return RowType(self.lanes, kind)


def Row(lanes: int) -> RowType:  # noqa: N802 - named like a type, as in Numba
    """Return the type of `lanes` float32 values."""
    return RowType(lanes, "float32")


def Row64(lanes: int) -> RowType:  # noqa: N802
    """Return the type of `lanes` float64 values."""
    return RowType(lanes, "float64")


def RowMask(lanes: int) -> RowType:  # noqa: N802
    """Return the type of `lanes` truth values."""
    return RowType(lanes, "bool")


@register_model(RowType)
class RowModel(PrimitiveModel):
    """A row is represented by its vectors everywhere."""

    def __init__(self, dmm: Any, fe_type: RowType) -> None:
        super().__init__(dmm, fe_type, fe_type.value)


def split(builder: ir.IRBuilder, value: ir.Value) -> list[ir.Value]:
    """Return the chunks of a row's value."""
    if isinstance(value.type, ir.VectorType):
        return [value]
    return [builder.extract_value(value, i) for i in range(len(value.type.elements))]


def join(builder: ir.IRBuilder, row: RowType, vectors: Sequence[ir.Value]) -> ir.Value:
    """Return the value of a row with these chunks."""
    if len(vectors) == 1:
        return vectors[0]
    value = ir.Constant(row.value, ir.Undefined)
    for i, vector in enumerate(vectors):
        value = builder.insert_value(value, vector, i)
    return value


def chunkwise(builder: ir.IRBuilder, row: RowType, emit: Callable[..., ir.Value], *operands: ir.Value) -> ir.Value:
    """Return the row of type `row` whose chunks are emit(builder, chunks of the operands)."""
    parts = zip(*(split(builder, operand) for operand in operands), strict=True)
    return join(builder, row, [emit(builder, *vectors) for vectors in parts])


def splat(builder: ir.IRBuilder, scalar: ir.Value, width: int) -> ir.Value:
    """Return the vector whose `width` lanes all hold `scalar`."""
    start = ir.Constant(ir.VectorType(scalar.type, width), ir.Undefined)
    single = builder.insert_element(start, scalar, cgutils.int32_t(0))
    return builder.shuffle_vector(single, start, ir.Constant(ir.VectorType(ir.IntType(32), width), [0] * width))


def lanes_equal(builder: ir.IRBuilder, chunk: Chunk, lane: ir.Value) -> ir.Value:
    """Return the mask of the lanes of a chunk whose number in the row is the integer `lane`."""
    index = splat(builder, lane, chunk.width)
    return builder.icmp_signed("==", index, ir.Constant(index.type, [chunk.start + i for i in range(chunk.width)]))


@lower_cast(types.Number, RowType)
@lower_cast(types.Boolean, RowType)
def scalar_to_row(context: Any, builder: ir.IRBuilder, fromty: NumbaType, toty: RowType, value: ir.Value) -> ir.Value:
    """Convert a scalar operand to the row's element type and repeat it."""
    if isinstance(fromty, types.Literal):
        value = context.cast(builder, value, fromty, fromty.literal_type)
        fromty = fromty.literal_type
    scalar = context.cast(builder, value, fromty, toty.element)
    return join(builder, toty, [splat(builder, scalar, chunk.width) for chunk in toty.chunks])
