"""Locks of vertices in compiled code, which are tried and never waited for, and numbers that threads publish.

A lock is an element of an int32 array: 0 if it is free, 1 if it is held. Taking it orders the later reads of a thread
after the writes that other threads made before they released it. So does reading a published number after the writes
that came before it was published.
"""

# mypy: allow-untyped-calls, allow-untyped-decorators, no-warn-return-any
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.errors import TypingError
from numba.core.typing.templates import Signature
from numba.extending import intrinsic

from harness.lowering.cpu.row_memory import address, check_array
from harness.lowering.cpu.row_types import NumbaType

Typed = tuple[Signature, Callable[..., ir.Value]]
FREE, HELD = ir.Constant(ir.IntType(32), 0), ir.Constant(ir.IntType(32), 1)
BYTES = 4


def _check(name: str, array: NumbaType, index: NumbaType) -> None:
    check_array(name, array, index)
    if array.dtype != types.int32:
        raise TypingError(f"{name}() takes an int32 array, not {array}")


@intrinsic
def try_lock(typingctx: Any, locks: NumbaType, index: NumbaType) -> Typed:
    """Take ``locks[index]`` if it is free; return whether it was."""
    _check("try_lock", locks, index)

    def codegen(context: Any, builder: ir.IRBuilder, sig: Signature, args: Sequence[ir.Value]) -> ir.Value:
        pointer = address(context, builder, sig, args)
        return builder.extract_value(builder.cmpxchg(pointer, FREE, HELD, "acquire", "monotonic"), 1)

    return types.boolean(locks, index), codegen


@intrinsic
def unlock(typingctx: Any, locks: NumbaType, index: NumbaType) -> Typed:
    """Release ``locks[index]``, which the caller holds."""
    _check("unlock", locks, index)

    def codegen(context: Any, builder: ir.IRBuilder, sig: Signature, args: Sequence[ir.Value]) -> ir.Value:
        builder.store_atomic(FREE, address(context, builder, sig, args), "release", BYTES)
        return context.get_dummy_value()

    return types.none(locks, index), codegen


@intrinsic
def published(typingctx: Any, numbers: NumbaType, index: NumbaType) -> Typed:
    """Return ``numbers[index]``, which other threads may publish at the same time."""
    _check("published", numbers, index)

    def codegen(context: Any, builder: ir.IRBuilder, sig: Signature, args: Sequence[ir.Value]) -> ir.Value:
        return builder.load_atomic(address(context, builder, sig, args), "acquire", BYTES)

    return types.int32(numbers, index), codegen


@intrinsic
def publish(typingctx: Any, numbers: NumbaType, index: NumbaType, number: NumbaType) -> Typed:
    """Set ``numbers[index]`` after all earlier writes of the thread."""
    _check("publish", numbers, index)

    def codegen(context: Any, builder: ir.IRBuilder, sig: Signature, args: Sequence[ir.Value]) -> ir.Value:
        builder.store_atomic(args[2], address(context, builder, sig, args), "release", BYTES)
        return context.get_dummy_value()

    return types.none(numbers, index, types.int32), codegen


@intrinsic
def exchange_if(typingctx: Any, numbers: NumbaType, index: NumbaType, old: NumbaType, new: NumbaType) -> Typed:
    """Set ``numbers[index]`` to ``new`` if it is ``old``; return whether it was. No other thread writes in between."""
    _check("exchange_if", numbers, index)

    def codegen(context: Any, builder: ir.IRBuilder, sig: Signature, args: Sequence[ir.Value]) -> ir.Value:
        pointer = address(context, builder, sig, args)
        return builder.extract_value(builder.cmpxchg(pointer, args[2], args[3], "acq_rel", "acquire"), 1)

    return types.boolean(numbers, index, types.int32, types.int32), codegen


@intrinsic
def give_way(typingctx: Any) -> Typed:
    """Let the system run other threads first."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Signature, args: Sequence[ir.Value]) -> ir.Value:
        kind = ir.FunctionType(ir.IntType(32), [])
        builder.call(cgutils.get_or_insert_function(builder.module, kind, "sched_yield"), [])
        return context.get_dummy_value()

    return types.none(), codegen
