"""Counts of runs that the engines of all devices need."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray


def lost_share(degrees: NDArray[Any], counters: NDArray[Any]) -> float:
    """Return the share of updates of rows that were lost in a superstep, from counts taken without locks as rows are.

    ``degrees``, ``counters``: int [V], the edges at each vertex and those that it counted.
    """
    updates = int(degrees.sum())
    return float((degrees - counters).sum() / updates) if updates else 0.0
