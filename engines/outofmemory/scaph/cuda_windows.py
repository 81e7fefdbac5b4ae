"""Windows of Scaph on CUDA: kernels that count their active rows, and buffers for packed rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.api.cuda import Windows, name_of_test

if TYPE_CHECKING:
    from harness.api.cuda import CudaKernel, CudaPlan

# Count the active vertices of each window, their edges, and the sectors of host memory that hold these edges.
# `own`: the blocks of a window.
COUNTED = """extern "C" __global__ void {name}(Run* run, {flags}const EdgeId* rows, const Id* ends, Id n, Id own, Count* found)
{{
    if ({never}) return;
    for (Id w = blockIdx.x / own; w < n; w += gridDim.x / own) {{
        Count active = 0, edges = 0, sectors = 0;
        for (Id v = ends[w] + blockIdx.x % own * BLOCK + threadIdx.x; v < ends[w + 1]; v += own * BLOCK) {{
            if (!({wanted})) continue;
            const EdgeId start = rows[v], stop = rows[v + 1];
            ++active;
            edges += Count(stop - start);
            if (start == stop) continue;
{sectors}        }}
        add_counts(found + 3 * w, active);
        add_counts(found + 3 * w + 1, edges);
        add_counts(found + 3 * w + 2, sectors);
    }}
}}
"""  # noqa: E501  the emulator reads a signature from one line
SECTORS = "            sectors += Count(stop * {row}ull - 1) / 32 - Count(start * {row}ull) / 32 + 1;\n"


@dataclass(frozen=True)
class SubgraphWindows(Windows):
    """Windows that are subgraphs.

    ``stagings``: buffers for packed rows, as many in page-locked memory of the host as on the device, each of
    ``staging_bytes``. ``offset_bytes``: of the offsets of packed rows, on the device.
    ``extra_host_bytes``: of other page-locked memory.
    """

    stagings: int = 0
    staging_bytes: int = 0
    offset_bytes: int = 0
    extra_host_bytes: int = 0

    @property
    def nbytes(self) -> int:
        """Bytes of the slots and of packed rows in the memory of the device."""
        return super().nbytes + self.stagings * self.staging_bytes + self.offset_bytes

    @property
    def host_bytes(self) -> int:
        """Bytes of page-locked memory of the host besides the edges."""
        return self.stagings * self.staging_bytes + self.extra_host_bytes

    def test(self, kernel: CudaKernel) -> str:
        """Return the source of the kernel that counts what another one needs of each window."""
        flags, every = kernel.visits.flags, kernel.visits.every
        rows = [row for name, row in self.row_bytes if name in kernel.arguments]
        return COUNTED.format(
            name=name_of_test(kernel),
            flags=f"const bool* {flags}, " if flags else "",
            never=kernel.reads_no_edges.text,
            wanted=(f"{flags}[v] || {every.text}" if every else f"{flags}[v]") if flags else "true",
            sectors="".join(SECTORS.format(row=row) for row in rows),
        )


def windows_of(plan: CudaPlan) -> SubgraphWindows:
    """Return the windows of a plan of Scaph."""
    assert isinstance(plan.windows, SubgraphWindows), plan.windows
    return plan.windows
