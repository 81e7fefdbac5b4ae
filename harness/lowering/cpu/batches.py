"""Process flagged vertices in batches that prefetch their data.

A sparse frontier reads rows at scattered addresses. Each vertex waits for its edge offsets, then for the neighbours,
then for their rows; unpredictable branches keep the processor from starting the next vertex meanwhile. Here a batch of
vertices prefetches all offsets, then all neighbours, and so on, before any vertex is processed. A pushing superstep of
BFS on the highways of the world (8 sources, 2,000 active vertices on average, one thread) takes 0.09 ms instead of
0.14 ms to send its messages. Batches of 16 take 1.1 times as long as batches of 64; batches of 128 take as long as
those of 64.
"""

# mypy: allow-untyped-calls, allow-untyped-decorators, no-warn-return-any
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit
from numba.core import cgutils, types

from harness.lowering.cpu.flags import (
    BLOCK,
    BLOCK_BITS,
    INT64,
    Typed,
    blocks_of,
    compiled,
    flagged_in,
    lowest_bit,
    next_block,
    placed,
    take_flags,
)
from harness.lowering.cpu.row_types import NumbaType

BATCH = 64  # minimum number of vertices, if that many exist; whole blocks of flags are taken until it is reached
SPARSE = 8  # minimum number of vertices per flagged one for a batch to prefetch; the hardware prefetches denser ones
FIRST_EDGES = 8  # of a vertex, whose ends are prefetched; a batch must not prefetch all edges of a hub


def flagged_batches(
    item: str,
    flags: str,
    body: str,
    ahead: Sequence[str],
    *,
    first: str = "bounds[t]",
    last: str = "bounds[t + 1]",
    depth: int = 4,
    take: bool = True,
) -> str:
    """Return a loop as :func:`harness.lowering.cpu.flags.flagged_loop` does, split into batches.

    ``ahead``: rounds of prefetches that precede the body if few vertices are flagged. All vertices of a batch complete
    a round before the next one, which reads what the previous round prefetched.
    """
    head, stop, found, sparse, i = (f"{item}_{part}" for part in ("head", "stop", "found", "sparse", "i"))

    def each(text: str, depth: int) -> list[str]:
        lines = [f"for {i} in range({found}):", f"    {item} = batched({item}_batch, {i})"]
        lines += [f"    {line}" for line in text.splitlines() if line.strip()]
        return [f"{' ' * depth}{line}" for line in lines]

    lines = [
        f"{item}_batch = batch_room()",
        f"{head}, {stop} = {first}, {last}",
        f"while {head} < {stop}:",
        f"    {found}, {head}, {sparse} = next_batch(",
        f"        place_of({flags}), place_of({blocks_of(flags)}), {item}_batch, {head}, {stop}, {take}",
        "    )",
        f"    if {sparse}:",
        *(line for text in ahead for line in each(text, 8)),
        *each(body, 4),
    ]
    return placed("\n".join(lines), "", 0, depth)


# Compiled ---------------------------------------------------------------------------------------------------------
@compiled
def batch_room(typingctx: Any) -> Typed:
    """Allocate a batch on the stack, with space for its maximum number of vertices."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        return builder.ptrtoint(cgutils.alloca_once(builder, INT64, size=BATCH + BLOCK), INT64)

    return types.int64(), codegen


def _member(builder: ir.IRBuilder, batch: ir.Value, i: ir.Value) -> ir.Value:
    return builder.gep(builder.inttoptr(batch, INT64.as_pointer()), [i], source_etype=INT64)


@compiled
def batched(typingctx: Any, batch: NumbaType, i: NumbaType) -> Typed:
    """Return the i-th vertex of a batch."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        return builder.load(_member(builder, *args), typ=INT64)

    return types.int64(types.int64, types.int64), codegen


@compiled
def put(typingctx: Any, batch: NumbaType, i: NumbaType, vertex: NumbaType) -> Typed:
    """Set the i-th vertex of a batch."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> None:
        builder.store(args[2], _member(builder, *args[:2]))

    return types.void(types.int64, types.int64, types.int64), codegen


@njit(nogil=True, error_model="numpy")  # pragma: no cover - compiled
def next_batch(flags: int, blocks: int, batch: int, head: int, stop: int, take: bool) -> tuple[int, int, bool]:
    """Fill a batch with the next flagged vertices from ``head`` on.

    Return their number, the start of the next batch, and whether they are sparse. ``take``: clear their flags.
    """
    found, block, last = 0, head >> BLOCK_BITS, (stop + BLOCK - 1) >> BLOCK_BITS
    while found < BATCH:
        block = next_block(blocks, block, last)
        if block << BLOCK_BITS >= stop:
            return found, stop, found * SPARSE < stop - head
        bits = take_flags(flags, blocks, block, head, stop) if take else flagged_in(flags, block, head, stop)
        while bits != 0:
            put(batch, found, (block << BLOCK_BITS) + lowest_bit(bits))
            found += 1
            bits &= bits - np.uint64(1)
        block += 1
    following = min(block << BLOCK_BITS, stop)
    return found, following, found * SPARSE < following - head
