"""EMOGI style on CUDA devices: the requests of a run, read from the counters of its kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engines.outofmemory.emogi.cuda_plan import CACHED, COUNTED, REQUESTS
from engines.outofmemory.emogi.kept_pages import KeepingPages
from harness.api.cuda import CudaExecutor, Prefixed, Transfers, queue_ahead

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from harness.api import RunStatistics
    from harness.api.cuda import CudaPlan, DeviceStore, Replayer

SECTOR, ELEMENT = 32, 4  # bytes


class EmogiExecutor(CudaExecutor):
    """Run a plan of EMOGI.

    Cached edges count as visited, but not as requests. Without counters, a record has only the bytes of visited edges.
    """

    def replayer(self, arrays: Mapping[str, Any]) -> Replayer:
        """Return the object that prepares the calls of a superstep; it counts requests for cached edges separately."""
        found = super().replayer(arrays)
        if isinstance(found, Prefixed) and REQUESTS in self.plan.named:
            found.counts = {REQUESTS: CACHED}
        return found

    def __init__(self, plan: CudaPlan, store: DeviceStore) -> None:
        share = plan.schedule.kept_share
        super().__init__(plan, store, queue_ahead if share is None else KeepingPages(store, share))

    def run(self, max_supersteps: int) -> RunStatistics:
        """Run until settled or for ``max_supersteps`` more supersteps.

        The statistics have the requests of the run if the schedule counts them.
        """
        counts = [name for name in (REQUESTS, CACHED) if name in self.plan.named]
        for name in counts:
            self.arrays[name].fill(0)
        if counts:
            self.wait()
        statistics = super().run(max_supersteps)
        if counts:
            found = [[int(one) for one in self.arrays[name].get()[:COUNTED]] for name in counts]
            numbers, elements = found[0][:-1], sum(one[-1] for one in found)
            requests = {(sectors + 1) * SECTOR: number for sectors, number in enumerate(numbers)}
            moved = sum(size * number for size, number in requests.items())
            statistics.transfers = Transfers(ELEMENT * elements, {"zero_copy": moved}, requests)
        elif self.plan.schedule.edges != "resident":
            statistics.transfers = Transfers(self.plan.edge_bytes * statistics.edges, {})
        return statistics
