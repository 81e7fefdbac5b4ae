"""Process long arrays slice by slice on several threads.

NumPy's numeric loops release the interpreter's lock, and a slice is still in the CPU's cache for the next loop.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

SLICE = 1 << 18  # elements


def in_slices(work: Callable[[slice], object], count: int) -> None:
    """Call ``work`` once for every slice of ``range(count)``, in any order, on one thread per usable core.

    Raises the error of a call, or MemoryError if a thread cannot be started.
    """
    slices = [slice(first, min(first + SLICE, count)) for first in range(0, count, SLICE)]
    if len(slices) <= 1:
        for part in slices:
            work(part)
        return
    with ThreadPoolExecutor(min(len(slices), len(os.sched_getaffinity(0)))) as pool:
        try:
            calls = pool.map(work, slices)
        except RuntimeError as error:  # CPython's error if the stack of a thread cannot be allocated
            raise MemoryError(f"no memory for a thread: {error}") from error
        for _ in calls:
            pass


def taken(values: NDArray[Any], places: NDArray[Any]) -> NDArray[Any]:
    """Return ``values[places]`` along the first axis. The places must be within bounds; this is not checked."""
    found = np.empty((len(places), *values.shape[1:]), values.dtype)
    in_slices(lambda part: np.take(values, places[part], axis=0, out=found[part], mode="clip"), len(places))
    return found


def equal_in_slices(one: NDArray[Any], other: NDArray[Any]) -> bool:
    """Return whether two arrays ``[N, ...]`` are equal, without temporary arrays of N rows; stop at a difference."""
    if len(one) != len(other):
        return False
    parts = (slice(first, first + SLICE) for first in range(0, len(one), SLICE))
    return all(np.array_equal(one[part], other[part]) for part in parts)
