"""Edges sorted by integer keys in linear time, and in an order whose neighbours do not wait for each other."""

# mypy: allow-untyped-decorators
from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

Array = NDArray[Any]


def sorted_by(key: Array) -> Array:
    """Return the edges by their keys, any integers, stable, int64[E]."""
    least = int(key.min(initial=0))
    return np.asarray(_grouped(key - least, int(key.max(initial=0)) - least + 1))


def bounds_of(new: Array, count: int) -> Array:
    """Return the bounds of runs; ``new[i]``: element i + 1 begins a run."""
    starts = np.flatnonzero(new) + 1
    return np.concatenate([[0], starts, [count] if count else []]).astype(np.int64)


@njit(nogil=True, cache=True)  # pragma: no cover - compiled
def _grouped(key: Array, count: int) -> Array:
    """Return the edges by their keys, which are in [0, count), int64[E]; equal ones stay in order (counting sort)."""
    place = np.zeros(count + 1, np.int64)
    for i in range(len(key)):
        place[key[i] + 1] += 1
    for i in range(count):
        place[i + 1] += place[i]
    found = np.empty(len(key), np.int64)
    for i in range(len(key)):
        found[place[key[i]]] = i
        place[key[i]] += 1
    return found


# Consecutive edges of one row wait for each other: the next reads what the last wrote. Those of several rows in turn
# overlap in a core. Updates of the grid per second of processor time with 2, 4, 8 and 16 rows in turn over those with
# one, for 1 M ratings on one thread of an AMD EPYC (Zen 5): k = 16: 1.7, 1.7, 3.0, 3.1; k = 32: 1.7, 1.6, 2.6, 2.6;
# k = 64: 1.2, 2.0, 2.1, 2.0; k = 128: not measured, 1.5, 1.5, 1.3.
ROWS_IN_TURN = 8


def alternating(rows: Array, block: Array, blocks: int) -> Array:
    """Return the edges by block, int64[E]; those of a block take ROWS_IN_TURN of its rows in turn.

    The edges are given by row and column, as in the CSR. The first edges of these rows come first, then the second
    ones. ``block``: of each edge, below ``blocks``.
    """
    return np.asarray(_in_turn(_grouped(block, blocks), rows, block, ROWS_IN_TURN))


@njit(nogil=True, cache=True)  # pragma: no cover - compiled
def _in_turn(edges: Array, rows: Array, block: Array, turns: int) -> Array:
    """Take the edges of ``turns`` consecutive rows of a block in turn; ``edges`` are sorted by block and row."""
    found = np.empty(len(edges), np.int64)
    at, ends = np.empty(turns, np.int64), np.empty(turns, np.int64)
    first = 0
    while first < len(edges):
        own, after, runs = block[edges[first]], first, 0
        while runs < turns and after < len(edges) and block[edges[after]] == own:
            row, at[runs] = rows[edges[after]], after
            while after < len(edges) and block[edges[after]] == own and rows[edges[after]] == row:
                after += 1
            ends[runs] = after
            runs += 1
        place = first
        while place < after:
            for run in range(runs):
                if at[run] < ends[run]:
                    found[place] = edges[at[run]]
                    at[run] += 1
                    place += 1
        first = after
    return found
