"""Hooking on a CUDA device (:mod:`engines.onyx.hooking`): the launches of a run are recorded once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engines.onyx.hooking import FIRST_EDGES, HookingEngine
from harness.api import Device, Graph, Inputs, Operations, Phases, Program, RunStatistics
from harness.api.cuda import (
    CudaBuffer,
    DeviceStore,
    Replay,
    architecture,
    compiled,
    of_structure,
    open_device,
    recorded,
    require_memory,
)

BLOCK = 256
LONG = 64  # edges; from here on the lanes of a warp hook a vertex's edges together
NAMES = ("begin_forest", "hook_first", "flatten", "find_largest", "hook_others", "collect", "spread")
RUN = 8  # launches
HELD = ("_functions", "_offsets", "_neighbours", "_largest", "_values", "_stream", "_code")


@dataclass(frozen=True)
class _Launch:
    """A launch with a thread for each of some vertices or values."""

    function: Any
    threads: int
    arguments: tuple[Any, ...]

    def start(self) -> None:
        """Queue it on the current stream."""
        self.function((-(-self.threads // BLOCK),), (BLOCK,), self.arguments)


class HookingCudaEngine(HookingEngine):
    """Hooking with a thread for each vertex, and one for each value."""

    device: Device
    _store: DeviceStore | None = None  # once it is built
    _parent: Any = None  # once it is prepared
    _launches: Replay | None = None  # of a run, once the values are on the device

    def bytes_needed(self, graph: Graph, row_bytes: int) -> int:
        """Return the bytes of the graph's out-edges, of the forest, and of the values before and after a run."""
        structure = sum(buffer.nbytes for buffer in _structure(graph))
        return structure + (4 + 2 * row_bytes) * graph.num_vertices + 4

    def source(self) -> str:
        """Return the source of the kernels."""
        text = Path(__file__).with_name("hooking.cu").read_text(encoding="utf-8")
        return f"#define BLOCK {BLOCK}\n#define LEAST {int(self.flood.least)}\n#define LONG {LONG}\n{text}"

    def build(self, program: Program, graph: Graph, features: int, device: Device, phases: Phases) -> None:
        """Compile the kernels, and arrange the graph's arrays on the host."""
        self.close()
        self.pose(program, graph, features)
        self.device = device
        with phases("compile"):
            self._code = compiled(self.source(), {}, architecture(device.index))
        with phases("transform"):
            self._store = DeviceStore.of(graph, device=device.index)
            self._store.stage(_structure(graph))

    def prepare(self, program: Program, graph: Graph, features: int, device: Device, phases: Phases) -> None:
        """Load the kernels, and upload the out-edges."""
        import cupy

        built = self._store is not None and self._parent is None
        if not built or (self.program, self.graph, self.features) != (program, graph, features):
            self.build(program, graph, features, device, phases)
        store = self._store
        assert store is not None
        with phases("load"):
            open_device(device.index)
            module = cupy.cuda.function.Module()
            module.load(self._code.code)
            self._functions = {name: module.get_function(name) for name in NAMES}
        with phases("upload"):
            require_memory(store.device_bytes(_structure(graph)) + 4 * graph.num_vertices)
            store.attach()
            self._offsets, self._neighbours = (store.array(buffer) for buffer in _structure(graph))
            self._parent = cupy.zeros(graph.num_vertices, np.uint32)
            self._largest = cupy.zeros(1, np.uint32)

    def generate(self, program: Program, graph: Graph, features: int, device: Device) -> None:
        """Set the problem that :meth:`explain` describes."""
        self.pose(program, graph, features)

    def reset(self, inputs: Inputs, state: Mapping[str, NDArray[np.generic]] | None = None) -> None:
        """Upload the values before a run. Raises MemoryError."""
        import cupy

        values = self.start(inputs, state)
        self._shape = values.shape
        if self._launches is None:
            require_memory(values.nbytes)
            self._values = cupy.zeros(values.size, np.float32)
        if values.size:
            self._values.set(np.ascontiguousarray(values).reshape(-1))
        cupy.cuda.Device().synchronize()
        if self._launches is None and values.size:
            self._launches = self._recorded()

    def solve(self) -> None:
        """Find the trees, and the value of each."""
        if self._launches is not None:
            with self._stream:
                self._launches.launch()
            self._stream.synchronize()

    def _recorded(self) -> Replay:
        """Return the launches of a run."""
        import cupy

        every, values = self.graph.num_vertices, len(self._values)
        count, features, first = np.uint32(every), np.int32(values // every), np.int32(FIRST_EDGES)
        edges = self._offsets, self._neighbours, self._parent
        reduced = self._parent, self._values, count, features
        launches = (
            ("begin_forest", every, (self._parent, count)),
            ("hook_first", every, (*edges, count, first)),
            ("flatten", every, (self._parent, count)),
            ("find_largest", 1, (self._parent, self._largest, count)),
            ("hook_others", every, (*edges, self._largest, count, first)),
            ("flatten", every, (self._parent, count)),
            ("collect", values, reduced),
            ("spread", values, reduced),
        )
        self._stream = cupy.cuda.Stream(non_blocking=True)
        with self._stream:
            return recorded([_Launch(self._functions[name], threads, given) for name, threads, given in launches])

    def operations(self, statistics: RunStatistics) -> Operations:
        """Return the number of launches; successful compare-and-swaps are not counted."""
        return Operations(launches=RUN if self.graph.num_vertices else 0)

    def answer(self) -> NDArray[np.float32]:
        """Return the values, from the device."""
        return np.asarray(self._values.get(), np.float32).reshape(self._shape)

    def device_values(self, name: str) -> Any:
        """Return a copy of the state on the device, float32 ``[V, ...]``. Raises EngineFailure for another property."""
        self.require_state(name)
        return self._values.copy().reshape(self._shape)

    def explain(self) -> str:
        """Return what is computed instead of supersteps, and the source of the kernels."""
        return f"{super().explain()}\n\n{self.source()}"

    def close(self) -> None:
        """Release the arrays and the kernels."""
        store, self._store = self._store, None
        if store is not None and self._parent is not None:
            store.detach()
        self._parent = self._launches = None
        for name in HELD:
            self.__dict__.pop(name, None)


def _structure(graph: Graph) -> list[CudaBuffer]:
    """Return the buffers of the offsets, int64[V + 1], and of the neighbours, uint32[E], of out-edges."""
    named = {buffer.name: buffer for buffer in of_structure(graph.facts, many_edges=True)}
    return [named["out_offsets"], named["out_neighbours"]]
