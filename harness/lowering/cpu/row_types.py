"""Numba types for one property row: `Row(n)`, `Row64(n)` and `RowMask(n)`, each held as one LLVM vector value.

A value of these types lives in registers: it is a plain local variable of compiled code (also across loop iterations
and as the result of a compiled function), and has no counterpart in Python.  The number of lanes is part of the type,
any from 1 to 256.
"""

# mypy: allow-untyped-calls, allow-untyped-decorators, allow-subclassing-any, no-warn-return-any
from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.datamodel.models import PrimitiveModel
from numba.core.imputils import lower_cast
from numba.extending import register_model

NumbaType = Any  # Numba annotates too little of its types to check against
MAX_LANES = 256

ELEMENTS = {"float32": types.float32, "float64": types.float64, "bool": types.boolean}
LLVM_ELEMENTS = {"float32": ir.FloatType(), "float64": ir.DoubleType(), "bool": ir.IntType(1)}


class RowType(types.Type):
    """Type of a row of `lanes` values of one kind: "float32", "float64" or "bool"."""

    def __init__(self, lanes: int, kind: str) -> None:
        if not 1 <= lanes <= MAX_LANES:
            raise ValueError(f"a row has from 1 to {MAX_LANES} lanes, not {lanes}")
        if kind not in ELEMENTS:
            raise ValueError(f"a row holds one of {sorted(ELEMENTS)}, not {kind!r}")
        self.lanes = lanes
        self.kind = kind
        super().__init__(name=f"Row({lanes} x {kind})")

    @property
    def key(self) -> tuple[int, str]:
        """What makes two of these types the same type."""
        return (self.lanes, self.kind)

    @property
    def element(self) -> NumbaType:
        """The Numba scalar type of a lane."""
        return ELEMENTS[self.kind]

    @property
    def vector(self) -> ir.VectorType:
        """The LLVM type of a value."""
        return ir.VectorType(LLVM_ELEMENTS[self.kind], self.lanes)

    @property
    def is_mask(self) -> bool:
        """Whether the lanes are truth values."""
        return self.kind == "bool"

    def of_kind(self, kind: str) -> RowType:
        """The type with as many lanes, of another kind."""
        return RowType(self.lanes, kind)


def Row(lanes: int) -> RowType:  # noqa: N802 - named like a type, as in Numba
    """The type of `lanes` float32 values."""
    return RowType(lanes, "float32")


def Row64(lanes: int) -> RowType:  # noqa: N802
    """The type of `lanes` float64 values."""
    return RowType(lanes, "float64")


def RowMask(lanes: int) -> RowType:  # noqa: N802
    """The type of `lanes` truth values."""
    return RowType(lanes, "bool")


@register_model(RowType)
class RowModel(PrimitiveModel):
    """A row is its LLVM vector, wherever it is."""

    def __init__(self, dmm: Any, fe_type: RowType) -> None:
        super().__init__(dmm, fe_type, fe_type.vector)


def splat(builder: ir.IRBuilder, scalar: ir.Value, lanes: int) -> ir.Value:
    """IR of the vector whose `lanes` lanes all hold `scalar`."""
    start = ir.Constant(ir.VectorType(scalar.type, lanes), ir.Undefined)
    single = builder.insert_element(start, scalar, cgutils.int32_t(0))
    return builder.shuffle_vector(single, start, ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes))


@lower_cast(types.Number, RowType)
@lower_cast(types.Boolean, RowType)
def scalar_to_row(context: Any, builder: ir.IRBuilder, fromty: NumbaType, toty: RowType, value: ir.Value) -> ir.Value:
    """A scalar beside a row is converted to the row's element type and repeated."""
    if isinstance(fromty, types.Literal):
        value = context.cast(builder, value, fromty, fromty.literal_type)
        fromty = fromty.literal_type
    return splat(builder, context.cast(builder, value, fromty, toty.element), toty.lanes)
