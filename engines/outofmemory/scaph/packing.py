"""Packing the rows of active vertices of a subgraph on threads of the host (Zheng et al. 2020, sec. 4.2).

The packed rows follow each other without gaps. A table says where they belong: for every 32 consecutive vertices of the
subgraph a bit for each vertex whose row is packed, and the number of packed edges before its first row.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

Array = NDArray[Any]

GROUP = 32  # vertices of an entry of the table
TABLE_BYTES = 8  # of an entry: the bits and the number of edges, uint32 each
FEW_EDGES = 50_000  # packing fewer takes less time than starting threads (the limit of Subway, Sabet et al. 2020)


@njit(nogil=True, cache=True)  # pragma: no cover - compiled
def _mark(flags: Array, offsets: Array, first: int, begin: int, end: int, table: Array) -> None:
    """Set the entries ``begin..end`` of a table: the bits of its vertices and the edges of these."""
    vertices = len(flags)
    for group in range(begin, end):
        low = group * 32
        bits, edges = np.uint32(0), np.int64(0)
        for i in range(low, min(low + 32, vertices)):
            if flags[i]:
                bits |= np.uint32(1) << np.uint32(i - low)
                edges += offsets[first + i + 1] - offsets[first + i]
        table[group, 0] = bits
        table[group, 1] = np.uint32(edges)


@njit(nogil=True, cache=True)  # pragma: no cover - compiled
def _add_up(table: Array) -> int:
    """Replace the edges of every entry by those of the entries before it; return the sum."""
    total = np.int64(0)
    for group in range(len(table)):
        edges = np.int64(table[group, 1])
        table[group, 1] = np.uint32(total)
        total += edges
    return total


@njit(nogil=True, cache=True)  # pragma: no cover - compiled
def _copy(table: Array, offsets: Array, first: int, begin: int, end: int, width: int, source: Array, to: Array) -> None:
    """Copy the rows of the entries ``begin..end``; an edge has ``width`` elements. ``first``: the first vertex."""
    for group in range(begin, end):
        bits, at = table[group, 0], np.int64(table[group, 1]) * width
        v = np.int64(first) + group * 32
        while bits:
            if bits & np.uint32(1):
                start, stop = np.int64(offsets[v]) * width, np.int64(offsets[v + 1]) * width
                for i in range(stop - start):
                    to[at + i] = source[start + i]
                at += stop - start
            bits >>= np.uint32(1)
            v += 1


class Packer:
    """Pack rows on some threads. ``threads``: None: all that the process may use."""

    def __init__(self, threads: int | None = None) -> None:
        self.threads = threads or len(os.sched_getaffinity(0))
        self._pool = ThreadPoolExecutor(self.threads, thread_name_prefix="extraction")

    def compile(self, offsets: Array) -> None:
        """Compile the functions for offsets of this type, by packing no row."""
        none, table = np.zeros(1, np.bool_), np.zeros((1, 2), np.uint32)
        self.mark(none, offsets, 0, table)
        for unit in (np.uint32, np.uint8):
            self.copy(table, offsets, 0, 0, 1, np.zeros(0, unit), np.zeros(0, unit))

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown()

    def mark(self, flags: Array, offsets: Array, first: int, table: Array) -> int:
        """Set a table, uint32[groups, 2], from the ``flags`` of the vertices from ``first`` on; return the edges."""
        parts = self.threads if len(flags) > FEW_EDGES else 1
        ends = np.linspace(0, len(table), parts + 1).astype(np.int64)
        self._on_threads(ends, lambda begin, end: _mark(flags, offsets, first, begin, end, table))
        return int(_add_up(table))

    def copy(
        self, table: Array, offsets: Array, first: int, edges: int, width: int, source: Array, packed: Array
    ) -> None:  # fmt: skip
        """Copy the rows of a table with some ``edges`` from ``source`` to ``packed``.

        Both have ``width`` elements for every edge. ``first``: the first vertex.
        """
        parts = self.threads if edges > FEW_EDGES else 1
        shares = np.linspace(0, edges, parts + 1)[1:-1]
        ends = np.concatenate([[0], np.searchsorted(table[:, 1], shares), [len(table)]]).astype(np.int64)
        self._on_threads(
            ends, lambda begin, end: _copy(table, offsets, first, begin, end, width, source, packed)
        )  # fmt: skip

    def _on_threads(self, ends: Sequence[int] | Array, work: Callable[[int, int], None]) -> None:
        """Do the work between consecutive ends, each on a thread of its own; one piece on the calling thread."""
        pieces = [(int(begin), int(end)) for begin, end in itertools.pairwise(ends) if begin < end]
        waiting = [self._pool.submit(work, *piece) for piece in pieces[1:]]
        if pieces:
            work(*pieces[0])
        for one in waiting:
            one.result()


def groups_of(vertices: int) -> int:
    """Return the entries of a table of some vertices."""
    return -(-vertices // GROUP)
