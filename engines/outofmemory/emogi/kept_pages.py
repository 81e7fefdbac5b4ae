"""Managed edges of which a GPU keeps only a share, as for a graph that exceeds its memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.api.cuda import CudaRun, DeviceStore


@dataclass(frozen=True)
class KeepingPages:
    """Run supersteps, and move the managed pages beyond a share of the edges to the host after each.

    ``store``: the graph on the device. ``share``: of the edges, 0 to 1; the pages of the first edges stay.

    This is more favourable than a GPU with less memory: all pages that a superstep reads stay until its end, and the
    pages of the first edges stay in all supersteps. A driver that evicts the oldest pages would keep none of them in
    repeated sweeps.
    """

    store: DeviceStore
    share: float

    def __call__(self, run: CudaRun, first: int, wanted: int) -> None:
        """Run supersteps ``first`` to ``wanted - 1``, one after the other, until the run has settled."""
        for superstep in range(first, wanted):
            run.superstep(superstep)
            run.stream.synchronize()
            if run.state.fields()["settled"]:
                return
            self.store.edges.keep(self.share)
