"""The limit and the peak of a cell's GPU memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from harness.campaign.cell import Cell
from harness.campaign.child_report import ChildReport


@contextmanager
def device_memory(cell: Cell, report: ChildReport) -> Iterator[None]:
    """Apply the cell's limit to the memory pool; record the peak, however the cell ends."""
    if cell.device.kind == "cpu":
        yield
        return
    from harness.device.pools import Pool

    with Pool(cell.device.index, cell.limits.device_bytes) as pool:
        try:
            yield
        finally:
            report.tell(gpu_peak_bytes=pool.peak)
