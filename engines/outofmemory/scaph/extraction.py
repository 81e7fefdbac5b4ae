"""Find the edges to read if only the rows of active vertices are needed."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

GROUP = 32  # vertices of an entry of the table of packed rows
TABLE_BYTES = 8  # of an entry: a bit for each vertex and a number of edges, uint32 each


def groups_of(vertices: int) -> int:
    """Return the entries of the table of packed rows of some vertices."""
    return -(-vertices // GROUP)


def useful_edges(offsets: NDArray[Any], active: NDArray[Any]) -> int:
    """Return the number of edges in the rows of ``active`` vertices, int[n]. ``offsets``: of the rows, int[V + 1]."""
    return int((offsets[active + 1] - offsets[active]).sum())


def runs_of_rows(offsets: NDArray[Any], active: NDArray[Any], gap: int = 0) -> NDArray[np.int64]:
    """Return the runs of edges that contain the rows of ``active`` vertices: first and last + 1, int64[runs, 2].

    ``active``: ascending. ``offsets``: of the rows, int[V + 1]. Rows that are at most ``gap`` edges apart are one run:
    reading the edges between them takes less time than another read. No run is empty; runs ascend.
    """
    firsts, lasts = offsets[active].astype(np.int64), offsets[active + 1].astype(np.int64)
    some = firsts < lasts
    firsts, lasts = firsts[some], lasts[some]
    if not len(firsts):
        return np.zeros((0, 2), np.int64)
    begins = np.flatnonzero(np.concatenate([[True], firsts[1:] > lasts[:-1] + gap]))
    ends = np.concatenate([begins[1:], [len(firsts)]]) - 1
    return np.stack([firsts[begins], lasts[ends]], axis=1)
