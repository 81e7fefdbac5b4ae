"""Pack the rows of active vertices on threads of the host (Zheng et al. 2020, sec. 4.2).

Packed rows follow each other without gaps. A table of uint32[groups, 2] locates them. For every 32 consecutive vertices
it has a bit for each vertex whose row is packed, and the number of packed edges before these rows.

Rows are scattered, so that a copy of one after the other would wait twice for memory for each: for its offsets and for
its edges. Rows are therefore copied in batches, whose offsets and then edges are prefetched; 32 adjacent rows are one
copy. Rows of 31 uint32 on average of 262 MB, one thread of an AMD EPYC: 1.9, 1.4, 1.2, 0.96 and 1.3 times as fast as
one row after the other with 0.5, 10, 50, 90 and 100 % of the rows (which took 0.44 to 2.6 GB/s; 27 November 2026).
Batches of 16 to 128 rows differ by 7 % at most. Vertices without a flag are passed over 32 at a time: 65,536 vertices
take 23, 35, 95 and 116 us with 0.05, 0.5, 5 and 50 % of the flags set, which took 101 to 111 us one after the other.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numba import njit
from numpy.typing import NDArray

from harness.api.cpu import launch, prefetch

Array = NDArray[Any]

BATCH = 32  # rows
FETCHED = 256  # bytes of a row that are prefetched; the processor then follows a longer row by itself
LINE = 64  # bytes
ALL = np.uint32(0xFFFFFFFF)  # 32 rows
# Vertices to mark, or edges to copy, for each thread at least. Packing 5 % of 43,690 rows takes 99 us on
# two threads and 190 us on one; 5 % of 262,144 rows, on 16 threads, 271 us with 8,192 for each, 293 with 16,384 or with
# 4,096, and 763 with 50,000 (two Intel Xeons, 28 November 2026).
FEW = 8192


@njit(nogil=True, error_model="numpy", _nrt=False)  # pragma: no cover - compiled
def _mark_part(
    part: int, worker: int, ends: Array, flags: Array, offsets: Array, first: int, table: Array
) -> None:  # fmt: skip
    vertices = len(flags)
    for group in range(ends[part], ends[part + 1]):
        low = group * 32
        bits, edges, some = np.uint32(0), np.int64(0), True
        if low + 32 <= vertices:
            some = False
            for i in range(32):  # without a branch: a few vector instructions
                some |= flags[low + i]
        if some:
            for i in range(low, min(low + 32, vertices)):
                if flags[i]:
                    bits |= np.uint32(1) << np.uint32(i - low)
                    edges += offsets[first + i + 1] - offsets[first + i]
        table[group, 0] = bits
        table[group, 1] = np.uint32(edges)


@njit(nogil=True, cache=True, error_model="numpy")  # pragma: no cover - compiled
def _mark(
    parts: int, threads: int, ends: Array, flags: Array, offsets: Array, first: int, table: Array
) -> int:  # fmt: skip
    """Set a table; return the sum of its edges, which are then those before each entry."""
    launch(_mark_part, parts, threads, (ends, flags, offsets, first, table))
    total = np.int64(0)
    for group in range(len(table)):
        edges = np.int64(table[group, 1])
        table[group, 1] = np.uint32(total)
        total += edges
    return total


@njit(nogil=True, error_model="numpy", _nrt=False)  # pragma: no cover - compiled
def _copy_part(
    part: int, worker: int, ends: Array, table: Array, offsets: Array, first: int, width: int, source: Array, to: Array,
    batches: Array,
) -> None:  # fmt: skip
    group, last = ends[part], ends[part + 1]
    if group == last:
        return
    line = LINE // source.itemsize
    bits, at = table[group, 0], np.int64(table[group, 1]) * width
    v = np.int64(first) + group * 32
    while group < last:
        rows = 0
        while rows < BATCH and group < last:
            if bits == 0:
                group += 1
                if group < last:
                    bits, v = table[group, 0], np.int64(first) + group * 32
            elif bits == ALL:  # the rows of the group are adjacent
                if rows:
                    break
                start, stop = np.int64(offsets[v]) * width, np.int64(offsets[v + 32]) * width
                for j in range(stop - start):
                    to[at + j] = source[start + j]
                at += stop - start
                bits = np.uint32(0)
            else:
                if bits & np.uint32(1):
                    batches[worker, rows] = v
                    prefetch(offsets, v)
                    rows += 1
                bits >>= np.uint32(1)
                v += 1
        for i in range(rows):
            u = batches[worker, i]
            start, stop = np.int64(offsets[u]) * width, np.int64(offsets[u + 1]) * width
            for place in range(start, min(stop, start + FETCHED // LINE * line), line):
                prefetch(source, place)
        for i in range(rows):
            u = batches[worker, i]
            start, stop = np.int64(offsets[u]) * width, np.int64(offsets[u + 1]) * width
            for j in range(stop - start):
                to[at + j] = source[start + j]
            at += stop - start


@njit(nogil=True, cache=True, error_model="numpy")  # pragma: no cover - compiled
def _copy(
    parts: int, threads: int, ends: Array, table: Array, offsets: Array, first: int, width: int, source: Array,
    to: Array, batches: Array,
) -> int:  # fmt: skip
    return launch(_copy_part, parts, threads, (ends, table, offsets, first, width, source, to, batches))


class Packer:
    """Pack rows on ``threads`` threads of Numba's pool; None: on all of them.

    The size of the pool is read once, because ``numba.get_num_threads`` returns 1 after a launch on one thread.
    """

    def __init__(self, threads: int | None = None) -> None:
        pool = int(numba.config.NUMBA_NUM_THREADS)  # type: ignore[attr-defined]
        self.parts = threads or pool
        self.threads = min(self.parts, pool)
        self._batches = np.zeros((self.threads, BATCH), np.int64)  # vertices, for each thread

    def compile(self, offsets: Array) -> None:
        """Compile the functions for offsets of this type, by packing no row."""
        none, table = np.zeros(1, np.bool_), np.zeros((1, 2), np.uint32)
        self.mark(none, offsets, 0, table)
        for unit in (np.uint32, np.uint8):
            self.copy(table, offsets, 0, 0, 1, np.zeros(0, unit), np.zeros(0, unit))

    def mark(self, flags: Array, offsets: Array, first: int, table: Array) -> int:
        """Set a table, uint32[groups, 2], from the ``flags`` of the vertices from ``first`` on; return the edges."""
        parts, threads = self._shares(len(flags))
        ends = np.arange(parts + 1) * len(table) // parts
        return int(_mark(parts, threads, ends, flags, offsets, first, table))

    def copy(
        self, table: Array, offsets: Array, first: int, edges: int, width: int, source: Array, packed: Array
    ) -> None:  # fmt: skip
        """Copy the rows of a table with some ``edges`` from ``source`` to ``packed``.

        Both have ``width`` elements for every edge. ``first``: the first vertex. Threads copy about as many edges each.
        """
        parts, threads = self._shares(edges)
        ends = np.full(parts + 1, len(table))
        ends[:-1] = np.searchsorted(table[:, 1], np.arange(parts) * edges // parts) if parts > 1 else 0
        _copy(parts, threads, ends, table, offsets, first, width, source, packed, self._batches)

    def _shares(self, work: int) -> tuple[int, int]:
        """Return into how many parts some work is divided, and for how many threads: FEW pieces or more for each."""
        parts = max(1, min(self.parts, work // FEW))
        return parts, min(parts, self.threads)
