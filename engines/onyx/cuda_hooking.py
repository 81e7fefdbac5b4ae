"""Hooking on a CUDA device (:mod:`engines.onyx.hooking`): seven launches for a run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engines.onyx.hooking import FIRST_EDGES, HookingEngine
from harness.api import Device, Graph, Inputs, Operations, Phases, Program, RunStatistics
from harness.api.cuda import CudaBuffer, DeviceStore, architecture, compiled, of_structure, open_device, require_memory

BLOCK = 256
LONG = 64  # edges; from here on the lanes of a warp hook a vertex's edges together
NAMES = ("begin_forest", "hook_first", "flatten", "find_largest", "hook_others", "collect", "spread")
RUN = 8  # launches


class HookingCudaEngine(HookingEngine):
    """Hooking with a thread for each vertex, and one for each value."""

    device: Device
    _store: DeviceStore | None = None  # once it is built
    _parent: Any = None  # once it is prepared

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
        require_memory(values.nbytes)
        self._shape = values.shape
        self._values = cupy.asarray(values.reshape(-1))
        cupy.cuda.Device().synchronize()

    def solve(self) -> None:
        """Find the trees, and the value of each."""
        import cupy

        count = np.uint32(self.graph.num_vertices)
        if count:
            edges = self._offsets, self._neighbours, self._parent
            every, values = int(count), len(self._values)
            features = np.int32(values // every)
            self._launch("begin_forest", every, self._parent, count)
            self._launch("hook_first", every, *edges, count, np.int32(FIRST_EDGES))
            self._launch("flatten", every, self._parent, count)
            self._launch("find_largest", 1, self._parent, self._largest, count)
            self._launch("hook_others", every, *edges, self._largest, count, np.int32(FIRST_EDGES))
            self._launch("flatten", every, self._parent, count)
            self._launch("collect", values, self._parent, self._values, count, features)
            self._launch("spread", values, self._parent, self._values, count, features)
        cupy.cuda.Device().synchronize()

    def _launch(self, name: str, threads: int, *arguments: Any) -> None:
        self._functions[name]((-(-threads // BLOCK),), (BLOCK,), arguments)

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
        self._parent = None
        for name in ("_functions", "_offsets", "_neighbours", "_largest", "_values", "_code"):
            self.__dict__.pop(name, None)


def _structure(graph: Graph) -> list[CudaBuffer]:
    """Return the buffers of the offsets, int64[V + 1], and of the neighbours, uint32[E], of out-edges."""
    named = {buffer.name: buffer for buffer in of_structure(graph.facts, many_edges=True)}
    return [named["out_offsets"], named["out_neighbours"]]
