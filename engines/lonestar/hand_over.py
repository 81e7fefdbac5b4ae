"""Give the edges of hubs, which passes with locks leave again and again, to one lane group for each hub.

Edges of columns are given to a pass over columns. What passes then leave is grouped by hubs, which may be rows too.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
LEAST_SHARE = 100  # a pass that runs less than one of this many of its edges
LEAST = 1024  # edges: fewer take less time in further passes than grouped on the host
# The same for a pass over columns, which need not be grouped. A sweep of a tenth of the ratings of Netflix, k = 16,
# took 29.4 ms on an H100 with a share of 2, and 35.5 ms with 4.
COLUMN_SHARE, COLUMN_LEAST = 2, 1 << 16
TURN = 8  # passes, after which lists are read in another order
MOST_UNITS = 1 << 16


def starving(before: int, left: int) -> bool:
    """Return whether a pass over ``before`` edges has left so many that they are grouped by hubs."""
    return left >= LEAST and before - left < before // LEAST_SHARE


def waiting(before: int, left: int) -> bool:
    """Return whether a pass over ``before`` edges has left so many that columns take theirs."""
    return left >= COLUMN_LEAST and before - left < before // COLUMN_SHARE


def by_hub(edges: Array, sources: Array, destinations: Array, most: int) -> tuple[Array, Array, int]:
    """Return an order of edges by hubs, int64[n], the bounds of units, int64, and the number of units of a destination.

    The hub of an edge is the end with more of these edges; of two with equally many, the destination. The units of one
    destination come first, that with the most edges before the others. Each of the other units has whole hubs, sources
    or destinations. ``edges``: their positions, by which those of a hub are sorted. ``most``: units.
    """
    vertices = np.concatenate([sources, destinations])
    degrees = np.bincount(vertices) if len(vertices) else np.zeros(1, np.int64)
    of_source = degrees[sources] > degrees[destinations]
    hubs = np.where(of_source, sources, destinations)
    own = np.bincount(2 * hubs + of_source, minlength=1)[2 * hubs + of_source]  # edges of an edge's hub on its side
    order = np.lexsort((edges, hubs, -own, of_source))
    starts = np.flatnonzero(np.diff(2 * hubs[order] + of_source[order], prepend=-1))
    single = min(int(np.searchsorted(starts, len(edges) - np.count_nonzero(of_source))), most // 2)
    rest = starts[single:]
    if len(rest) > most - single:
        rest = rest[np.arange(most - single) * len(rest) // (most - single)]
    return order, np.concatenate([starts[:single], rest, [len(order)]]).astype(np.int64), single
