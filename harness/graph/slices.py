"""Work on long arrays, a slice at a time, on several threads: NumPy's loops over numbers leave the interpreter to the
others meanwhile, and a slice is still cached when the next loop takes it."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

SLICE = 1 << 18  # elements


def in_slices(work: Callable[[slice], object], count: int) -> None:
    """Call ``work`` once for every slice of ``range(count)``, in any order, on as many threads as the process may use
    processors. Raises what a call raises."""
    slices = [slice(first, min(first + SLICE, count)) for first in range(0, count, SLICE)]
    if len(slices) <= 1:
        for part in slices:
            work(part)
        return
    with ThreadPoolExecutor(min(len(slices), len(os.sched_getaffinity(0)))) as pool:
        for _ in pool.map(work, slices):
            pass


def taken(values: NDArray[Any], places: NDArray[Any]) -> NDArray[Any]:
    """``values[places]`` along the first axis; the places must lie within it, and are not checked."""
    found = np.empty((len(places), *values.shape[1:]), values.dtype)
    in_slices(lambda part: np.take(values, places[part], axis=0, out=found[part], mode="clip"), len(places))
    return found
