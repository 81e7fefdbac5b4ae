"""Arrays in private pages of their own, which other parts can lock or register with a device in place.

Arrays of NumPy begin anywhere in memory that its allocator shares between arrays. Pages of an array's own have no other
data, so that locking them concerns only the array.
"""

from __future__ import annotations

import contextlib
import mmap
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

Array = NDArray[Any]


class PrivatePages(mmap.mmap):
    """Zeroed anonymous memory of this process; an array that :func:`array_in_pages` made refers to it."""


def array_in_pages(length: int, dtype: DTypeLike) -> Array:
    """Return a zeroed array ``[length]`` in :class:`PrivatePages`, which are freed with it.

    Pages take memory when they are first written. Raises MemoryError.
    """
    kind = np.dtype(dtype)
    size = max(1, length * kind.itemsize)
    try:
        pages = PrivatePages(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as error:
        raise MemoryError(f"the host has no {size:,} bytes for an array: {error}") from error
    with contextlib.suppress(OSError):  # a kernel without huge pages
        pages.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(pages, np.uint8)[: length * kind.itemsize].view(kind)


def private_pages(array: Array) -> PrivatePages | None:
    """Return the pages that a C-contiguous array fills from their begin to their end; None for any other array."""
    owner: Any = array
    while owner is not None and not isinstance(owner, PrivatePages):
        owner = owner.obj if isinstance(owner, memoryview) else getattr(owner, "base", None)
    if owner is None or not array.flags.c_contiguous or array.nbytes != len(owner):
        return None
    return owner
