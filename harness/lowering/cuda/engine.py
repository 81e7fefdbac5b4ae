"""What engines on a CUDA device share: legality, generated modules, the run loop. Traversals are each engine's own."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from harness.contract import Device, Direction, Engine, No, Phases, RunStatistics, Superstep, Yes
from harness.device.compilation import compiled
from harness.device.cuda import allow_shared_memory, open_device
from harness.language import Inputs, Program
from harness.language.analysis import FoldGroup, watched
from harness.lowering.accumulators import separated
from harness.lowering.cuda.kernels import CudaKernel, has_matrices, longest_row
from harness.lowering.cuda.layout import DeviceLayout, TeamShape
from harness.lowering.cuda.memory import DeviceMemory, arrays_of, values_of
from harness.lowering.cuda.modules import headers, module_source
from harness.lowering.log_products import products_as_sums
from harness.lowering.refusals import unsupported
from harness.lowering.tracking import Tracking

if TYPE_CHECKING:
    from harness.graph import Graph

MOST_BLOCKS = 64  # for each multiprocessor; beyond, blocks take several pieces of work
LOOK_EVERY = 8  # supersteps queued between two looks at whether the run has settled
MOST_SHARED = 220 * 1024  # bytes of shared memory a block may have on sm_80 and later, less what kernels name
MOST_LOCAL = 4096  # floats of a thread's own that hold matrices, with features in a loop
RUN_FIELDS = ("superstep", "limit", "settled", "active", "moved", "edges", "rebuilding", "confirming", "dense")


@dataclass(frozen=True)
class Launch:
    """A kernel of a superstep: what it goes over, the threads that each takes, and the arrays that swap with their
    second buffer after it.

    ``over``: the *vertices* that a superstep updates, the *sources* that those hear or the *arcs* that leave these,
    *all* vertices, *all arcs*, the *teams* of ``blocks`` blocks of a launch before, or pieces of work of the engine's
    own (:meth:`CudaEngine.transform`). ``blocks``: so many,
    whatever the work; 0: as the work asks for.
    """

    kernel: CudaKernel
    over: str
    lanes: int
    swaps: tuple[str, ...] = ()
    blocks: int = 0


class CudaEngine(Engine):
    """A schedule on a CUDA device: a list of launches, the kernels of a superstep.

    A subclass defines :meth:`plan`, which adds launches, and says where its ``.cuh`` files are.
    """

    feature_aware = True
    change_driven = False
    direction: Direction = "pull"
    width: int | None = None  # features a lane loads at once; None: 4, or 1 where it holds columns of matrices
    block = 256
    templates: Path

    program: Program
    graph: Graph
    layout: DeviceLayout
    team: TeamShape
    tracking: Tracking

    # contract ---------------------------------------------------------------------------------------------------------
    def supports(self, program: Program, graph: Graph, features: int, device: Device) -> Yes | No:
        """Whether the program can run under this schedule on this graph."""
        lowered = separated(products_as_sums(program))
        reason = self.refusal(lowered, graph, features)
        if reason:
            return No(reason)
        self.lower(program, graph, features)
        floats = max((kernel.tile_floats for kernel in self.kernels), default=0)
        if self.team.lanes == 1 and floats > MOST_LOCAL:
            return No(f"matrices of {floats} floats do not fit a thread; with feature_aware a team shares them")
        if self.team.lanes > 1 and self.shared_bytes(floats, 32) > MOST_SHARED:
            return No(f"matrices of {floats} floats for each team do not fit the shared memory of a block")
        return Yes(self.bytes_needed())

    def refusal(self, program: Program, graph: Graph, features: int) -> str:
        """Why not; empty when it can."""
        if graph.num_vertices >= 1 << 31:
            return "vertex ids take 32 bits on a device, and the graph has more vertices"
        return unsupported(program, graph, features, change_driven=self.change_driven)

    def bytes_needed(self) -> int:
        """Device memory of a run: what kernels take of the graph, the properties, and the engine's own arrays."""
        graph, layout = self.graph, self.layout
        needed = {name for kernel in self.kernels for name in kernel.arguments}
        arc = 8 if self.many_arcs else 4
        of_graph = {"offsets": arc * graph.num_vertices, "neighbours": 4 * graph.num_edges, "rows": 4 * graph.num_edges}
        size = sum(of_graph.get(name.partition("_")[2], 0) for name in needed if name.startswith(("in_", "out_")))
        size += 4 * graph.num_edges if "reverse" in needed else 0
        for _, prop in arrays_of(self.program, needed):
            size += values_of(prop, graph, layout) * (1 if prop.dtype == "bool" else 4)
        return size + 4 * sum(self.rooms.values())

    def lower(self, program: Program, graph: Graph, features: int) -> str:
        """Plan and generate, without a device; the module's source."""
        watches = watched(program)
        self.program, self.graph = separated(products_as_sums(program)), graph
        self.layout = DeviceLayout(features)
        width = self.width if self.width else 1 if has_matrices(self.program) else 4
        self.team = TeamShape.of(longest_row(self.program, self.layout), self.feature_aware, width)
        self.launches: list[Launch] = []
        self.rooms: dict[str, int] = {}
        self.pieces: dict[str, list[tuple[int, int]]] = {}
        self.tracking = Tracking(self.program, self.groups(), self.change_driven, watches)
        self.sides = self._sides()
        self.many_arcs = graph.num_edges >= 1 << 31
        self.plan()
        floats = max((kernel.tile_floats for kernel in self.kernels), default=0)
        block = self.block
        while self.team.lanes > 1 and block > 32 and self.shared_bytes(floats, block) > MOST_SHARED // 2:
            block //= 2
        self.threads = block
        self.source = module_source(
            f"{self.program.name}, k = {features}", self.kernels, self.team, block,
            many_arcs=self.many_arcs, included=headers(self.templates),
        )  # fmt: skip
        return self.source

    def generate(self, program: Program, graph: Graph, features: int, device: Device) -> None:
        """The source; there need not be a device."""
        self.lower(program, graph, features)

    @property
    def kernels(self) -> tuple[CudaKernel, ...]:
        """The kernels of the plan, each once."""
        return tuple({launch.kernel.name: launch.kernel for launch in self.launches}.values())

    def shared_bytes(self, floats: int, block: int) -> int:
        """Shared memory of a block whose teams need ``floats`` each."""
        return 0 if self.team.lanes == 1 else 4 * floats * (block // 32) * self.team.teams

    def prepare(self, program: Program, graph: Graph, features: int, device: Device, phases: Phases) -> None:
        """Lower, compile, upload. Raises DeviceUnavailable, CompilationFailed, EngineFailure."""
        with phases("lower"):
            self.lower(program, graph, features)
        with phases("transform"):
            self.tables = self.transform()
        with phases("compile"):
            chosen = open_device(device.index)
            architecture = f"sm_{chosen.compute_capability}"
            self.compiled = compiled(self.source, headers(self.templates), architecture)
            self._load(chosen)
        with phases("upload"):
            self._allocate()

    def _load(self, device: Any) -> None:
        import cupy

        module = cupy.cuda.function.Module()
        module.load(self.compiled.code)
        self.multiprocessors = device.attributes["MultiProcessorCount"]
        self.functions = {
            name: module.get_function(name) for name in ("end_of_superstep", *(k.name for k in self.kernels))
        }
        for kernel in self.kernels:
            needed = self.shared_bytes(kernel.tile_floats, self.threads)
            if needed > 48 * 1024:
                allow_shared_memory(self.functions[kernel.name], needed)

    def _allocate(self) -> None:
        import cupy

        arc = np.int64 if self.many_arcs else np.uint32
        self.memory = DeviceMemory(self.program, self.graph, self.layout, arc)
        names = {name for kernel in self.kernels for name in kernel.arguments}
        self.memory.need(names)
        for name, values in self.rooms.items():
            self.memory.empty(name, values)
        for name, table in self.tables.items():
            self.memory.arrays[name] = cupy.asarray(table)
        self.state = cupy.zeros(len(RUN_FIELDS), np.int64)
        self.stream = cupy.cuda.Stream(non_blocking=True)

    def reset(self, inputs: Inputs, state: Mapping[str, NDArray[np.generic]] | None = None) -> None:
        """Everything to its start."""
        import cupy

        self.memory.reset(inputs, state or {})
        start = dict.fromkeys(RUN_FIELDS, 0) | {"active": self.graph.num_vertices}
        self.state.set(np.array(list(start.values()), np.int64))
        self.done, self.settled = 0, False
        cupy.cuda.Device().synchronize()

    def run(self, max_supersteps: int) -> RunStatistics:
        """Run until settled or for ``max_supersteps`` more supersteps.

        Supersteps are queued ahead; whether the run has settled is decided on the device, and looked up without waiting
        for the latest ones.
        """
        import cupy

        statistics = RunStatistics(settled=self.settled)
        if self.settled or max_supersteps < 1:
            return statistics
        first, wanted = self.done, self.done + max_supersteps
        with self.stream:
            past = cupy.zeros((max_supersteps, 2), np.int64)
            self.state[1] = wanted
            looks: list[tuple[Any, Any]] = []
            for superstep in range(first, wanted):
                self._queue(superstep, past, first)
                if (superstep - first) % LOOK_EVERY == LOOK_EVERY - 1:
                    looks.append(self._look())
                    if len(looks) > 1 and self._settled_at(looks.pop(0)):
                        break
            self.stream.synchronize()
            found = dict(zip(RUN_FIELDS, self.state.get(), strict=True))
        self.done, self.settled = int(found["superstep"]), bool(found["settled"])
        taken = past[: self.done - first].get()
        statistics.supersteps = [Superstep(int(active), int(edges), self.direction) for active, edges in taken]
        statistics.settled = self.settled
        return statistics

    def _look(self) -> tuple[Any, Any]:
        import cupy

        pinned = cupy.cuda.alloc_pinned_memory(self.state.nbytes)
        host = np.frombuffer(pinned, np.int64, len(RUN_FIELDS))
        self.state.get(out=host, blocking=False)
        event = cupy.cuda.Event(disable_timing=True)
        event.record()
        return host, event

    @staticmethod
    def _settled_at(look: tuple[Any, Any]) -> bool:
        host, event = look
        event.synchronize()
        return bool(host[2])

    def _queue(self, superstep: int, past: Any, first: int) -> None:
        """The launches of one superstep, whose place among its own is known without asking the device."""
        swapped = {name for launch in self.launches for name in launch.swaps} if superstep % 2 else set()
        side = superstep % len(self.sides)
        for launch in self.launches:
            self._start(launch, swapped, side)
            swapped = swapped ^ set(launch.swaps)
        edges = [np.int64(self._edges(i)) for i in range(len(self.sides))]
        control = self.program.control
        self.functions["end_of_superstep"](
            (1,), (1,),
            (self.state, past, np.int64(first), edges[0], edges[-1], np.int64(len(self.sides)),
             np.int64(control.settles)),
        )  # fmt: skip

    def _start(self, launch: Launch, swapped: set[str], side: int) -> None:
        first, last = self._range(launch.over, side)
        arguments = [self._argument(name, swapped, first, last) for name in launch.kernel.arguments]
        count = max(1, last - first)
        blocks = min(-(-count * launch.lanes // self.threads), MOST_BLOCKS * self.multiprocessors)
        shared = self.shared_bytes(launch.kernel.tile_floats, self.threads)
        self.functions[launch.kernel.name]((launch.blocks or blocks,), (self.threads,), arguments, shared_mem=shared)

    def _argument(self, name: str, swapped: set[str], first: int, last: int) -> Any:
        if name == "run":
            return self.state
        if name in ("first", "last"):
            value = first if name == "first" else last
            return np.int64(value) if self.many_arcs and self._arcs_now else np.uint32(value)
        plain = name.removeprefix("next_")
        if plain in swapped:
            name = plain if name.startswith("next_") else f"next_{name}"
        return self.memory.arrays[name]

    _arcs_now = False

    def _range(self, over: str, side: int) -> tuple[int, int]:
        bounds = self.sides[side]
        self._arcs_now = over == "arcs"
        match over:
            case "vertices":
                return bounds
            case "sources":
                return self.sides[(side + 1) % len(self.sides)]
            case "arcs":
                offsets = self.graph.csr.offsets
                first, last = self.sides[(side + 1) % len(self.sides)]
                return int(offsets[first]), int(offsets[last])
            case "all arcs":
                self._arcs_now = True
                return 0, self.graph.num_edges
            case "all":
                return 0, self.graph.num_vertices
        if over in self.pieces:
            return self.pieces[over][side]
        return 0, int(over.removeprefix("teams ")) * self.threads // 32 * self.team.teams

    def _edges(self, side: int) -> int:
        first, last = self.sides[side]
        offsets = self.graph.csc.offsets
        inwards = int(offsets[last] - offsets[first])
        reductions = sum(len(group.edge_stages) for group in self.tracking.groups)
        updates = sum(len(group.stages) for group in self.tracking.groups if group.kind == "update")
        return inwards * reductions + updates * self.graph.num_edges

    def _sides(self) -> list[tuple[int, int]]:
        count = self.graph.num_vertices
        if not self.program.control.alternate or self.graph.bipartite is None:
            return [(0, count)]
        left = self.graph.bipartite[0]
        return [(0, left), (left, count)]

    def values(self, name: str) -> NDArray[np.generic]:
        """A property, unpadded."""
        swaps = {array for launch in self.launches for array in launch.swaps} if self.done % 2 else set()
        return self.memory.values(name, {array: f"next_{array}" for array in swaps})

    def explain(self) -> str:
        """The schedule, the mapping, the kernels and the generated source."""
        lines = [f"schedule {self.schedule!r}, teams of {self.team.lanes} lanes, {self.team.width} features at once"]
        for group in self.tracking.groups:
            lines.append(f"kernel {self.tracking.name(group)}: {', '.join(stage.name for stage in group.stages)}")
        return "\n".join(lines) + f"\n\n{self.source}"

    def close(self) -> None:
        """Release the device's memory."""
        if hasattr(self, "memory"):
            self.memory.arrays.clear()
            self.memory.cupy.get_default_memory_pool().free_all_blocks()

    # for subclasses ---------------------------------------------------------------------------------------------------
    @abstractmethod
    def groups(self) -> tuple[FoldGroup, ...]:
        """The stages in kernels."""

    def transform(self) -> dict[str, NDArray[Any]]:
        """Arrays that the engine makes of the graph once, beside those that kernels know, by name.

        It also sets ``self.pieces``: under the names that launches go over, first and last + 1 for every side.
        """
        return {}

    @abstractmethod
    def plan(self) -> None:
        """Add launches to ``self.launches``, and the floats of arrays of the engine's own to ``self.rooms``."""
