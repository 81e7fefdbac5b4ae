"""Buffers of packed rows, in page-locked memory of the host and on the device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from harness.api.cuda import PinnedMemory

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.api.cuda import Bounds


class Staging:
    """A buffer of packed rows in page-locked memory (``host``), and its copy on the device (``device``).

    ``copied``: the event after which ``host`` may be overwritten. ``unpacked``: the same for ``device``.
    """

    def __init__(self, nbytes: int) -> None:
        import cupy

        self.host = PinnedMemory(nbytes)
        self.device = cupy.full(nbytes, 0xA5, np.uint8)
        self.copied, self.unpacked = (cupy.cuda.Event(disable_timing=True) for _ in range(2))


@dataclass(frozen=True)
class Packed:
    """Packed rows in a buffer.

    ``places``: by the name of an array, its offset in the buffer in bytes, and its elements per edge. ``vertices``,
    ``edges``: the bounds of the vertices and of all their edges.
    """

    staging: Staging
    places: Mapping[str, tuple[int, int]]
    vertices: Bounds
    edges: Bounds
