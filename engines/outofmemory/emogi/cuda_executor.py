"""EMOGI style on CUDA devices: the requests of a run, read from the counters of its kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engines.outofmemory.emogi.cuda_plan import REQUESTS
from harness.api.cuda import CudaExecutor, Transfers

if TYPE_CHECKING:
    from harness.api import RunStatistics

SECTOR, ELEMENT = 32, 4  # bytes


class EmogiExecutor(CudaExecutor):
    """Run a plan of EMOGI."""

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
