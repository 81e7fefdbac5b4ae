"""The state of a run on a device, as the host writes and reads it: ``struct Run`` of ``run.cuh``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST_GROUPS = 16  # edge stages whose sources are tracked
RUN_FIELDS = (
    "superstep", "limit", "first", "settled", "active", "moved", "edges", "dense", "rebuilding", "within",
    "confirming",
    "sides", "settles", "rebuild", "dense_edges", "rebuild_edges", "always", "always_odd",
)  # fmt: skip


@dataclass(frozen=True)
class Look:
    """A copy of the state in transfer to the host. ``names``: of its fields."""

    names: Sequence[str]
    host: NDArray[np.int64]
    arrived: Any  # a CuPy event; None: the caller has waited for the stream

    def field(self, name: str) -> int:
        """Return one field of a copy that has arrived."""
        return int(self.host[self.names.index(name)])

    def fields(self) -> dict[str, int]:
        """Return all fields, and the *frontier*; wait for the copy.

        The frontier is the number of edges that leave the active sources of the next superstep, of all edge stages.
        """
        if self.arrived is not None:
            self.arrived.synchronize()
        found = dict(zip(self.names, map(int, self.host), strict=False))
        frontiers = self.host[len(self.names) :].reshape(-1, 2)
        return {**found, "frontier": int(frontiers[:, found["superstep"] % 2].sum())}


def pinned(length: int) -> NDArray[np.int64]:
    """Return an array of int64 in page-locked memory of the host."""
    import cupy

    return np.frombuffer(cupy.cuda.alloc_pinned_memory(8 * length), np.int64, length)


class RunState:
    """``array`` on the current device, int64: the fields in the order of ``names``, then the number of edges that leave
    the active sources of every edge stage, ``[MOST_GROUPS, 2]``.

    ``names``: the fields that the engine adds, then RUN_FIELDS. ``added``: the former.
    """

    def __init__(self, added: Sequence[str] = ()) -> None:
        import cupy

        self.names = (*added, *RUN_FIELDS)
        self.place = {name: place for place, name in enumerate(self.names)}
        self.array = cupy.zeros(len(self.names) + 2 * MOST_GROUPS, np.int64)
        place = self.place["limit"]
        assert self.place["first"] == place + 1
        self._limits, self._given = self.array[place : place + 2], pinned(2)

    def set(self, frontier: NDArray[np.int64], **fields: int) -> None:
        """Set some fields, and the frontiers (``[MOST_GROUPS, 2]``), at once."""
        values = self.array.get()
        for name, value in fields.items():
            values[self.place[name]] = value
        values[len(self.names) :] = frontier.reshape(-1)
        self.array.set(values)

    def begin(self, *, limit: int, first: int) -> None:
        """Set the superstep to which the next kernels run, and the one that they begin with; the device is idle.

        One copy from page-locked memory takes less time than a kernel for each field. The caller waits for the current
        stream before the next one.
        """
        self._given[:] = limit, first
        self._limits.set(self._given)

    def note(self, **fields: int) -> None:
        """Set fields in the order of the current stream."""
        for name, value in fields.items():
            self.array[self.place[name]] = value

    def fields(self) -> dict[str, int]:
        """Return all fields after the work queued on the current stream."""
        return dict(zip(self.names, map(int, self.array.get()), strict=False))

    def queue_copy(self, host: NDArray[np.int64]) -> Look:
        """Queue a copy to page-locked memory on the current stream, for which the caller waits."""
        self.array.get(out=host, blocking=False)
        return Look(self.names, host, None)

    def look(self) -> Look:
        """Queue a copy to the host on the current stream."""
        import cupy

        host = pinned(len(self.array))
        self.array.get(out=host, blocking=False)
        arrived = cupy.cuda.Event(disable_timing=True)
        arrived.record()
        return Look(self.names, host, arrived)
