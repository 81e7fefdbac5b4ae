"""The memory of a GPU that a cell's process may hold, and what it held."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from harness.campaign.cell import Cell
from harness.campaign.draft import Draft


@contextmanager
def device_memory(cell: Cell, draft: Draft) -> Iterator[None]:
    """Hold the pool to the cell's limit; the most that it held is told, however the cell ends."""
    if cell.device.kind == "cpu":
        yield
        return
    from harness.device.pools import Pool

    with Pool(cell.device.index, cell.limits.device_bytes) as pool:
        try:
            yield
        finally:
            draft.tell(gpu_peak_bytes=pool.peak)
