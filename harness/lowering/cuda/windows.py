"""Windows of streamed edges on a CUDA device, planned from facts: their size, their bytes, what they cannot hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from harness.edge_places import Placement
from harness.facts import GraphFacts
from harness.language.program import EdgeReduce, EdgeUpdate, Program, reads
from harness.lowering.cuda.buffers import CudaBuffer
from harness.lowering.cuda.kernels import CudaKernel
from harness.lowering.cuda.launches import Launch
from harness.lowering.cuda.packed_windows import ALIGNED, SOURCE, UNPACK_IDS, of_ids
from harness.lowering.cuda.ranges import Over
from harness.lowering.packed_sizes import most_bytes, most_window_bytes

ALIGNED_EDGES = 64  # a window is copied from a multiple of these on, so that rows keep their alignment
ALIGNED_BYTES = 256
OFFSETS = {Over.VERTICES: "in", Over.SOURCES: "out", Over.OUT_EDGES: "out"}
SLACK = 512  # bytes after the last row, which a lane without a feature may read
READS_REVERSE = "edges=streamed: the program reads reverse edges, which are in other windows; give edges=mapped"
WANTED = """extern "C" __global__ void {name}(Run* run, {flags}const Id* ends, Id count, bool* wanted)
{{
    if ({never}) return;
    for (Id w = blockIdx.x; w < count; w += gridDim.x) {{
        if ({every}) {{
            if (threadIdx.x == 0) wanted[w] = true;
            continue;
        }}
{test}    }}
}}
"""
TEST = """        for (Id v = ends[w] + threadIdx.x; v < ends[w + 1]; v += BLOCK)
            if ({flags}[v]) wanted[w] = true;
"""


def name_of_test(kernel: CudaKernel) -> str:
    """Return the name of the kernel that decides which windows another one needs."""
    return f"wanted_{kernel.name}"


@dataclass(frozen=True)
class Windows:
    """Windows of at most ``edges`` edges, in slots of ``slot_bytes`` bytes; all 0 unless edges are streamed.

    ``row_bytes``: of an edge, by the names of the arrays. ``slots``: windows in the memory of the device. ``packed``:
    the names of the arrays that are copied packed; their ``packed_bytes`` on the host and the ``room_bytes`` of the
    buffer of each slot are the most that they may take.
    """

    edges: int = 0
    slot_bytes: int = 0
    row_bytes: tuple[tuple[str, int], ...] = ()
    slots: int = 6
    packed: tuple[str, ...] = ()
    packed_bytes: int = 0
    room_bytes: int = 0

    def over(
        self, placement: Placement, facts: GraphFacts, kernels: Iterable[CudaKernel], buffers: Iterable[CudaBuffer]
    ) -> Self:
        """Return the windows for some kernels: as many edges as fit for the kernel with the most bytes an edge."""
        window_bytes, buffers = placement.window_bytes, list(buffers)
        rows = {one.name: one.stride * np.dtype(one.dtype).itemsize for one in buffers if one.of_edges}
        taken = [[rows[name] for name in kernel.arguments if name in rows] for kernel in kernels]
        largest = max((sum(some) for some in taken), default=0)
        if not window_bytes or not largest:
            return type(self)()
        edges = max(1, window_bytes // largest)
        stored = min(edges, facts.num_edges) + ALIGNED_EDGES
        slot = max(sum(aligned(stored * row + SLACK) for row in some) for some in taken)
        made = replace(self, edges=edges, slot_bytes=slot, row_bytes=tuple(sorted(rows.items())))
        if not placement.packed:
            return made
        return made.with_packed(facts, [one for one in kernels if made.takes(one)], buffers)

    def with_packed(self, facts: GraphFacts, kernels: Iterable[CudaKernel], buffers: Iterable[CudaBuffer]) -> Self:
        """Return the windows with the arrays of ids packed, and the most bytes of these."""
        names = sorted(one.name for one in buffers if of_ids(one))
        window = most_window_bytes(min(self.edges, facts.num_edges), facts.num_vertices) + 2 * ALIGNED
        most = max(len(set(names).intersection(kernel.arguments)) for kernel in kernels)
        packed = len(names) * most_bytes(facts.num_edges, facts.num_vertices)
        return replace(self, packed=tuple(names), packed_bytes=packed, room_bytes=most * window)

    @property
    def nbytes(self) -> int:
        """Bytes of the slots, and of their packed ids, in the memory of the device."""
        return self.slots * (self.slot_bytes + self.room_bytes)

    @property
    def host_bytes(self) -> int:
        """Bytes of page-locked memory of the host besides the edges."""
        return 0

    @property
    def functions(self) -> tuple[str, ...]:
        """The kernels that windows need besides those that decide which of them are needed."""
        return (UNPACK_IDS,) if self.packed else ()

    @property
    def source(self) -> str:
        """The source of :attr:`functions`."""
        return SOURCE if self.packed else ""

    def tests(self, kernels: Iterable[CudaKernel]) -> Iterator[str]:
        """Yield the sources of the kernels that decide which windows each of ``kernels`` needs."""
        for kernel in kernels:
            if self.decides(kernel):
                yield self.test(kernel)

    def test(self, kernel: CudaKernel) -> str:
        """Return the source of the kernel that decides which windows another one needs."""
        visits = kernel.visits
        return WANTED.format(
            name=name_of_test(kernel),
            flags=f"const bool* {visits.flags}, " if visits.flags else "",
            never=kernel.reads_no_edges.text,
            every=visits.every.text if visits.flags else "true",
            test=TEST.format(flags=visits.flags) if visits.flags else "",
        )

    def takes(self, kernel: CudaKernel) -> bool:
        """Return whether a kernel reads streamed arrays."""
        return not dict(self.row_bytes).keys().isdisjoint(kernel.arguments)

    def decides(self, kernel: CudaKernel) -> bool:
        """Return whether a kernel decides which windows it needs; kernels of listed vertices follow the next one."""
        return self.takes(kernel) and not kernel.visits.listed

    def refusal(self, program: Program, facts: GraphFacts, launches: Sequence[Launch]) -> str:
        """Return why the edges of a plan cannot be streamed; empty if they can."""
        refused = unstreamable(program)
        if refused:
            return refused
        for launch in launches:
            if not self.takes(launch.kernel):
                continue
            if {"reverse", "places"} & set(launch.kernel.arguments):
                return READS_REVERSE
            if launch.over not in OFFSETS and not launch.kernel.visits.listed:
                return (
                    f"edges=streamed: the kernel {launch.kernel.name} of this schedule does not work on consecutive "
                    "vertices; give edges=mapped, or a schedule in which owners of vertices have whole rows"
                )
        sides = {OFFSETS[launch.over] for launch in launches if self.takes(launch.kernel) and launch.over in OFFSETS}
        degrees = {"in": facts.in_degrees, "out": facts.out_degrees}
        largest = max((degrees[side].largest for side in sides), default=0)
        if largest > self.edges:
            wanted = -(-window_of(self, largest) // 10**6)
            reason = f"edges=streamed: a window has {self.edges:,} edges, and a vertex has {largest:,}"
            return f"{reason}; give window_mb={wanted}"
        return ""


def unstreamable(program: Program) -> str:
    """Return why the edges of a program cannot be streamed under any schedule; empty if they can."""
    for stage in program.stages:
        if isinstance(stage, EdgeUpdate):
            return f"edges=streamed: {stage.name} updates an edge property, and only edges that do not change stream"
        if isinstance(stage, EdgeReduce) and any(space == "reverse" for space, _ in reads(stage)):
            return READS_REVERSE
    return ""


def window_of(found: Windows, edges: int) -> int:
    """Return the bytes of a window of some edges, of all arrays."""
    return edges * sum(row for _, row in found.row_bytes)


def aligned(nbytes: int) -> int:
    """Return a number of bytes, rounded up to the alignment of arrays on a device."""
    return -(-nbytes // ALIGNED_BYTES) * ALIGNED_BYTES
