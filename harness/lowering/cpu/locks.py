"""Locks of vertices in compiled code, which are tried and never waited for.

A lock is an element of an int32 array: 0 if it is free, 1 if it is held. Taking it orders the later reads of a thread
after the writes that other threads made before they released it.
"""

# mypy: allow-untyped-calls, allow-untyped-decorators, no-warn-return-any
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.core.errors import TypingError
from numba.core.typing.templates import Signature
from numba.extending import intrinsic

from harness.lowering.cpu.row_memory import address, check_array
from harness.lowering.cpu.row_types import NumbaType

Typed = tuple[Signature, Callable[..., ir.Value]]
FREE, HELD = ir.Constant(ir.IntType(32), 0), ir.Constant(ir.IntType(32), 1)
BYTES = 4


def _check(name: str, locks: NumbaType, index: NumbaType) -> None:
    check_array(name, locks, index)
    if locks.dtype != types.int32:
        raise TypingError(f"{name}() takes an int32 array of locks, not {locks}")


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
