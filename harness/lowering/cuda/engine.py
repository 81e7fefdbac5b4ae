"""What engines on a CUDA device share: legality, generated modules, the run loop. Traversals are each engine's own."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from harness.contract import Device, Direction, No, Phases, RunStatistics, Superstep, Yes
from harness.device.cuda import allow_shared_memory, open_device, require_memory
from harness.language import Inputs, Program
from harness.language.analysis import Delta, FoldGroup, factors, watched
from harness.language.program import IDENTITY
from harness.lowering.accumulators import separated
from harness.lowering.cuda.kernels import CudaKernel, has_matrices, longest_row
from harness.lowering.cuda.launches import Launch, Launcher, turned
from harness.lowering.cuda.layout import DeviceLayout, TeamShape
from harness.lowering.cuda.memory import DeviceMemory, arrays_of, values_of
from harness.lowering.cuda.memory_model import ModelledEngine
from harness.lowering.cuda.modules import MOST_GROUPS, compiled_module, headers, module_source
from harness.lowering.cuda.tracked_arrays import tracked_arrays
from harness.lowering.log_products import products_as_sums
from harness.lowering.refusals import unsupported
from harness.lowering.tracking import Tracking

if TYPE_CHECKING:
    from harness.graph import Graph

LOOK_EVERY = 8  # supersteps queued between two looks at whether the run has settled
MOST_SHARED = 220 * 1024  # bytes of shared memory a block may have on sm_80 and later, less what kernels name
USUAL_SHARED = 48 * 1024  # bytes that a block may have without being asked for
MOST_LOCAL = 4096  # floats of a thread's own that hold matrices, with features in a loop
RUN_FIELDS = (
    "superstep", "limit", "first", "settled", "active", "moved", "edges", "dense", "rebuilding", "confirming",
    "sides", "settles", "rebuild", "dense_arcs", "dense_rows", "rebuild_arcs", "always", "always_odd",
)  # fmt: skip
FIELD = {name: place for place, name in enumerate(RUN_FIELDS)}


class CudaEngine(ModelledEngine):
    """A schedule on a CUDA device: a list of launches, the kernels of a superstep.

    A subclass defines :meth:`plan`, which adds launches, and says where its ``.cuh`` files are.
    """

    feature_aware = True
    change_driven = False
    dense_share = 0.0  # of the arcs, from which a frontier goes over everything
    rebuild_share = 0.0  # of the arcs, from which building kept accumulators anew is no more work; 0: it always is
    rows_share = 0.5  # of the arcs, from which an edge update goes over all of them
    tracks_edges = False  # changes of edge properties
    keeps_extrema = False  # all accumulators that live on are extrema
    rebuild_every = 0  # supersteps between building kept accumulators anew; 0: none are kept, or never
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
        tracked = len(self.tracking.propagating()) if self.change_driven else 0
        if tracked > MOST_GROUPS:
            return No(f"changes are tracked for {MOST_GROUPS} edge stages at most, and the program has {tracked}")
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
        return unsupported(program, graph, features, change_driven=self.change_driven, tracks_edges=self.tracks_edges)

    def bytes_needed(self) -> int:
        """Device memory of a run: what kernels take of the graph, the properties, and the engine's own arrays."""
        graph, layout = self.graph, self.layout
        needed = self.array_names()
        arc = 8 if self.many_arcs else 4
        of_graph = {"offsets": arc * graph.num_vertices, "neighbours": 4 * graph.num_edges, "rows": 4 * graph.num_edges}
        size = sum(of_graph.get(name.partition("_")[2], 0) for name in needed if name.startswith(("in_", "out_")))
        size += 4 * graph.num_edges * len(needed & {"reverse", "places"})
        for _, prop in arrays_of(self.program, needed):
            size += values_of(prop, graph, layout) * (1 if prop.dtype == "bool" else 4)
        return size + sum(count * np.dtype(dtype).itemsize for count, dtype in self.own_arrays().values())

    def lower(self, program: Program, graph: Graph, features: int) -> str:
        """Plan and generate, without a device; the module's source."""
        watches, multiplied = watched(program), factors(program)
        self.program, self.graph = self.rewritten(separated(products_as_sums(program))), graph
        self.layout = DeviceLayout(features)
        width = self.width if self.width else 1 if has_matrices(self.program) else 4
        self.team = TeamShape.of(longest_row(self.program, self.layout), self.feature_aware, width)
        self.launches: list[Launch] = []
        self.rooms: dict[str, int] = {}
        self.pieces: dict[str, list[tuple[int, int]]] = {}
        self.flipped: dict[str, str] = {}
        self.blanks: dict[str, float] = {}
        self.rebuild_every = 0
        self.tracking = Tracking(self.program, self.groups(), self.change_driven, watches, multiplied)
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

    def shared_of(self, kernel: CudaKernel) -> int:
        """Shared memory that a launch of a kernel asks for."""
        return self.shared_bytes(kernel.tile_floats, self.threads) + 4 * kernel.thread_floats * self.threads

    def prepare(self, program: Program, graph: Graph, features: int, device: Device, phases: Phases) -> None:
        """Lower, compile, upload. Raises DeviceUnavailable, CompilationFailed, MemoryError."""
        with phases("lower"):
            self.lower(program, graph, features)
        with phases("transform"):
            self.tables = self.transform()
        with phases("compile"):
            chosen = open_device(device.index)
            architecture = f"sm_{chosen.compute_capability}"
            self.compiled = compiled_module(self.source, headers(self.templates), architecture, self.program)
            self._load(chosen)
        with phases("upload"):
            require_memory(self.bytes_needed())
            self._allocate()

    def _load(self, device: Any) -> None:
        import cupy

        module = cupy.cuda.function.Module()
        module.load(self.compiled.code)
        self.multiprocessors = int(device.attributes["MultiProcessorCount"])
        self.functions = {
            name: module.get_function(name) for name in ("end_of_superstep", *(k.name for k in self.kernels))
        }
        for kernel in self.kernels:
            needed = self.shared_of(kernel)
            if needed > USUAL_SHARED:
                allow_shared_memory(self.functions[kernel.name], needed)

    def _allocate(self) -> None:
        import cupy

        self.memory = DeviceMemory(self.program, self.graph, self.layout, self.arc)
        self.memory.need(self.array_names())
        for name, (values, dtype) in self.own_arrays().items():
            self.memory.empty(name, values, dtype)
        for name, table in self.tables.items():
            self.memory.arrays[name] = cupy.asarray(table)
        self.state = cupy.zeros(len(RUN_FIELDS) + 2 * MOST_GROUPS, np.int64)
        self.launcher = Launcher(self)
        self.stream = cupy.cuda.Stream(non_blocking=True)

    @property
    def twins(self) -> dict[str, str]:
        """The arrays behind the two buffers that kernels name."""
        pairs = [((f"{array}_a", array), (f"{array}_b", f"next_{array}")) for array in self.flipped]
        return dict(pair for both in pairs for pair in both)

    def array_names(self) -> set[str]:
        """The arrays that kernels take."""
        return {self.twins.get(name, name) for kernel in self.kernels for name in kernel.arguments}

    def own_arrays(self) -> dict[str, tuple[int, type[np.generic]]]:
        """The arrays beside the graph and the properties, with their lengths and dtypes: rooms, and what change
        tracking keeps."""
        found: dict[str, tuple[int, type[np.generic]]] = {name: (size, np.float32) for name, size in self.rooms.items()}
        return found | tracked_arrays(self.tracking, self.graph, self.layout, self.array_names())

    def reset(self, inputs: Inputs, state: Mapping[str, NDArray[np.generic]] | None = None) -> None:
        """Everything to its start: all vertices are dirty and active."""
        import cupy

        self.memory.reset(inputs, state or {})
        for name, array in self.memory.arrays.items():
            match name.partition("_")[0]:
                case "dirty" | "active" | "changed":
                    array[:] = True
                case "fresh" | "flips" | "rows" | "moved" | "far":
                    array[:] = 0
        for name, blank in self.blanks.items():
            self.memory.arrays[name].fill(blank)
        start = dict.fromkeys(RUN_FIELDS, 0)
        edges = self.graph.num_edges
        start |= {"active": self.graph.num_vertices, "sides": len(self.sides), "rebuild": self.rebuild_every}
        start |= {"settles": int(self.program.control.settles), "rebuilding": 1}
        start["dense_arcs"] = int(self.dense_share * edges)
        start["dense_rows"] = int(max(self.dense_share, self.rows_share) * edges)
        start["rebuild_arcs"] = int(self.rebuild_share * edges / len(self.sides)) if self.rebuild_every else 0
        if not self.change_driven:
            start |= {"always": self._edges(0), "always_odd": self._edges(-1)}
        # at first all sources are active: of either side, where sides alternate
        frontier = np.zeros((MOST_GROUPS, 2), np.int64)
        frontier[:, : len(self.sides)] = edges + 1
        self.state.set(np.concatenate([np.array(list(start.values()), np.int64), frontier.reshape(-1)]))
        self.done, self.settled = 0, False
        cupy.cuda.Device().synchronize()

    def begin_with(self, stale: NDArray[np.bool_], senders: NDArray[np.bool_]) -> None:
        """What engines that can :meth:`narrow` do: only ``stale`` vertices are dirty, only ``senders`` active, all has
        been propagated and nothing reduced yet."""
        arrays = self.memory.arrays
        for name in arrays:
            if name.startswith("dirty_"):
                arrays[name][: len(stale)].set(stale)
            elif name.startswith("active_"):
                arrays[name][: len(senders)].set(senders)
        frontier = np.zeros((MOST_GROUPS, 2), np.int64)
        for number, group in enumerate(self.tracking.propagating()):
            for source in self.tracking.sent(group):
                sent = arrays[f"sent_{self.tracking.name(group)}_{source}"]
                sent[:] = arrays[f"vertex_{source}"][: len(sent)]
            for stage in group.edge_stages:
                if f"vertex_{stage.into}" in arrays:
                    arrays[f"vertex_{stage.into}"].fill(IDENTITY[stage.reducer])
            frontier[number, : len(self.sides)] = int(np.diff(self.graph.csr.offsets)[senders].sum())
        fields = self.state.get()
        fields[FIELD["active"]], fields[FIELD["rebuilding"]] = np.count_nonzero(stale | senders), 0
        fields[len(RUN_FIELDS) :] = frontier.reshape(-1)
        self.state.set(fields)

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
            past = cupy.zeros((max_supersteps, 3), np.int64)
            self.note(limit=wanted, first=first)
            self.queue(first, wanted, past)
            self.stream.synchronize()
            found = self.noted()
        self.done, self.settled = found["superstep"], bool(found["settled"])
        taken = past[: self.done - first].get()
        statistics.supersteps = [self.superstep_of(*map(int, one)) for one in taken]
        statistics.settled = self.settled
        return statistics

    def queue(self, first: int, wanted: int, past: Any) -> None:
        """Queue supersteps ``first`` to ``wanted - 1``, which are recorded in ``past``; once the run has settled the
        rest may be left out."""
        looks: list[tuple[Any, Any]] = []
        for superstep in range(first, wanted):
            self.launcher.superstep(superstep, past)
            if (superstep - first) % LOOK_EVERY == LOOK_EVERY - 1:
                looks.append(self._look())
                if len(looks) > 1 and self._settled_at(looks.pop(0)):
                    return

    def superstep_of(self, active: int, edges: int, dense: int) -> Superstep:
        """What is told of a superstep, from its record."""
        return Superstep(active, edges, "dense" if dense else self.direction)

    def note(self, **fields: int) -> None:
        """Set fields of the run's state on the device."""
        for name, value in fields.items():
            self.state[FIELD[name]] = value

    def noted(self) -> dict[str, int]:
        """The fields of the run's state."""
        return dict(zip(RUN_FIELDS, map(int, self.state.get()), strict=False))

    def _look(self) -> tuple[Any, Any]:
        import cupy

        pinned = cupy.cuda.alloc_pinned_memory(self.state.nbytes)
        host = np.frombuffer(pinned, np.int64, len(self.state))
        self.state.get(out=host, blocking=False)
        event = cupy.cuda.Event(disable_timing=True)
        event.record()
        return host, event

    @staticmethod
    def _settled_at(look: tuple[Any, Any]) -> bool:
        host, event = look
        event.synchronize()
        return bool(host[FIELD["settled"]])

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
        swaps = turned(self.launches) if self.done % 2 else set()
        swaps |= {array for array, flips in self.flipped.items() if int(self.memory.arrays[flips][0]) % 2}
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
            self.launcher.made.clear()  # launches hold arrays, and the launcher's engine holds the launcher
            self.memory.arrays.clear()
            self.memory.cupy.get_default_memory_pool().free_all_blocks()

    # for subclasses ---------------------------------------------------------------------------------------------------
    def rewritten(self, program: Program) -> Program:
        """The lowered program as the engine runs it: by default as it is."""
        return program

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
        """Add launches (:meth:`add`), to ``self.rooms`` the floats of arrays of the engine's own, and to
        ``self.blanks`` the arrays that a run begins with full of one number."""

    def add(self, kernel: CudaKernel, over: str, lanes: float | None = None, swaps: tuple[str, ...] = ()) -> None:
        """Add a launch, by default of a team for each vertex."""
        self.launches.append(Launch(kernel, over, self.team.lanes if lanes is None else lanes, swaps))

    def double(self, array: str, rows: int, name: str) -> None:
        """Give an array of a property a second buffer, ``next_<array>``."""
        self.rooms[f"next_{array}"] = rows * self.layout.stride(self.program.properties[name].shape)

    def keep_accumulators(self, forms: Sequence[Delta], rebuild: int) -> None:
        """Say what is pushed into accumulators that live on. Extrema do not drift and are never built anew."""
        self.keeps_extrema = all(form.kind == "monotone" for form in forms)
        self.rebuild_every = 0 if self.keeps_extrema else rebuild

    @property
    def arc(self) -> type[np.generic]:
        """The dtype of a position among the arcs."""
        return np.int64 if self.many_arcs else np.uint32
