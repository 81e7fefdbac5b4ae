"""EMOGI style on CUDA devices: the requests of a run, read from the counters of its kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engines.outofmemory.emogi.cuda_plan import REQUESTS
from engines.outofmemory.emogi.kept_pages import KeepingPages
from harness.api.cuda import CudaExecutor, Transfers, queue_ahead

if TYPE_CHECKING:
    from harness.api import RunStatistics
    from harness.api.cuda import CudaPlan, DeviceStore

SECTOR, ELEMENT = 32, 4  # bytes


class EmogiExecutor(CudaExecutor):
    """Run a plan of EMOGI."""

    def __init__(self, plan: CudaPlan, store: DeviceStore) -> None:
        share = plan.schedule.kept_share
        super().__init__(plan, store, queue_ahead if share is None else KeepingPages(store, share))

    def run(self, max_supersteps: int) -> RunStatistics:
        """Run until settled or for ``max_supersteps`` more supersteps; with the requests of the run, if counted."""
        counted = REQUESTS in self.plan.named
        if counted:
            self.arrays[REQUESTS].fill(0)
            self.wait()
        statistics = super().run(max_supersteps)
        if counted:
            *numbers, elements = map(int, self.arrays[REQUESTS].get()[: self.plan.named[REQUESTS].length])
            requests = {(sectors + 1) * SECTOR: number for sectors, number in enumerate(numbers)}
            moved = sum(size * number for size, number in requests.items())
            statistics.transfers = Transfers(ELEMENT * elements, {"zero_copy": moved}, requests)
        return statistics
