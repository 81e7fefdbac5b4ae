"""Renumber the ids of a file to consecutive vertex numbers."""

from __future__ import annotations

import numpy as np

from harness.graph.adjacency import Array, id_dtype

CHUNK = 2**20  # ids renumbered together, which keeps temporaries small
LARGEST = 2**22  # a table of ids up to this size is always used; a larger one if the edges take as many bytes


def compact(*lists: Array) -> tuple[Array | None, list[Array]]:
    """Renumber the distinct ids in `lists` to 0, 1, ... in ascending order.

    Returns the original id of each number, int64 (None if the ids already are 0, 1, ... without gaps), and the
    renumbered lists.
    """
    if all(ids.size == 0 for ids in lists):
        return None, list(lists)
    largest = max(int(ids.max()) for ids in lists if ids.size)
    if largest < max(LARGEST, sum(ids.nbytes for ids in lists)):
        seen = np.zeros(largest + 1, dtype=bool)
        for ids in lists:
            seen[ids] = True
        if seen.all():
            return None, list(lists)
        original = np.flatnonzero(seen)
        table = np.zeros(largest + 1, dtype=id_dtype(original.size))
        table[original] = np.arange(original.size, dtype=table.dtype)
        return original, [_renumber(ids, table, None) for ids in lists]
    original = _ascending(lists)
    return original.astype(np.int64), [_renumber(ids, None, original) for ids in lists]


def _renumber(ids: Array, table: Array | None, original: Array | None) -> Array:
    count = table.size if table is not None else original.size if original is not None else 0
    numbers = np.empty(ids.size, dtype=id_dtype(count))
    for start in range(0, ids.size, CHUNK):
        chunk = ids[start : start + CHUNK]
        numbers[start : start + CHUNK] = table[chunk] if table is not None else np.searchsorted(original, chunk)  # type: ignore[arg-type]
    return numbers


def _ascending(lists: tuple[Array, ...]) -> Array:
    ids = np.concatenate(lists)
    ids.sort()
    new = np.ones(ids.size, dtype=bool)
    np.not_equal(ids[1:], ids[:-1], out=new[1:])
    return ids[new]
