"""Flags of vertices on two levels, so that finding a few set flags needs no pass over all.

A flag is a byte, ``<name>[v]``. A byte of the second level, ``<name>_blocks[v // 64]``, stands for the 64 flags of one
cache line: if it is False, none of them is set; if it is True, some may be. A scan reads eight bytes at once, of the
second level first. If nothing is set, it costs one load of eight bytes for every 512 vertices: 0.5 us for half a
million vertices.

Queues of vertices would also work. Flags, however, keep the order of the vertices, in which sums are taken and hubs
are split into runs, for any number of threads. They need no atomic operations, cannot overflow, and a superstep in
which nearly all flags are set costs no more than without the second level.

A kernel's template visits the set flags in ascending order with :func:`flagged_loop`. Each flag is cleared before its
vertex is processed, which may set it again; ``raise_flag(<name>, <name>_blocks, v)`` sets one. No two threads may clear
flags of one block at the same time, and no thread may clear flags that others set. Kernels therefore set only flags of
other arrays than the one that they clear, or of the vertex that they process. A block that is only partly in a part
keeps its second-level byte.
"""

# mypy: allow-untyped-calls, allow-untyped-decorators, no-warn-return-any
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit
from numba.core import types
from numba.core.typing.templates import Signature
from numba.extending import intrinsic
from numpy.typing import NDArray

from harness.lowering.cpu.row_memory import address, check_array
from harness.lowering.cpu.row_types import NumbaType

BLOCK = 64  # flags: a cache line
BLOCK_BITS = 6
WORD = 8  # blocks read together
ALL = np.uint64(2**64 - 1)
Typed = tuple[Signature, Callable[..., ir.Value]]


def blocks_of(name: str) -> str:
    """Return the name of the second level of some flags."""
    return f"{name}_blocks"


def flag_arrays(count: int, value: bool) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return flags of ``count`` vertices, all ``value``: bool[count] and their second level, bool[ceil(count / 64)].

    Both arrays start on cache lines and are readable, as zeros, to the end of their last cache line.
    """
    return _lines(count, value), _lines(-(-count // BLOCK), value)


def _lines(count: int, value: bool) -> NDArray[np.bool_]:
    padded = np.zeros((count // BLOCK + 2) * BLOCK, np.bool_)
    skip = -padded.ctypes.data % BLOCK
    padded[skip : skip + count] = value
    return padded[skip : skip + count]


def raised(flags: str, v: str) -> str:
    """Return the line that sets a flag."""
    return f"raise_flag({flags}, {blocks_of(flags)}, {v})"


def every_vertex(item: str, body: str, *, first: str = "bounds[t]", last: str = "bounds[t + 1]", depth: int = 4) -> str:
    """Return a loop over the vertices ``first .. last``, indented ``depth`` spaces for a template.

    ``body``: lines, indented from 0 on.
    """
    return placed(f"for {item} in range({first}, {last}):", body, 4, depth)


def flagged_loop(
    item: str,
    flags: str,
    body: str,
    *,
    first: str = "bounds[t]",
    last: str = "bounds[t + 1]",
    depth: int = 4,
    take: bool = True,
) -> str:
    """Return a loop like :func:`every_vertex` over flagged vertices, ascending. ``take``: clear found flags."""
    block, bits, head, stop = (f"{item}_{part}" for part in ("block", "bits", "head", "stop"))
    flags_at, blocks_at = f"place_of({flags})", f"place_of({blocks_of(flags)})"
    read = f"take_flags({flags_at}, {blocks_at}" if take else f"flagged_in({flags_at}"
    found = f"""
{head}, {stop} = {first}, {last}
{block} = {head} >> {BLOCK_BITS}
while True:
    {block} = next_block({blocks_at}, {block}, ({stop} + {BLOCK - 1}) >> {BLOCK_BITS})
    if {block} << {BLOCK_BITS} >= {stop}:
        break
    {bits} = {read}, {block}, {head}, {stop})
    {block} += 1
    while {bits} != 0:
        {item} = (({block} - 1) << {BLOCK_BITS}) + lowest_bit({bits})
        {bits} &= {bits} - np.uint64(1)
"""
    return placed(found.strip("\n"), body, 8, depth)


def placed(head: str, body: str, inner: int, depth: int) -> str:
    """Return the head of a loop and its body, ``inner`` spaces deeper; the template indents the first line."""
    lines = [*head.splitlines(), *(" " * inner + line for line in body.splitlines() if line.strip())]
    return ("\n" + " " * depth).join(lines)


# Compiled. Loops pass the addresses of arrays: passing arrays counts references, 33 ns a call.
BYTE, INT64 = ir.IntType(8), ir.IntType(64)
FLAGS = ir.VectorType(BYTE, BLOCK)
compiled: Any = intrinsic  # takes the typing context in addition to the arguments of the calls below


@compiled
def place_of(typingctx: Any, array: NumbaType) -> Typed:
    """Return the address of the first element of an array."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Signature, args: Sequence[ir.Value]) -> ir.Value:
        return builder.ptrtoint(address(context, builder, types.int64(array, types.int64), [args[0], INT64(0)]), INT64)

    return types.int64(array), codegen


@compiled
def word_at(typingctx: Any, place: NumbaType) -> Typed:
    """Return eight flags as one uint64, the first one lowest."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Signature, args: Sequence[ir.Value]) -> ir.Value:
        return builder.load(builder.inttoptr(args[0], INT64.as_pointer()), align=1, typ=INT64)

    return types.uint64(types.int64), codegen


@compiled
def bits_at(typingctx: Any, place: NumbaType) -> Typed:
    """Return the 64 flags of a block as the bits of one uint64, the first one lowest."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Signature, args: Sequence[ir.Value]) -> ir.Value:
        flags = builder.load(builder.inttoptr(args[0], FLAGS.as_pointer()), align=1, typ=FLAGS)
        return builder.bitcast(builder.icmp_unsigned("!=", flags, ir.Constant(FLAGS, [0] * BLOCK)), INT64)

    return types.uint64(types.int64), codegen


def _clearing(of: ir.Type) -> Any:
    @compiled
    def clear(typingctx: Any, place: NumbaType) -> Typed:
        def codegen(context: Any, builder: ir.IRBuilder, sig: Signature, args: Sequence[ir.Value]) -> None:
            builder.store(ir.Constant(of, None), builder.inttoptr(args[0], of.as_pointer()), align=1)

        return types.void(types.int64), codegen

    return clear


clear_byte = _clearing(BYTE)
clear_flags = _clearing(FLAGS)


@compiled
def lowest_bit(typingctx: Any, word: NumbaType) -> Typed:
    """Return the number of the lowest set bit of a uint64, which must not be 0."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Signature, args: Sequence[ir.Value]) -> ir.Value:
        return builder.cttz(args[0], ir.IntType(1)(1))

    return types.int64(types.uint64), codegen


@compiled
def raise_flag(typingctx: Any, flags: NumbaType, blocks: NumbaType, v: NumbaType) -> Typed:
    """Set the flag of vertex ``v``. Several threads may set one at the same time, because all write True."""
    check_array("raise_flag", flags, v)

    def codegen(context: Any, builder: ir.IRBuilder, sig: Signature, args: Sequence[ir.Value]) -> ir.Value:
        vertex = context.cast(builder, args[2], sig.args[2], types.int64)
        flag = address(context, builder, types.void(flags, types.int64), [args[0], vertex])
        with builder.if_then(builder.icmp_unsigned("==", builder.load(flag, typ=BYTE), BYTE(0))):
            block = [args[1], builder.lshr(vertex, INT64(BLOCK_BITS))]
            builder.store(BYTE(1), flag)
            builder.store(BYTE(1), address(context, builder, types.void(blocks, types.int64), block))

    return types.void(flags, blocks, v), codegen


@njit(nogil=True, error_model="numpy")  # pragma: no cover - compiled
def next_block(blocks: int, block: int, last: int) -> int:
    """Return the first block from ``block`` on whose second-level byte is set; ``last`` if there is none."""
    while block < last:
        word = word_at(blocks + block)  # with up to 7 bytes beyond the last block, which are zeros
        if word != 0:
            return min(block + (lowest_bit(word) >> 3), last)
        block += WORD
    return last


@njit(nogil=True, error_model="numpy")  # pragma: no cover - compiled
def flagged_in(flags: int, block: int, first: int, last: int) -> Any:
    """Return the flags of a block as bits, without those of vertices outside ``first .. last``."""
    start = block << BLOCK_BITS
    bits = bits_at(flags + start)
    if start < first:
        bits &= ALL << np.uint64(first - start)
    if start + BLOCK > last:
        bits &= ALL >> np.uint64(start + BLOCK - last)
    return bits


@njit(nogil=True, error_model="numpy")  # pragma: no cover - compiled
def take_flags(flags: int, blocks: int, block: int, first: int, last: int) -> int:
    """Return the bits of :func:`flagged_in` and clear these flags.

    The second-level byte is cleared if the whole block is in ``first .. last``.
    """
    start = block << BLOCK_BITS
    bits = flagged_in(flags, block, first, last)
    if start >= first and start + BLOCK <= last:
        clear_byte(blocks + block)
        clear_flags(flags + start)
        return bits
    rest = bits
    while rest != 0:
        clear_byte(flags + start + lowest_bit(rest))
        rest &= rest - np.uint64(1)
    return bits


@njit(nogil=True, error_model="numpy")  # pragma: no cover - compiled
def clear_flagged(flags: int, blocks: int, first: int, last: int) -> None:
    """Clear the flags of the vertices ``first .. last``."""
    block, stop = first >> BLOCK_BITS, (last + BLOCK - 1) >> BLOCK_BITS
    while True:
        block = next_block(blocks, block, stop)
        if block << BLOCK_BITS >= last:
            return
        take_flags(flags, blocks, block, first, last)
        block += 1
