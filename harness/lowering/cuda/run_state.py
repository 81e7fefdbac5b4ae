"""The state of a run on a device, as the host writes and reads it: ``struct Run`` of ``run.cuh``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.lowering.cuda.modules import MOST_GROUPS

RUN_FIELDS = (
    "superstep", "limit", "first", "settled", "active", "moved", "edges", "dense", "rebuilding", "within",
    "confirming",
    "untracked", "resuming", "crowded", "stretch", "found", "movers", "usual", "entered", "before",
    "sides", "settles", "rebuild", "dense_edges", "dense_rows", "rebuild_edges",
    "may_pause", "untracked_edges", "reductions", "at_once", "patience", "full", "full_odd", "always", "always_odd",
)  # fmt: skip
FIELD = {name: place for place, name in enumerate(RUN_FIELDS)}


@dataclass(frozen=True)
class Look:
    """A copy of the state in transfer to the host."""

    host: NDArray[np.int64]
    arrived: Any  # a CuPy event

    def fields(self) -> dict[str, int]:
        """Return all fields; wait for the copy."""
        self.arrived.synchronize()
        return dict(zip(RUN_FIELDS, map(int, self.host), strict=False))


class RunState:
    """``array`` on the current device, int64: the fields in the order of ``RUN_FIELDS``, then the number of edges that
    leave the active sources of every edge stage, ``[MOST_GROUPS, 2]``.
    """

    def __init__(self) -> None:
        import cupy

        self.array = cupy.zeros(len(RUN_FIELDS) + 2 * MOST_GROUPS, np.int64)

    def set(self, frontier: NDArray[np.int64], **fields: int) -> None:
        """Set some fields, and the frontiers (``[MOST_GROUPS, 2]``), at once."""
        values = self.array.get()
        for name, value in fields.items():
            values[FIELD[name]] = value
        values[len(RUN_FIELDS) :] = frontier.reshape(-1)
        self.array.set(values)

    def note(self, **fields: int) -> None:
        """Set fields in the order of the current stream."""
        for name, value in fields.items():
            self.array[FIELD[name]] = value

    def fields(self) -> dict[str, int]:
        """Return all fields after the work queued on the current stream."""
        return dict(zip(RUN_FIELDS, map(int, self.array.get()), strict=False))

    def look(self) -> Look:
        """Queue a copy to the host on the current stream."""
        import cupy

        pinned = cupy.cuda.alloc_pinned_memory(self.array.nbytes)
        host = np.frombuffer(pinned, np.int64, len(self.array))
        self.array.get(out=host, blocking=False)
        arrived = cupy.cuda.Event(disable_timing=True)
        arrived.record()
        return Look(host, arrived)
