"""Near-far on a CUDA device (:mod:`harness.lowering.near_far`): one launch for a run, or one for each of its steps."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from harness.contract import Operations, RunStatistics
from harness.device.compilation import compiled
from harness.device.cuda import architecture, open_device, require_memory
from harness.facts import Degrees, GraphFacts
from harness.lowering.cuda.buffers import CudaBuffer, of_structure
from harness.lowering.cuda.device_store import DeviceStore
from harness.lowering.cuda.near_far_launches import (
    BEST,
    EDGES,
    SUPERSTEPS,
    THRESHOLDS,
    WORDS,
    LaunchOfEachStep,
    OneLaunch,
    OneLaunchWithShortLists,
    Work,
)
from harness.lowering.cuda.residency import residency_of
from harness.lowering.near_far import Counts, NearFarEngine, inputs_of, message_text, near_far_refusal

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from harness.contract import Device, Phases
    from harness.graph import Graph
    from harness.language import Program
    from harness.language.priority_order import PriorityOrder

ARRAYS = (
    "const Position* offsets, const Item* neighbours, float* values, Item* near_0, Item* near_1, Item* far_0, "
    "Item* far_1, Item* pieces, Item* noted, Item* waits, State* state, Arrivals* lock, const float* parameters, "
    "Item items"
)
# Threads. SSSP on a grid of 2 M vertices, delta 16 times the mean length, ms with 128, 256 and 512, groups of 4 lanes:
# k = 1 24.4, 21.7, 20.4, k = 8 33.6, 29.5, 27.4. Groups of 1, 2, 4 and 8 lanes, 512 threads: k = 1 27.5, 24.7, 20.4,
# 20.2, k = 8 43.4, 36.2, 27.4, 27.1 (H200, 26 November 2026).
BLOCK = 512
LONG = 1024  # edges; items of more are cut into pieces of as many, which blocks share
SHARED_LANES = 2  # edges of a short list's item that a lane sends, in a mean row
MOST_ITEMS = 1 << 31  # items have numbers of 32 bits
LOCK = 64  # words of the barrier
ITEM_BYTES = 28  # value, two near lists, two far lists, two marks
HELD = (
    "_functions",
    "_arguments",
    "_offsets",
    "_neighbours",
    "_lists",
    "_state",
    "_lock",
    "_edges",
    "_parameters",
    "_code",
)
REMEDY = "leave order unset"
OPERATORS = {
    "add": "({} + {})", "sub": "({} - {})", "mul": "({} * {})", "min": "fminf({}, {})", "max": "fmaxf({}, {})",
    "const": "float({})",
}  # fmt: skip
MESSAGE = """class Message {{
    const float* const parameters;{fields}

public:
    __device__ Message(const float* parameters{given}) : parameters(parameters){set} {{}}
    __device__ float operator()(float value, long long e) const {{ return {message}; }}
}};
"""


class NearFarCudaEngine(NearFarEngine):
    """Near-far with lane groups that share the edges of a value; ``launching``: how steps are launched."""

    # SSSP on a grid of 2 M vertices with 30 % of the edges removed, ms with 4, 16, 64, 128, 256 and 1024 times the
    # mean: k = 1 27.8, 20.2, 17.9, 17.4, 17.2, 17.2, k = 8 38.1, 27.6, 24.1, 23.5, 24.3, 31.2. R-MAT 19, 16 and 64
    # times: k = 1 0.98 and 0.97, k = 8 6.69 and 6.72 (H200, 26 November 2026).
    default_widths: ClassVar[float] = 64.0
    device: Device
    _launches = 0
    _steps: OneLaunch | LaunchOfEachStep | None = None  # once the inputs are on the device
    _store: DeviceStore | None = None  # once it is built
    _values: Any = None  # once it is prepared

    def __init__(self, schedule: Any, launching: type[OneLaunch | LaunchOfEachStep] = OneLaunch) -> None:
        super().__init__(schedule)
        self.launching = launching

    def most_items(self) -> float:
        """Return the most values of all vertices: they have numbers of 32 bits."""
        return MOST_ITEMS

    def bytes_needed(self, graph: Graph, lanes: int, inputs: int, device: Device) -> int:
        """Return the bytes of the graph's out-edges and their inputs, and of values, lists and marks."""
        structure = sum(buffer.nbytes for buffer in _structure(graph))
        of_edges = 4 * graph.num_edges * inputs
        return structure + of_edges + ITEM_BYTES * graph.num_vertices * lanes + 8 * lanes * pieces_of(graph.facts)

    def source(self) -> str:
        """Return the source of the kernel."""
        order, named = self.order, inputs_of(self.order)
        lanes = max(1, lanes_of_group(self.graph.facts) // SHARED_LANES)
        arrays = [f"{named[name]}s" for name in order.inputs]
        defined = {
            "BLOCK": BLOCK,
            "LANES_OF_GROUP": lanes_of_group(self.graph.facts),
            "LONG": LONG,
            "SHORT": 2 * BLOCK // lanes if self.launching.short_lists else 0,
            "LANES_OF_SHORT": lanes,
            "LANES": max(1, self.lanes),
            "LEAST": int(order.sign > 0),
            "WORST": f"__int_as_float({'0x7f800000' if order.sign > 0 else '0xff800000'})",
            "GIVEN": "".join(f", {name}" for name in arrays),
        }
        lines = [f"#define {name} {value}" for name, value in defined.items()]
        lines += ["#ifndef INFINITY", "#define INFINITY __int_as_float(0x7f800000)", "#endif"]
        texts = [Path(__file__).with_name(name).read_text(encoding="utf-8") for name in self.launching.files]
        parameters = ARRAYS + "".join(f", const float* {name}" for name in arrays)
        return "\n".join([*lines, message_class(order, arrays), *texts]).replace("(ARRAYS)", f"({parameters})")

    def build(self, program: Program, graph: Graph, features: int, device: Device, phases: Phases) -> None:
        """Compile the kernel, and arrange the graph's arrays on the host."""
        self.close()
        self.pose(program, graph, features)
        self.device = device
        with phases("compile"):
            self._code = compiled(self.source(), {}, architecture(device.index))
        with phases("transform"):
            self._store = DeviceStore.of(graph, device=device.index)
            self._store.stage(_structure(graph))

    def prepare(self, program: Program, graph: Graph, features: int, device: Device, phases: Phases) -> None:
        """Load the kernel, upload the out-edges, and allocate the lists. Raises MemoryError, EngineFailure."""
        import cupy

        built = self._store is not None and self._values is None
        if not built or (self.program, self.graph, self.features) != (program, graph, features):
            self.build(program, graph, features, device, phases)
        store = self._store
        assert store is not None
        with phases("load"):
            attributes = open_device(device.index).attributes
            module = cupy.cuda.function.Module()
            module.load(self._code.code)
            kernels = self.launching.kernels
            self._functions = {name: module.get_function(name) for name in kernels}
            most = kernels[0] if len(kernels) == 1 else "send_list"
            self._blocks = residency_of(self._functions[most], attributes, BLOCK).take(most, None, REMEDY)
        with phases("upload"):
            items = max(1, graph.num_vertices * self.lanes)
            pieces = max(1, 2 * self.lanes * pieces_of(graph.facts))
            require_memory(store.device_bytes(_structure(graph)) + ITEM_BYTES * items + 4 * pieces)
            store.attach()
            self._offsets, self._neighbours = (store.array(buffer) for buffer in _structure(graph))
            self._values = cupy.zeros(items, np.float32)
            self._lists = [cupy.zeros(size, np.uint32) for size in (*[items] * 4, pieces, items, items)]
            self._state = cupy.zeros(WORDS, np.uint32)
            self._lock = cupy.zeros(LOCK, np.uint64)
            self._parameters = cupy.zeros(1 + len(self.order.parameters), np.float32)
            self._steps = None
            self._edges: dict[str, tuple[Any, Any]] = {}

    def start(
        self, values: NDArray[np.float32], edges: tuple[NDArray[np.float32], ...], parameters: tuple[np.float32, ...]
    ) -> None:
        """Upload the values, and the inputs that are not those of the last reset. Raises MemoryError."""
        import cupy

        if values.size:
            self._values.set(np.ascontiguousarray(values).reshape(-1))
        for name, array in zip(self.order.inputs, edges, strict=True):
            if name not in self._edges or self._edges[name][0] is not array:
                self._steps = None
                self._edges.pop(name, None)
                require_memory(array.nbytes)
                self._edges[name] = array, cupy.asarray(array)
        state = np.zeros(WORDS, np.uint32)
        state[BEST] = np.float32(np.inf * self.order.sign).view(np.uint32)
        self._state.set(state)
        self._parameters.set(np.array([self.delta, *parameters], np.float32))
        cupy.cuda.Device().synchronize()
        if self._steps is None:
            self._steps = self.launching(self._work())

    def _work(self) -> Work:
        inputs = [self._edges[name][1] for name in self.order.inputs]
        arguments = (
            self._offsets, self._neighbours, self._values, *self._lists, self._state, self._lock, self._parameters,
            np.uint32(self.graph.num_vertices * self.lanes), *inputs,
        )  # fmt: skip
        hubs = pieces_of(self.graph.facts) > 0
        return Work(self._functions, arguments, self._blocks, BLOCK, self._state, self._parameters, hubs)

    def solve(self) -> Counts:
        """Find the values."""
        assert self._steps is not None, "reset() comes first"
        self._launches = self._steps.run()
        state = self._steps.state()
        edges = int(state[EDGES : EDGES + 2].view(np.uint64)[0])
        return Counts(int(state[SUPERSTEPS]), int(state[THRESHOLDS]), edges)

    def operations(self, statistics: RunStatistics) -> Operations:
        """Return the number of launches; successful atomic minima are not counted."""
        return Operations(launches=self._launches)

    def answer(self) -> NDArray[np.float32]:
        """Return the values, from the device."""
        found = np.asarray(self._values.get(), np.float32)
        return found[: self.graph.num_vertices * self.lanes].reshape(self.graph.num_vertices, self.lanes)

    def device_values(self, name: str) -> Any:
        """Return a copy of the state on the device, float32 ``[V, ...]``. Raises EngineFailure for another property."""
        self.require_state(name)
        return self._values[: self.graph.num_vertices * self.lanes].copy().reshape(self._shape)

    def explain(self) -> str:
        """Return the order, and the source of the kernel."""
        return f"{super().explain()}\n\n{self.source()}"

    def close(self) -> None:
        """Release the arrays and the kernel."""
        store, self._store = self._store, None
        if store is not None and self._values is not None:
            store.detach()
        self._values = self._steps = None
        for name in HELD:
            self.__dict__.pop(name, None)


def near_far_by_steps(schedule: Any) -> NearFarCudaEngine:
    """Return an engine whose steps are launched one by one."""
    return NearFarCudaEngine(schedule, LaunchOfEachStep)


def near_far_with_short_lists(schedule: Any) -> NearFarCudaEngine:
    """Return an engine in which one block sends short lists."""
    return NearFarCudaEngine(schedule, OneLaunchWithShortLists)


def not_near_far(program: Program, num_vertices: int, features: int) -> str:
    """Return why a program's values cannot be found in order of priority on a CUDA device; empty if they can, if its
    inputs allow it."""
    return near_far_refusal(program, num_vertices, features, MOST_ITEMS)


def message_class(order: PriorityOrder, arrays: list[str]) -> str:
    """Return the class of the message of edge e."""
    named = inputs_of(order)
    values = {name: f"{named[name]}s[e]" for name in order.inputs}
    values |= {name: f"parameters[{1 + at}]" for at, name in enumerate(order.parameters)}
    return MESSAGE.format(
        fields="".join(f"\n    const float* const {name};" for name in arrays),
        given="".join(f", const float* {name}" for name in arrays), set="".join(f", {name}({name})" for name in arrays),
        message=message_text(order, OPERATORS, values),
    )  # fmt: skip


def lanes_of_group(graph: GraphFacts) -> int:
    """Return the lanes that share the edges of an item: the least power of two that is no less than the mean degree,
    up to 32."""
    lanes = 1
    while lanes < 32 and lanes < graph.average_degree:
        lanes *= 2
    return lanes


def pieces_of(graph: GraphFacts) -> int:
    """Return the most pieces of a superstep, for each feature."""
    return Degrees(tuple(one for one in graph.out_degrees.counts if one[0] > LONG)).slices(LONG)


def _structure(graph: Graph) -> list[CudaBuffer]:
    """Return the buffers of the offsets, int64[V + 1], and of the neighbours, uint32[E], of out-edges."""
    named = {buffer.name: buffer for buffer in of_structure(graph.facts, many_edges=True)}
    return [named["out_offsets"], named["out_neighbours"]]
