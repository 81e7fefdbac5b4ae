"""Arrays that are memory maps of files: the file behind them, and their pages in memory."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
ROWS_AT_ONCE = 1 << 18
PLACES_AT_ONCE = 256  # an access may map the 16 pages around it


@dataclass(frozen=True)
class FileMap:
    """The part of a file that an array maps: ``nbytes`` bytes from byte ``offset`` on. ``pages``: the whole map."""

    path: Path
    offset: int
    nbytes: int
    pages: Any


def file_map(array: Array) -> FileMap | None:
    """Return the file that a C-contiguous array maps, also through views; None if it is in memory of the process."""
    root: Any = None
    owner: Any = array
    while owner is not None:
        if isinstance(owner, np.memmap):
            root = owner
        owner = owner.obj if isinstance(owner, memoryview) else getattr(owner, "base", None)
    if root is None or root.filename is None or not array.flags.c_contiguous:
        return None
    start = int(root.offset) + array.ctypes.data - root.ctypes.data
    return FileMap(Path(root.filename), start, array.nbytes, root._mmap)


def release_pages(array: Array) -> None:
    """Remove the pages of a mapped array from the memory of this process; the next access maps them again.

    The kernel may keep them in its page cache. Does nothing for an array that maps no file.
    """
    found = file_map(array)
    if found is None or not found.nbytes:
        return
    # NumPy maps a file from the allocation boundary before the array's offset on.
    behind = found.offset % mmap.ALLOCATIONGRANULARITY
    in_map = array.ctypes.data - behind - np.frombuffer(found.pages, np.uint8, 1).ctypes.data
    found.pages.madvise(mmap.MADV_DONTNEED, in_map, behind + found.nbytes)


def in_parts(values: Array) -> Iterator[Array]:
    """Yield consecutive parts of an array along its first axis; after each, its pages are released."""
    for first in range(0, len(values), ROWS_AT_ONCE):
        part = values[first : first + ROWS_AT_ONCE]
        yield part
        release_pages(part)


def taken_from(values: Array, places: NDArray[np.int64]) -> Array:
    """Return ``values[places]`` for ascending places; few pages are in memory at once if the values are in a file."""
    if file_map(values) is None or not len(places):
        return values[places]
    parts = []
    for chosen in np.split(places, range(PLACES_AT_ONCE, len(places), PLACES_AT_ONCE)):
        parts.append(values[chosen])
        release_pages(values[int(chosen[0]) : int(chosen[-1]) + 1])
    return np.concatenate(parts)
