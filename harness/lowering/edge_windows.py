"""Windows of vertices by the number of their edges."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def windows(offsets: NDArray[Any], first: int, last: int, most: int) -> list[tuple[int, int]]:
    """Return consecutive ranges of the vertices ``first..last``, each of at most ``most`` edges, or of one vertex."""
    found = []
    while first < last:
        stop = int(np.searchsorted(offsets, int(offsets[first]) + most, side="right")) - 1
        stop = min(max(stop, first + 1), last)
        found.append((first, stop))
        first = stop
    return found
