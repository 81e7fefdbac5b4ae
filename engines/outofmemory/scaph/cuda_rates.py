"""Measure the rates at which subgraphs are read by each means, on the device and the host of a run."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

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
    takes some milliseconds; a copy, no more than a subgraph. Copies and reads in place are timed on the device, because
    runs queue them ahead. Rows are packed by the host while it waits for nothing else.
    """
    import cupy

    neighbours, slot = streamer.arrays["out_neighbours"], streamer.slots[0]
    most = min(neighbours.nbytes, MOST_BYTES) // 4 * 4
    whole, runtime, current = min(most, slot.nbytes // 4 * 4), cupy.cuda.runtime, cupy.cuda.get_current_stream()

    def part(sample: int, size: int) -> int:
        """Return the address of a sample; samples differ, so that no cache holds them."""
        rest = neighbours.nbytes - size
        return int(neighbours.data.ptr) + (sample * size % rest // 4 * 4 if rest else 0)

    def copy(sample: int) -> tuple[int, float]:
        source, to, stream = part(sample, whole), int(slot.data.ptr), streamer.stream

        def queue() -> None:
            runtime.memcpyAsync(to, source, whole, runtime.memcpyHostToDevice, stream.ptr)

        return whole, seconds_on(stream, queue)

    def read(sample: int) -> tuple[int, float]:
        return most, seconds_on(current, lambda: read_in_place(streamer, part(sample, most), most // 4))

    def pack(_: int) -> tuple[int, float]:
        assert streamer.packing is not None
        begin, offsets = time.perf_counter(), streamer.store.graph.csr.offsets
        vertices = min(int(np.searchsorted(offsets, whole // 4, side="right")) - 1, len(offsets) - 1)
        flags = np.arange(vertices) % EVERY == 0
        table, room = np.zeros((groups_of(vertices), 2), np.uint32), streamer.packing.stagings[0].host.host
        edges = streamer.packing.packer.mark(flags, offsets, 0, table)
        packed = room[: 4 * edges].view(np.uint32)
        streamer.packing.packer.copy(table, offsets, 0, edges, 1, on_host(neighbours), packed)
        return 4 * edges, time.perf_counter() - begin

    copied = rate_of(copy)
    if means == "copied" or not copied:
        return Rates(copied, copied)
    other = rate_of(pack if means == "extracted" else read)
    queued = 0.0 if means == "extracted" else seconds_to_queue(streamer)
    return Rates(copied, min(other, copied) or copied, queued)


def read_in_place(streamer: SubgraphStreamer, source: int, words: int) -> None:
    """Queue a kernel that reads some words of host memory in place."""
    blocks = max(1, min(words // streamer.plan.threads, 8 * streamer.multiprocessors))
    arguments = (np.uint64(source), np.uint64(words), np.uint64(streamer.slots[0].data.ptr))
    streamer.functions[ADJACENT]((blocks,), (streamer.plan.threads,), arguments)


def seconds_to_queue(streamer: SubgraphStreamer) -> float:
    """Return the seconds in which the host queues the copy of a subgraph, and a kernel after it; the fewest count."""
    import cupy

    best = math.inf
    for _ in range(SAMPLES):
        cupy.cuda.Device().synchronize()
        begin = time.perf_counter()
        with streamer.streams.forked():
            streamer.fill(0, ["out_neighbours"], 0, 1)
            with streamer.streams.of(0):
                streamer.wait_for(0)
                read_in_place(streamer, int(streamer.arrays["out_neighbours"].data.ptr), 1)
                streamer.free(0)
        best = min(best, time.perf_counter() - begin)
        streamer.join([0])
    return best


def seconds_on(stream: Any, queue: Callable[[], object]) -> float:
    """Return the seconds that queued work takes on a stream of the device."""
    import cupy

    begin, end = cupy.cuda.Event(), cupy.cuda.Event()
    begin.record(stream)
    queue()
    end.record(stream)
    end.synchronize()
    return float(cupy.cuda.get_elapsed_time(begin, end)) / 1000


def rate_of(work: Callable[[int], tuple[int, float]]) -> float:
    """Return the highest rate of some work in bytes per second; 0 if there is none.

    ``work`` takes the number of a sample and returns the bytes that it read, and its seconds.
    """
    best = 0.0
    for sample in range(SAMPLES):
        done, seconds = work(sample)
        best = max(best, done / seconds)
    return best
