"""Managed edges of which a GPU keeps a share: the comparison on a graph that exceeds its memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.api.cuda import CudaRun, DeviceStore


@dataclass(frozen=True)
class KeepingPages:
    """The loop of a run whose managed pages beyond a share of the edges are moved to the host after every superstep.

    It favours managed memory over a GPU with less memory: all pages that a superstep reads stay until its end, and the
    first pages stay for all supersteps, where a driver that evicts the oldest ones would keep none of them in repeated
    sweeps.
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
