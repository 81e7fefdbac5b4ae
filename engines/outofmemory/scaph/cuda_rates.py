"""Measure the rates at which subgraphs are read by each means, on the device and the host of a run."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from engines.outofmemory.scaph.extraction import groups_of
from engines.outofmemory.scaph.values import Rates
from harness.api.cuda import on_host

if TYPE_CHECKING:
    from collections.abc import Callable

    from engines.outofmemory.scaph.cuda_subgraphs import SubgraphStreamer

SAMPLES = 5  # the fastest counts: other work only lowers a rate
MOST_BYTES = 32 << 20  # of a sample
EVERY = 8  # one vertex in EVERY is packed
ADJACENT = "ReadInPlace"  # threads read adjacent elements, as the rows of adjacent vertices
IN_PLACE = """
extern "C" __global__ void ReadInPlace(const unsigned* from, size_t count, unsigned* sum)
{
    unsigned mine = 0;
    const size_t first = size_t(blockIdx.x) * BLOCK + threadIdx.x;
    for (size_t i = first; i < count; i += size_t(gridDim.x) * BLOCK) mine += from[i];
    if (mine == 0xA5A5A5A5u) *sum = mine;
}
"""


def measured_rates(streamer: SubgraphStreamer, means: str) -> Rates:
    """Return the rates of copies of whole subgraphs and of another means, in bytes per second.

    ``means``: *copied*, *extracted* or *zero_copy*. A sample reads up to 32 MB of the neighbours of the graph, which
    takes some milliseconds.
    """
    import cupy

    neighbours, slot = streamer.arrays["out_neighbours"], streamer.slots[0]
    size = min(neighbours.nbytes, slot.nbytes, MOST_BYTES) // 4 * 4
    runtime = cupy.cuda.runtime

    def part(sample: int) -> int:
        """Return the address of a sample; samples differ, so that no cache holds them."""
        most = neighbours.nbytes - size
        return int(neighbours.data.ptr) + (sample * size % most // 4 * 4 if most else 0)

    def copy(sample: int) -> int:
        source, to = part(sample), int(slot.data.ptr)
        runtime.memcpyAsync(to, source, size, runtime.memcpyHostToDevice, streamer.stream.ptr)
        streamer.stream.synchronize()
        return size

    def read(sample: int) -> int:
        blocks = max(1, min(size // 4 // streamer.plan.threads, 8 * streamer.multiprocessors))
        arguments = (np.uint64(part(sample)), np.uint64(size // 4), np.uint64(slot.data.ptr))
        streamer.functions[ADJACENT]((blocks,), (streamer.plan.threads,), arguments)
        cupy.cuda.get_current_stream().synchronize()
        return size

    def pack(_: int) -> int:
        assert streamer.packer is not None
        offsets = streamer.store.graph.csr.offsets
        vertices = min(int(np.searchsorted(offsets, size // 4, side="right")) - 1, len(offsets) - 1)
        flags = np.arange(vertices) % EVERY == 0
        table, room = np.zeros((groups_of(vertices), 2), np.uint32), streamer.stagings[0].host.host
        edges = streamer.packer.mark(flags, offsets, 0, table)
        packed = room[: 4 * edges].view(np.uint32)
        streamer.packer.copy(table, offsets, 0, edges, 1, on_host(neighbours), packed)
        return 4 * edges

    copied = rate_of(copy)
    if means == "copied" or not copied:
        return Rates(copied, copied)
    other = rate_of(pack if means == "extracted" else read)
    return Rates(copied, min(other, copied) or copied)


def rate_of(work: Callable[[int], int]) -> float:
    """Return the highest rate of some work in bytes per second; 0 if there is none.

    ``work`` takes the number of a sample and returns the bytes that it read.
    """
    best = 0.0
    for sample in range(SAMPLES):
        begin = time.perf_counter()
        done = work(sample)
        best = max(best, done / (time.perf_counter() - begin))
    return best
