"""LLVM IR of vector expressions: constants, calls of LLVM intrinsics, and folds of the lanes of one vector.

Everything here maps IR values to IR values and is independent of Numba.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llvmlite import ir

Combine = Callable[[ir.IRBuilder, ir.Value, ir.Value], ir.Value]

INT32 = ir.IntType(32)
CONTRACT = ("contract",)  # lets the code generator fuse a * b + c


def filled(vector: ir.VectorType, value: float) -> ir.Constant:
    """Return the constant vector whose lanes all hold `value`."""
    return ir.Constant(vector, [value] * vector.count)


def integers_like(vector: ir.VectorType) -> ir.VectorType:
    """Return the integer vector type with the shape and the lane width of a floating-point `vector`."""
    return ir.VectorType(ir.IntType(32 if isinstance(vector.element, ir.FloatType) else 64), vector.count)


def suffix(vector: ir.VectorType) -> str:
    """Return the overload suffix of LLVM's intrinsics, such as v8f32."""
    names = {"float": "f32", "double": "f64", "i1": "i1", "i32": "i32"}
    return f"v{vector.count}{names[str(vector.element)]}"


def call_intrinsic(builder: ir.IRBuilder, name: str, arguments: Sequence[ir.Value]) -> ir.Value:
    """Call the elementwise LLVM intrinsic `llvm.<name>` on vectors of one type."""
    vector = arguments[0].type
    full_name = f"llvm.{name}.{suffix(vector)}"
    function = builder.module.globals.get(full_name)
    if function is None:
        signature = ir.FunctionType(vector, [argument.type for argument in arguments])
        function = ir.Function(builder.module, signature, full_name)
    return builder.call(function, arguments)


def fma(builder: ir.IRBuilder, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    """Return the IR of a * b + c with one rounding."""
    return call_intrinsic(builder, "fma", (a, b, c))


def minimum(builder: ir.IRBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    """Return the smaller of each pair of lanes; NaN if either is NaN."""
    smaller = builder.select(builder.fcmp_ordered("<", a, b), a, b)
    return builder.select(builder.fcmp_unordered("uno", a, a), a, smaller)


def maximum(builder: ir.IRBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    """Return the larger of each pair of lanes; NaN if either is NaN."""
    larger = builder.select(builder.fcmp_ordered(">", a, b), a, b)
    return builder.select(builder.fcmp_unordered("uno", a, a), a, larger)


def lanes_of(builder: ir.IRBuilder, vector: ir.Value, start: int, count: int) -> ir.Value:
    """Return lanes start .. start + count - 1."""
    mask = ir.Constant(ir.VectorType(INT32, count), list(range(start, start + count)))
    return builder.shuffle_vector(vector, ir.Constant(vector.type, ir.Undefined), mask)


def with_unused(builder: ir.IRBuilder, vector: ir.Value, lanes: int, neutral: float) -> ir.Value:
    """Return the vector with the lanes from `lanes` on replaced by `neutral`."""
    width = vector.type.count
    if lanes == width:
        return vector
    mask = ir.Constant(ir.VectorType(INT32, width), [*range(lanes), *[width] * (width - lanes)])
    return builder.shuffle_vector(vector, filled(vector.type, neutral), mask)


def fold(builder: ir.IRBuilder, vectors: Sequence[ir.Value], combine: Combine) -> ir.Value:
    """Combine all lanes of vectors of decreasing width, powers of two, into one scalar.

    Vectors are halved, so that no lane waits for all earlier ones. A vector joins when the wider ones are reduced to
    its width.
    """
    total, rest = vectors[0], list(vectors[1:])
    while True:
        if rest and rest[0].type.count == total.type.count:
            total = combine(builder, total, rest.pop(0))
            continue
        width = total.type.count // 2
        if width == 0:
            return builder.extract_element(total, INT32(0))
        total = combine(builder, lanes_of(builder, total, 0, width), lanes_of(builder, total, width, width))


def reduce_mask(builder: ir.IRBuilder, name: str, mask: ir.Value) -> ir.Value:
    """Return the scalar truth value `llvm.vector.reduce.<name>` of a mask, where name is "or" or "and"."""
    full_name = f"llvm.vector.reduce.{name}.{suffix(mask.type)}"
    function = builder.module.globals.get(full_name)
    if function is None:
        function = ir.Function(builder.module, ir.FunctionType(ir.IntType(1), [mask.type]), full_name)
    return builder.call(function, [mask])
