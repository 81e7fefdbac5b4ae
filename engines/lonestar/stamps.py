"""The order of edges that locks have led to, from stamps.

An edge that holds the locks of both ends takes the number of edges before it at either end: its stamps. If the locks
work, the stamps at a vertex are 0, 1, 2, ..., and an edge comes after those with smaller stamps at its ends. A
superstep is serialisable exactly if these relations have no cycle; any order that keeps them then gives its result.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.api import EngineFailure

Array = NDArray[Any]


def serial_order(sources: Array, destinations: Array, stamps: Array) -> Array:
    """Return an order of all edges that keeps the stamps at every vertex, int64[E].

    ``sources``, ``destinations``: [E]. ``stamps``: int [E, 2], at the source and at the destination. Raises
    EngineFailure if the stamps of a vertex are not 0, 1, 2, ... or have a cycle: the locks do not work.
    """
    count = len(sources)
    ends = np.stack([sources, destinations], axis=1).reshape(-1).astype(np.int64)
    numbers = stamps.reshape(-1)
    at = np.lexsort((numbers, ends))  # the two ends of edge e are at 2 e and 2 e + 1
    first = np.ones(len(at), np.bool_)
    first[1:] = ends[at[1:]] != ends[at[:-1]]
    starts = np.flatnonzero(first)
    rank = np.arange(len(at)) - np.repeat(starts, np.diff(np.append(starts, len(at))))
    wrong = np.flatnonzero(numbers[at] != rank)
    if len(wrong):
        raise EngineFailure(
            f"edges updated vertex {ends[at[wrong[0]]]} at the same time, or not once each: their stamps at it are not "
            "0, 1, 2, ..."
        )
    follower = np.full(len(at), -1, np.int64)
    follower[at[:-1][~first[1:]]] = at[1:][~first[1:]] // 2
    waits = 2 - first[np.argsort(at)].reshape(-1, 2).sum(axis=1)
    following, ready, found = follower.reshape(-1, 2), np.flatnonzero(waits == 0), []
    while len(ready):
        found.append(ready)
        released = following[ready].reshape(-1)
        released = released[released >= 0]
        np.subtract.at(waits, released, 1)
        ready = np.unique(released[waits[released] == 0])
    order = np.concatenate([np.empty(0, np.int64), *found])
    if len(order) < count:
        raise EngineFailure(f"the stamps of {count - len(order)} edges have a cycle: the superstep is not serialisable")
    return order
