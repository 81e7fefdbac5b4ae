"""Compiled loops over the edges of large graphs. They release the interpreter's lock."""

# mypy: allow-untyped-decorators
from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

Array = NDArray[Any]


@njit(nogil=True, cache=True)  # pragma: no cover - compiled
def count_between(neighbours: Array, first: int, last: int, degrees: Array) -> None:
    """Add the edges into the vertices ``first..last`` to their in-degrees."""
    begin, size = np.uint64(first), np.uint64(last - first)
    for e in range(len(neighbours)):
        distance = np.uint64(neighbours[e]) - begin  # wraps around below the first: one comparison takes 2 ns, two 3 ns
        if distance < size:
            degrees[begin + distance] += 1


@njit(nogil=True, cache=True)  # pragma: no cover - compiled
def count_wanted(neighbours: Array, wanted: Array) -> int:
    """Return the number of edges into vertices that are ``wanted``, bool[V]."""
    count = 0
    for e in range(len(neighbours)):
        count += wanted[neighbours[e]]
    return count


@njit(nogil=True, cache=True)  # pragma: no cover - compiled
def list_wanted(neighbours: Array, wanted: Array, first: int, positions: Array) -> None:
    """Set the positions of these edges, of which the first edge has the position ``first``."""
    count = 0
    for e in range(len(neighbours)):
        if wanted[neighbours[e]]:
            positions[count] = first + e
            count += 1
