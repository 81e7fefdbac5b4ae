"""Group the edges that passes with locks leave by their hubs, so that one lane group runs all edges of a hub."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
LEAST_SHARE = 100  # a pass that runs less than one of this many of its edges
LEAST = 1024  # edges: fewer take less time in further passes than grouped on the host
TURN = 8  # passes, after which lists are read in another order
MOST_UNITS = 1 << 16


def starving(before: int, left: int) -> bool:
    """Return whether a pass over ``before`` edges has left so many that they are handed over."""
    return left >= LEAST and before - left < before // LEAST_SHARE


def by_hub(sources: Array, destinations: Array, most: int) -> tuple[Array, Array]:
    """Return an order of edges in which those of a hub are consecutive, int64[n], and the bounds of units, int64.

    The hub of an edge is the end with more of these edges; of two with equally many, the destination. Each unit has
    whole hubs, one if there are at most ``most`` of them. Units are sorted by falling number of edges if each is a hub.
    """
    vertices = np.concatenate([sources, destinations])
    degrees = np.bincount(vertices) if len(vertices) else np.zeros(1, np.int64)
    hubs = np.where(degrees[sources] > degrees[destinations], sources, destinations)
    own = np.bincount(hubs, minlength=1)
    order = np.lexsort((hubs, -own[hubs]))
    starts = np.flatnonzero(np.diff(hubs[order], prepend=-1))
    if len(starts) > most:
        starts = starts[np.arange(most) * len(starts) // most]
    return order, np.append(starts, len(order)).astype(np.int64)
