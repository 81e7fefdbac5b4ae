"""Rows and memory: loads, stores, prefetches and atomic updates on one-dimensional contiguous arrays.

Addresses are computed only from the array's data pointer: an index is neither checked nor wrapped when negative.
"""

# mypy: allow-untyped-calls, allow-untyped-decorators, allow-subclassing-any, no-warn-return-any
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.errors import TypingError
from numba.core.typing.templates import Signature
from numba.extending import intrinsic

from harness.lowering.cpu.row_types import Chunk, NumbaType, RowType, join, split

Typed = tuple[Signature, Callable[..., ir.Value]]

KINDS = {types.float32: "float32", types.float64: "float64", types.boolean: "bool", types.uint8: "bool"}
CACHE_LINE = 64  # bytes
# Remainders of up to this many lanes are loaded and stored in exact parts (8 + 2 + 1), longer ones under a mask.
# Aggregation, ns per edge, exact / masked: 1.6 / 1.9 at 10 lanes, 2.1 / 1.8 at 12, 2.7 / 2.1 at 15 (AVX-512, data in
# the cache). A masked store also delays a later load of the same memory.
LONGEST_EXACT_REST = 11


def check_array(name: str, array: NumbaType, index: NumbaType) -> None:
    """Raise TypingError unless `array` is one-dimensional and contiguous and `index` an integer."""
    if not (isinstance(array, types.Array) and array.ndim == 1 and array.layout == "C"):
        raise TypingError(f"{name}() takes a one-dimensional C-contiguous array, not {array}; reshape it to (-1,)")
    if not isinstance(index, types.Integer):
        raise TypingError(f"{name}() takes an integer index, not {index}")


def row_kind(name: str, array: NumbaType) -> str:
    """Return the kind of row that an array holds."""
    if array.dtype not in KINDS:
        raise TypingError(f"{name}() has no row of {array.dtype}; arrays of rows are float32, float64, bool or uint8")
    return KINDS[array.dtype]


def address(context: Any, builder: ir.IRBuilder, sig: Signature, args: Sequence[ir.Value]) -> ir.Value:
    """Return a pointer to the element that the first two arguments (array, index) name."""
    array_type, index_type = sig.args[:2]
    data = context.make_array(array_type)(context, builder, args[0]).data
    index = args[1]
    if index.type.width < 64:
        index = builder.sext(index, ir.IntType(64)) if index_type.signed else builder.zext(index, ir.IntType(64))
    return builder.gep(data, [index], inbounds=True)


def stored_type(row: RowType, chunk: Chunk) -> ir.VectorType:
    """Return the vector type of a chunk in memory, where truth values are bytes."""
    return ir.VectorType(ir.IntType(8), chunk.width) if row.is_mask else row.vector(chunk)


def element_bytes(vector: ir.VectorType) -> int:
    """Return the size of an element, to which rows are aligned."""
    return {"i8": 1, "float": 4, "double": 8}[str(vector.element)]


def used_mask(chunk: Chunk) -> ir.Constant:
    """Return the constant mask of the lanes of a chunk that are part of the row."""
    mask = ir.VectorType(ir.IntType(1), chunk.width)
    return ir.Constant(mask, [int(lane < chunk.lanes) for lane in range(chunk.width)])


def chunk_pointer(builder: ir.IRBuilder, pointer: ir.Value, chunk: Chunk, vector: ir.VectorType) -> ir.Value:
    """Return a pointer to a chunk of the row at `pointer`."""
    return builder.bitcast(builder.gep(pointer, [ir.IntType(64)(chunk.start)], inbounds=True), vector.as_pointer())


def masked_function(
    builder: ir.IRBuilder, name: str, vector: ir.VectorType, result: ir.Type, *rest: ir.Type
) -> ir.Value:
    """Return LLVM's masked load or store of `vector`; `rest` are its argument types other than the pointer."""
    element = {"i8": "i8", "float": "f32", "double": "f64"}[str(vector.element)]
    full_name = f"llvm.masked.{name}.v{vector.count}{element}.p0"
    return cgutils.get_or_insert_function(builder.module, ir.FunctionType(result, list(rest)), full_name)


def lane_numbers(count: int, last: int) -> ir.Constant:
    """Return the constant shuffle mask 0, 1, ..., of `count` lanes, none above `last`."""
    return ir.Constant(ir.VectorType(ir.IntType(32), count), [min(lane, last) for lane in range(count)])


def load_chunk(builder: ir.IRBuilder, pointer: ir.Value, chunk: Chunk, vector: ir.VectorType) -> ir.Value:
    """Load the vector of a chunk, with unused lanes 0."""
    place, alignment, zeros = chunk_pointer(builder, pointer, chunk, vector), element_bytes(vector), [0] * chunk.width
    if chunk.lanes == chunk.width:
        return builder.load(place, align=alignment, typ=vector)
    if chunk.lanes <= LONGEST_EXACT_REST:
        part = ir.VectorType(vector.element, chunk.lanes)
        value = builder.load(builder.bitcast(place, part.as_pointer()), align=alignment, typ=part)
        nothing = ir.Constant(part, zeros[: chunk.lanes])
        return builder.shuffle_vector(value, nothing, lane_numbers(chunk.width, chunk.lanes))
    int32, mask = ir.IntType(32), used_mask(chunk)
    function = masked_function(builder, "load", vector, vector, place.type, int32, mask.type, vector)
    return builder.call(function, [place, int32(alignment), mask, ir.Constant(vector, zeros)])


def store_chunk(builder: ir.IRBuilder, pointer: ir.Value, chunk: Chunk, value: ir.Value) -> None:
    """Write the used lanes of a chunk."""
    vector = value.type
    place, alignment = chunk_pointer(builder, pointer, chunk, vector), element_bytes(vector)
    if chunk.lanes == chunk.width:
        builder.store(value, place, align=alignment)
    elif chunk.lanes <= LONGEST_EXACT_REST:
        part = builder.shuffle_vector(value, value, lane_numbers(chunk.lanes, chunk.lanes))
        builder.store(part, builder.bitcast(place, part.type.as_pointer()), align=alignment)
    else:
        int32, mask = ir.IntType(32), used_mask(chunk)
        function = masked_function(builder, "store", vector, ir.VoidType(), vector, place.type, int32, mask.type)
        builder.call(function, [value, place, int32(alignment), mask])


def make_load(lanes: int) -> Any:
    """Return the function load(array, start) for rows of `lanes` elements."""

    @intrinsic
    def load(typingctx: Any, array: NumbaType, start: NumbaType) -> Typed:
        """Load the row that starts at element `start` of `array`."""
        check_array("load", array, start)
        row = RowType(lanes, row_kind("load", array))

        def codegen(context: Any, builder: ir.IRBuilder, sig: Signature, args: Sequence[ir.Value]) -> ir.Value:
            pointer = address(context, builder, sig, args)
            vectors = [load_chunk(builder, pointer, chunk, stored_type(row, chunk)) for chunk in row.chunks]
            if row.is_mask:
                vectors = [builder.icmp_unsigned("!=", v, ir.Constant(v.type, [0] * v.type.count)) for v in vectors]
            return join(builder, row, vectors)

        return row(array, start), codegen

    return load


@intrinsic
def store(typingctx: Any, array: NumbaType, start: NumbaType, row: NumbaType) -> Typed:
    """Write a row to the elements of `array` from `start` on."""
    check_array("store", array, start)
    if not isinstance(row, RowType) or row.kind != row_kind("store", array):
        raise TypingError(f"store() cannot put {row} into {array}; use to32, to64, or splat for a scalar")

    def codegen(context: Any, builder: ir.IRBuilder, sig: Signature, args: Sequence[ir.Value]) -> ir.Value:
        pointer = address(context, builder, sig, args)
        for chunk, vector in zip(row.chunks, split(builder, args[2]), strict=True):
            stored = stored_type(row, chunk)
            store_chunk(builder, pointer, chunk, builder.zext(vector, stored) if row.is_mask else vector)
        return context.get_dummy_value()

    return types.none(array, start, row), codegen


@intrinsic
def at(typingctx: Any, array: NumbaType, index: NumbaType) -> Typed:
    """Return array[index]; the index is neither checked nor wrapped when negative."""
    check_array("at", array, index)

    def codegen(context: Any, builder: ir.IRBuilder, sig: Signature, args: Sequence[ir.Value]) -> ir.Value:
        pointer = address(context, builder, sig, args)
        return context.unpack_value(builder, array.dtype, pointer)

    return array.dtype(array, index), codegen


def emit_prefetch(builder: ir.IRBuilder, pointer: ir.Value, write: bool) -> None:
    """Prefetch the cache line at `pointer` into all levels."""
    byte_pointer = builder.bitcast(pointer, cgutils.voidptr_t)
    int32 = ir.IntType(32)
    function_type = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, int32, int32, int32])
    function = cgutils.get_or_insert_function(builder.module, function_type, "llvm.prefetch.p0")
    builder.call(function, [byte_pointer, int32(int(write)), int32(3), int32(1)])


def prefetching(array: NumbaType, index: NumbaType, *, write: bool = False, elements: int = 1) -> Typed:
    """Return the typing and code of a prefetch of all cache lines of `elements` consecutive elements."""
    check_array("prefetch", array, index)

    def codegen(context: Any, builder: ir.IRBuilder, sig: Signature, args: Sequence[ir.Value]) -> ir.Value:
        pointer = address(context, builder, sig, args)
        size = context.get_abi_sizeof(context.get_data_type(array.dtype))
        per_line = CACHE_LINE // size
        for offset in [*range(0, elements - 1, per_line), elements - 1]:
            emit_prefetch(builder, builder.gep(pointer, [ir.IntType(64)(offset)]), write)
        return context.get_dummy_value()

    return types.none(array, index), codegen


@intrinsic
def prefetch(typingctx: Any, array: NumbaType, index: NumbaType) -> Typed:
    """Prefetch the cache line of `array[index]` for reading; an index outside the array is harmless."""
    return prefetching(array, index)


@intrinsic
def prefetch_write(typingctx: Any, array: NumbaType, index: NumbaType) -> Typed:
    """Prefetch the cache line of `array[index]` for writing."""
    return prefetching(array, index, write=True)


@intrinsic(prefer_literal=True)
def prefetch_row(typingctx: Any, array: NumbaType, start: NumbaType, elements: NumbaType) -> Typed:
    """Prefetch all cache lines of the row of `elements` (a literal) elements from `start` on, for reading."""
    if not isinstance(elements, types.IntegerLiteral):
        raise TypingError(f"prefetch_row() takes the number of elements as a literal integer, not {elements}")
    sig, codegen = prefetching(array, types.unliteral(start), elements=elements.literal_value)
    return sig.return_type(array, types.unliteral(start), elements), codegen


@intrinsic
def not_unrolled(typingctx: Any) -> Typed:
    """Keep LLVM from unrolling the loop that this is in; it adds no instruction.

    LLVM unrolls loops over runs of unknown length eight times, with a loop for the rest before it. In a loop of few
    iterations that costs a branch that is predicted badly. It does not unroll loops with calls that it cannot see into.
    """

    def codegen(context: Any, builder: ir.IRBuilder, sig: Signature, args: Sequence[ir.Value]) -> ir.Value:
        builder.asm(ir.FunctionType(ir.VoidType(), []), "", "", [], side_effect=True)
        return context.get_dummy_value()

    return types.none(), codegen


def atomic_update(name: str, array: NumbaType, index: NumbaType, value: NumbaType) -> Typed:
    """Return the typing and code of an atomic "add", "min" or "max".

    It takes a scalar (the result is the old value) or a row, each lane of which is updated.
    """
    check_array(f"atomic_{name}", array, index)
    if isinstance(value, RowType):
        if value.element != array.dtype:
            raise TypingError(f"atomic_{name}() cannot combine {value} with {array}")
        sig = types.none(array, index, value)
    else:
        sig = array.dtype(array, index, array.dtype)
    if isinstance(array.dtype, types.Float):
        operation = f"f{name}"
    else:
        operation = name if name == "add" or array.dtype.signed else f"u{name}"

    def codegen(context: Any, builder: ir.IRBuilder, sig: Signature, args: Sequence[ir.Value]) -> ir.Value:
        pointer = address(context, builder, sig, args)
        if not isinstance(value, RowType):
            return builder.atomic_rmw(operation, pointer, args[2], "monotonic")
        int64 = ir.IntType(64)
        for chunk, vector in zip(value.chunks, split(builder, args[2]), strict=True):
            with cgutils.for_range(builder, int64(chunk.lanes)) as loop:
                lane = builder.extract_element(vector, loop.index)
                place = builder.gep(pointer, [builder.add(loop.index, int64(chunk.start))])
                builder.atomic_rmw(operation, place, lane, "monotonic")
        return context.get_dummy_value()

    return sig, codegen


@intrinsic
def atomic_add(typingctx: Any, array: NumbaType, index: NumbaType, value: NumbaType) -> Typed:
    """Add a scalar (the result is the old value) or a row (no result) to the elements from `index` on, atomically."""
    return atomic_update("add", array, index, value)


@intrinsic
def atomic_min(typingctx: Any, array: NumbaType, index: NumbaType, value: NumbaType) -> Typed:
    """Lower the elements from `index` on to a scalar (the result is the old value) or a row, each atomically."""
    return atomic_update("min", array, index, value)


@intrinsic
def atomic_max(typingctx: Any, array: NumbaType, index: NumbaType, value: NumbaType) -> Typed:
    """Raise the elements from `index` on to a scalar (the result is the old value) or a row, each atomically."""
    return atomic_update("max", array, index, value)
