"""What times of supersteps are held against: a replay of the gathers, and a floor from the device's own rates.

The *replay* is a kernel that gathers the same rows in the graph's own order and sums them, without balancing, weights,
destinations or stores. It is no limit: a kernel that reads neighbouring rows while they are cached can be faster.

The *floor* is a lower bound: the largest of the bytes that a superstep moves at least over the rate of a copy, its
atomic operations over the rate of atomic operations on consecutive addresses that stay in the L2 cache, and its
launches times an empty launch.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.graph import Graph
from harness.language import Program
from harness.language.program import EdgeReduce, EdgeUpdate, reads
from harness.lowering.cuda.layout import DeviceLayout
from tests.benchmarks.cuda_cells import CHUNK, ROUNDS, Cell, Timed, by_hand_ms, milliseconds
from tests.benchmarks.hand_written.kernels import RESIDENT, HandWritten

COPIED = 1 << 30  # bytes of an array that is copied to measure the memory
REPEATED = 50  # passes of atomic operations over a quarter of the cache
LAUNCHES = 200  # empty ones, in one CUDA graph
_ATOMICS = r"""
typedef long long Count;
extern "C" __global__ void add(float* target, Count count) {
    const Count step = (Count)gridDim.x * blockDim.x;
    for (Count i = (Count)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) atomicAdd(target + i, 1.0f);
}
extern "C" __global__ void add4(float4* target, Count count) {
    const Count step = (Count)gridDim.x * blockDim.x;
    for (Count i = (Count)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
#if __CUDA_ARCH__ >= 900
        asm volatile("red.global.add.v4.f32 [%0], {%1, %1, %1, %1};" :: "l"(target + i), "f"(1.0f) : "memory");
#else
        for (int part = 0; part < 4; ++part) atomicAdd(reinterpret_cast<float*>(target + i) + part, 1.0f);
#endif
    }
}
extern "C" __global__ void nothing() {}
"""


def least_bytes(program: Program, graph: Graph, features: int) -> int:
    """Bytes that a superstep has to move between memory and chip: every array that it reads or writes, once.

    For every edge stage: offsets, ids and the edge properties that it reads or updates; for every vertex the properties
    that stages read or write, but for temporary ones, which need not reach memory.
    """
    layout = DeviceLayout(features)

    def size(name: str) -> int:
        prop = program.properties[name]
        return int(np.prod(layout.dims(prop.shape), dtype=np.int64)) * (1 if prop.dtype == "bool" else 4)

    per_edge = per_vertex = 0
    seen: set[str] = set()
    for stage in program.stages:
        if isinstance(stage, (EdgeReduce, EdgeUpdate)):
            per_edge, per_vertex = max(per_edge, 4), max(per_vertex, 4)
        names = {name for _, name in reads(stage)}
        written = set(stage.writes)
        for name in (names | written) - seen:
            prop = program.properties[name]
            if prop.role in ("input", "state") and prop.place != "graph":
                moved = size(name) * (2 if name in names and name in written else 1)
                per_edge += moved if prop.place == "edge" else 0
                per_vertex += moved if prop.place == "vertex" else 0
        seen |= names | written
    return graph.num_edges * per_edge + graph.num_vertices * per_vertex


def atomic_operations(cell: Cell, graph: Graph) -> tuple[int, bool]:
    """Atomic operations of a superstep over everything, at least, and whether one may add four features at once."""
    if cell.options.get("direction", "pull") != "push":
        return 0, False
    layout = DeviceLayout(cell.features)
    single = cell.options.get("vector_width") == 1 or not cell.options.get("feature_aware", True)
    total = 0
    for stage in cell.program.stages:
        if isinstance(stage, EdgeReduce):
            values = int(np.prod(layout.dims(stage.message.shape), dtype=np.int64))
            total += graph.num_edges * (values if single else -(-values // 4))
    return total, not single


@dataclass(frozen=True)
class Rates:
    """Of a device: bytes a millisecond of a copy (read and written) in memory and in the L2 cache of ``cache`` bytes,
    atomic operations a millisecond on consecutive addresses in the L2 cache (of one float32 and of four), and the
    milliseconds of an empty launch within a CUDA graph."""

    cache: int
    bytes_per_ms: float
    cached_bytes_per_ms: float
    singles_per_ms: float
    fours_per_ms: float
    launch_ms: float

    @classmethod
    def measured(cls) -> Rates:
        """Of the current device: medians."""
        import cupy

        module = cupy.RawModule(code=_ATOMICS)
        source, target = cupy.ones(COPIED // 4, np.float32), cupy.zeros(COPIED // 4, np.float32)
        attributes = cupy.cuda.Device().attributes
        blocks, cache = RESIDENT * attributes["MultiProcessorCount"], int(attributes["L2CacheSize"])

        def median(work: Any) -> float:
            work()
            return statistics.median(milliseconds(work)[0] for _ in range(ROUNDS))

        def adding(name: str, width: int) -> float:
            kernel, count = module.get_function(name), cache // 4 // 4 // width

            def work() -> None:
                for _ in range(REPEATED):
                    kernel((blocks,), (256,), (target, np.int64(count)))

            return REPEATED * count / median(work)

        def copying(size: int) -> float:
            part, repeats = slice(0, size // 4), max(1, COPIED // size)

            def work() -> None:
                for _ in range(repeats):
                    target[part] = source[part]

            return 2 * size * repeats / median(work)

        nothing = module.get_function("nothing")
        stream = cupy.cuda.Stream(non_blocking=True)
        with stream:
            stream.begin_capture()
            for _ in range(LAUNCHES):
                nothing((1,), (32,), ())
            graph = stream.end_capture()
            graph.launch()
            launch = statistics.median(milliseconds(graph.launch, stream)[0] for _ in range(ROUNDS)) / LAUNCHES
        return cls(cache, copying(COPIED), copying(cache // 4), adding("add", 1), adding("add4", 4), launch)

    def floor_ms(self, cell: Cell, graph: Graph, timed: Timed) -> float:
        """The least milliseconds of a superstep over everything."""
        operations, fours = atomic_operations(cell, graph)
        moved = least_bytes(cell.program, graph, cell.features)
        return max(
            moved / (self.cached_bytes_per_ms if moved < self.cache else self.bytes_per_ms),
            operations / (self.fours_per_ms if fours else self.singles_per_ms),
            timed.launches * self.launch_ms,
        )


class Replay(HandWritten):
    """Gathers rows in the graph's own column order and sums them."""

    def __init__(self, graph: Graph, features: int) -> None:
        super().__init__("replay", ("replay",), graph, features)
        size = graph.num_vertices * features
        self.x = self.cupy.empty(size, np.float32)
        for first in range(0, size, CHUNK):
            self.x[first : first + CHUNK] = np.float32(0.5)
        self.blocks = RESIDENT * self.multiprocessors
        self.out = self.cupy.empty(self.blocks * 256, np.float32)

    def superstep(self) -> None:
        """One pass over all arcs."""
        self.launch("replay", self.blocks, (self.neighbours, self.x, np.uint32(self.graph.num_edges), self.out))


class Yardsticks:
    """Milliseconds of the replay and of the floor, each measured once; None where the replay does not fit."""

    def __init__(self) -> None:
        self._replays: dict[tuple[str, int], float | None] = {}
        self._rates: Rates | None = None

    def floor_ms(self, cell: Cell, graph: Graph, timed: Timed) -> float:
        """The floor of a cell."""
        self._rates = self._rates or Rates.measured()
        return self._rates.floor_ms(cell, graph, timed)

    def replay_ms(self, graph: Graph, features: int) -> float | None:
        """The replay's time; k is rounded up to a power of two."""
        import cupy

        k = 1 << (features - 1).bit_length()
        key = (graph.name, k)
        if key not in self._replays:
            try:
                replay = Replay(graph, k)
                by_hand_ms(replay, 2)
                self._replays[key] = statistics.median(by_hand_ms(replay, 3) for _ in range(ROUNDS))
                del replay
            except cupy.cuda.memory.OutOfMemoryError:
                self._replays[key] = None
            cupy.get_default_memory_pool().free_all_blocks()
        return self._replays[key]
