"""Ids of vertices, one for every edge, packed into fewer bits: what is copied or read instead of streamed edges.

A block has 32 consecutive ids. It stores 32 fields of a width of its own: the differences from the id before, with
the sign in the lowest bit (*gaps*), or the differences from its least id, whichever are narrower. 32 fields of w bits
are exactly w words of 32 bits. The head of a block has its first id, or the least one, with the highest bit set for
gaps, and the position of its first word. One more head follows, so that the width is the difference of two positions.
"""

# mypy: allow-untyped-calls, allow-untyped-decorators, no-warn-return-any
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
from numba import njit
from numpy.typing import NDArray

from harness.graph.pages import array_in_pages
from harness.lowering.cpu.parallel_for import launch
from harness.lowering.packed_sizes import blocks_of

Array = NDArray[Any]
GAPS = 1 << 31  # a bit of the first number of a head: its ids are packed as gaps; ids are smaller
part_of_work: Any = njit(nogil=True, error_model="numpy", _nrt=False)  # type: ignore[call-overload]
over_parts: Any = launch  # numba's types do not describe it
FEW = 1 << 17  # ids that one thread packs in about the time that it takes to start others


@dataclass(frozen=True)
class PackedIds:
    """``length`` packed ids: the ``heads`` of blocks, uint32[blocks + 1, 2], and their ``words``, uint32[...]."""

    length: int
    heads: Array
    words: Array

    @property
    def nbytes(self) -> int:
        """Bytes of heads and words."""
        return int(self.heads.nbytes + self.words.nbytes)

    def unpacked(self) -> Array:
        """Return all ids, uint32[length]."""
        found = np.empty(self.length, np.uint32)
        unpack(self.heads, self.words, 0, 0, self.length, found)
        return found


@part_of_work  # pragma: no cover - compiled
def _bits(number: int) -> int:
    bits = 0
    while number >> bits:
        bits += 1
    return bits


@part_of_work  # pragma: no cover - compiled
def _signed(one: int, before: int) -> int:
    """Return a difference with its sign in the lowest bit."""
    gap = one - before
    return 2 * gap if gap >= 0 else -2 * gap - 1


@part_of_work  # pragma: no cover - compiled
def _measure_part(part: int, worker: int, ends: Array, values: Array, heads: Array) -> None:
    """Set the first number of each head, and its width as the second."""
    length = len(values)
    for block in range(ends[part], ends[part + 1]):
        first, last = block * 32, min(block * 32 + 32, length)
        start = np.int64(values[first])
        before, least, most, gaps = start, start, start, np.int64(0)
        for i in range(first + 1, last):
            one = np.int64(values[i])
            gaps |= _signed(one, before)
            least, most, before = min(least, one), max(most, one), one
        narrow, wide = _bits(gaps), _bits(most - least)
        heads[block, 0] = np.uint32(start | GAPS) if narrow < wide else np.uint32(least)
        heads[block, 1] = np.uint32(min(narrow, wide))


@njit(nogil=True, cache=True, error_model="numpy")  # pragma: no cover - compiled
def _measure(parts: int, threads: int, ends: Array, values: Array, heads: Array) -> Any:
    """Set the heads; return the number of words. The last head has it as its position."""
    over_parts(_measure_part, parts, threads, (ends, values, heads))
    words = np.int64(0)
    for block in range(len(heads) - 1):
        width = np.int64(heads[block, 1])
        heads[block, 1] = np.uint32(words)
        words += width
    heads[len(heads) - 1, 1] = np.uint32(words)
    return words


@part_of_work  # pragma: no cover - compiled
def _pack_part(part: int, worker: int, ends: Array, values: Array, heads: Array, words: Array) -> None:
    length = len(values)
    for block in range(ends[part], ends[part + 1]):
        at, width = np.int64(heads[block, 1]), np.int64(heads[block + 1, 1]) - np.int64(heads[block, 1])
        base = np.int64(heads[block, 0])
        gaps = base >= np.int64(GAPS)
        before = base - np.int64(GAPS)
        held, bits = np.uint64(0), np.int64(0)
        for i in range(block * 32, block * 32 + 32):
            field = np.int64(0)
            if i < length:
                one = np.int64(values[i])
                field = _signed(one, before) if gaps else one - base
                before = one
            held |= np.uint64(field) << np.uint64(bits)
            bits += width
            if bits >= 32:
                words[at] = np.uint32(held & np.uint64(0xFFFFFFFF))
                held >>= np.uint64(32)
                bits -= 32
                at += 1


@njit(nogil=True, cache=True, error_model="numpy")  # pragma: no cover - compiled
def _pack(parts: int, threads: int, ends: Array, values: Array, heads: Array, words: Array) -> int:
    return over_parts(_pack_part, parts, threads, (ends, values, heads, words))


@njit(nogil=True, cache=True, error_model="numpy")  # pragma: no cover - compiled
def _unpack(heads: Array, words: Array, block: int, first: int, last: int, ids: Array) -> None:
    origin = np.int64(heads[0, 1])
    for number in range(first // 32, (last + 31) // 32):
        k = number - block
        at, end = np.int64(heads[k, 1]) - origin, np.int64(heads[k + 1, 1]) - origin
        width, base = end - at, np.int64(heads[k, 0])
        gaps = base >= np.int64(GAPS)
        one = base - np.int64(GAPS) if gaps else base
        mask = (np.uint64(1) << np.uint64(width)) - np.uint64(1)
        held, bits = np.uint64(0), np.int64(0)
        for i in range(number * 32, min(number * 32 + 32, last)):
            if bits < width:
                held |= np.uint64(words[at]) << np.uint64(bits)
                bits += 32
                at += 1
            field = np.int64(held & mask)
            held >>= np.uint64(width)
            bits -= width
            if gaps:
                one += -((field + 1) >> 1) if field & 1 else field >> 1
            else:
                one = base + field
            if i >= first:
                ids[i - first] = np.uint32(one)


def pack(values: Array) -> PackedIds:
    """Pack ids, uint32[length], below 2^31, on all threads of Numba's pool.

    The arrays have private pages of their own, which are registered with a device in place. Their words must be fewer
    than 2^32 (:func:`harness.lowering.packed_sizes.refusal`). Raises MemoryError.
    """
    values = np.ascontiguousarray(values, np.uint32)
    blocks = blocks_of(len(values))
    heads = array_in_pages(2 * (blocks + 1), np.uint32).reshape(blocks + 1, 2)
    pool = int(numba.config.NUMBA_NUM_THREADS)  # type: ignore[attr-defined]
    parts = pool if len(values) > FEW else 1
    ends = np.linspace(0, blocks, parts + 1).astype(np.int64)
    count = int(_measure(parts, parts, ends, values, heads))
    words = array_in_pages(max(1, count), np.uint32)
    _pack(parts, parts, ends, values, heads, words)
    return PackedIds(len(values), heads, words)


def unpack(heads: Array, words: Array, block: int, first: int, last: int, ids: Array) -> None:
    """Set ``ids``, uint32[last - first], to the ids ``first`` to ``last - 1``.

    ``heads``: from that of ``block`` on, to the one behind the last block; ``words``: from the first one of ``block``
    on.
    """
    if first < last:
        _unpack(heads, words, block, first, last, ids)
