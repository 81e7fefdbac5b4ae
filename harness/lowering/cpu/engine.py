"""The part that CPU engines share: legality, compilation, arrays, the run loop. Each engine defines its traversals."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Literal

import numba
import numpy as np
from numpy.typing import NDArray

from harness.contract import (
    Device,
    Direction,
    Engine,
    EngineFailure,
    No,
    Phases,
    RunStatistics,
    Superstep,
    Yes,
    options_of,
    schedule_text,
)
from harness.language import Inputs, Program
from harness.language.analysis import FoldGroup, change_driven, factors, watched
from harness.language.criterion import Criterion, propagated_share
from harness.language.program import IDENTITY, EdgeReduce, GraphReduce, Stage, reads
from harness.language.reference import segment_reduce
from harness.lowering.accumulators import separated
from harness.lowering.cpu.active_sources import ActiveSources
from harness.lowering.cpu.edge_updates import EdgeUpdates
from harness.lowering.cpu.flags import blocks_of
from harness.lowering.cpu.kernels import Kernel, KernelBuilder
from harness.lowering.cpu.memory import Memory
from harness.lowering.cpu.module_source import compiled, module_source
from harness.lowering.cpu.movement import Movement
from harness.lowering.cpu.partition import PARTS_PER_THREAD, balanced_bounds
from harness.lowering.cpu.vertex_kernels import graph_kernel, vertex_kernel
from harness.lowering.kept_accumulators import KeptAccumulators
from harness.lowering.layout import Layout, aligned_zeros
from harness.lowering.log_products import products_as_sums
from harness.lowering.refusals import unsupported
from harness.lowering.tracking import Tracking

if TYPE_CHECKING:
    from harness.graph import Graph

Step = Callable[[], None]
# Of the edges. Whole messages are then no more work than changes, whose sums round as much: ranks on email-Enron were
# off by 2.3e-5 in supersteps in which 0.98 of the edges were active.
REBUILD_SHARE = 0.9
# Active sources plus their edges, at most: a second thread starts in 3 us; the first processes some 100 in that time.
FEW = 4096


class CpuEngine(Engine):
    """A schedule on the CPU: a list of steps, one for each kernel of a superstep.

    A subclass defines :meth:`plan`, which adds kernels (:meth:`add_kernel`) and steps. A step adds the number of edges
    that it visits to ``self.edges``, and the number of sources that it finds moved (or active) to ``self.moved``.
    """

    deterministic = True  # parts and their order depend only on the number of threads; there are no atomic operations
    feature_aware = True
    change_driven = False
    direction: Direction = "pull"
    accumulators = KeptAccumulators()
    rebuild_every = 0  # supersteps between rebuilds of kept accumulators; 0: none are kept, or they are never rebuilt

    resolved: Any  # the schedule with every option filled in
    program: Program
    graph: Graph
    layout: Layout
    memory: Memory
    tracking: Tracking
    active_sources: ActiveSources
    movement: Movement | None
    threads: int

    # contract ---------------------------------------------------------------------------------------------------
    def supports(self, program: Program, graph: Graph, features: int, device: Device) -> Yes | No:
        """Return whether the program can run under this schedule on this graph."""
        program = separated(products_as_sums(program))
        reason = self.refusal(program, graph, features, device)
        return No(reason) if reason else Yes(self.bytes_needed(program, graph, features, device))

    def refusal(self, program: Program, graph: Graph, features: int, device: Device) -> str:
        """Return why the program cannot run; empty if it can."""
        if device.kind != "cpu":
            return f"this engine has no {device.kind} code yet"
        return unsupported(program, graph.facts, features, change_driven=self.change_driven, tracks_edges=True)

    def bytes_needed(self, program: Program, graph: Graph, features: int, device: Device) -> int:
        """Estimate the bytes of the arrays beside the graph: every property once, a changing one four times (current,
        next, sent, and before the measured superstep).
        """
        layout = Layout(features)
        size = {"vertex": graph.num_vertices, "edge": graph.num_edges, "graph": 1}
        copies = {"state": 4, "temporary": 1, "input": 1, "builtin": 1}
        sums = [stage for stage in program.stages if isinstance(stage, EdgeReduce) and stage.reducer == "sum"]
        pushed = sums if self.direction == "push" and self.change_driven else []
        changes = sum(4 * graph.num_vertices * layout.stride(stage.message.shape) for stage in pushed)
        return changes + sum(
            4 * size[p.place] * layout.stride(p.shape) * copies[p.role] for p in program.properties.values()
        )

    def prepare(self, program: Program, graph: Graph, features: int, device: Device, phases: Phases) -> None:
        """Plan, lower and compile the program, and allocate its arrays."""
        watches, multiplied = watched(program), factors(program)
        criterion, share = Criterion.of(program), propagated_share(program)
        program = separated(products_as_sums(program))
        self.program, self.graph, self.layout = program, graph, Layout(features)
        self.threads = min(device.threads, int(numba.config.NUMBA_NUM_THREADS))  # type: ignore[attr-defined]
        numba.set_num_threads(self.threads)
        self._kernels: dict[str, Kernel] = {}
        self._functions: dict[str, Any] = {}
        self._arguments: dict[str, Callable[[Mapping[str, Any]], tuple[Any, ...]]] = {}
        self.steps: list[Step] = []
        self.most_parts = 0
        self.workers = self.threads
        self.dearest = 2 + int(graph.out_degrees.max(initial=0))
        with phases("transform"):
            self.resolved = self.resolve()
            self.memory = Memory(program, graph, self.layout)
            self.sides = self._side_bounds()
            self.active_sources = ActiveSources(self)
        with phases("lower"):
            self.tracking = Tracking(
                program, self.groups(), self.change_driven, watches, multiplied, self.keeps_sent(program),
                propagated_share=share,
            )  # fmt: skip
            self.plan()
            self.source = module_source(
                f"{type(self).__name__}, k = {features}", [kernel.source for kernel in self.kernels]
            )
        with phases("compile"):
            self._functions = {kernel.name: compiled(kernel) for kernel in self.kernels}
            self._arguments = {name: itemgetter(*kernel.arguments) for name, kernel in self._kernels.items()}
            self.movement = self._measurement(criterion)
        with phases("upload"):
            self.memory.need(name for kernel in self.kernels for name in kernel.arguments)
            floats = max((kernel.scratch_floats for kernel in self.kernels), default=0)
            self.memory.add("scratch", aligned_zeros(max(1, self.threads * floats), np.float32))
            parts = max(self.most_parts, *(len(bounds) for bounds in self.sides))
            self.memory.add("counts", np.zeros(2 * max(parts, self.threads), np.int64))
            self.memory.add("watched", np.zeros(max(parts, self.threads * PARTS_PER_THREAD), np.int64))

    def _measurement(self, criterion: Criterion | None) -> Movement | None:
        if criterion is None or not self.measures(criterion):
            return None
        return Movement(criterion, self.program, self.layout, self.memory, self.graph.num_vertices, self.threads)

    def reset(self, inputs: Inputs, state: Mapping[str, NDArray[np.generic]] | None = None) -> None:
        """Set the whole state to the start of a run."""
        self.memory.reset(inputs, state or {})
        self.rebuild_every = self.accumulators.rebuild_every(state or {})
        self.superstep_index = 0
        self.active, self.settled = self.graph.num_vertices, False
        self.confirming = self.rebuilt = self.narrowed = False
        self.active_sources.reset()
        for name, array in self.memory.arrays.items():
            if name.startswith(("dirty_", "marked_")):
                array[:] = True
            elif name.startswith("active_"):
                array[:] = False
        for group in self.tracking.groups:
            if self.change_driven and self.tracking.moved_before(group):
                self.active_sources.all_propagated(group)

    def begin_with(self, stale: NDArray[np.bool_], senders: NDArray[np.bool_]) -> None:
        """Begin a run, for engines that can :meth:`narrow`: only ``stale`` vertices are dirty, only ``senders`` are
        active, and nothing has been reduced yet.
        """
        self.narrowed, self.active = True, int(np.count_nonzero(stale | senders))
        arrays = self.memory.arrays
        for name in arrays:
            if name.startswith(("dirty_", "marked_")) and blocks_of(name) in arrays:
                self.memory.set_flags(name, stale)
            elif name.startswith("kept_"):
                arrays[name][:] = False
        for group in self.tracking.groups:
            if group.edge_stages:
                self.active_sources.begin_with(group, senders)
            for stage in group.edge_stages:
                arrays[f"vertex_{stage.into}"][:] = IDENTITY[stage.reducer]

    def run(self, max_supersteps: int) -> RunStatistics:
        """Run until settled or for ``max_supersteps`` more supersteps."""
        statistics = RunStatistics(settled=self.settled)
        for _ in range(0 if statistics.settled else max_supersteps):
            active, self.edges, self.moved = self.active, 0, 0
            self.taken: Direction = self.direction
            few = self.change_driven and active * self.dearest < FEW
            self.workers = 1 if few else self.threads
            if self.movement:
                self.movement.note(self.superstep_index)
            for step in self.steps:
                step()
            moved_in_parts = self.memory.arrays["watched"]
            self.active = self.moved + int(moved_in_parts.sum())
            moved_in_parts[:] = 0
            within = self.movement is not None and self.movement.within(self.superstep_index)
            self.superstep_index += 1
            statistics.supersteps.append(Superstep(active, self.edges, self.taken))
            self.confirming = False
            if within or (self.active == 0 and self.has_settled()):
                self.settled = statistics.settled = True
                break
        return statistics

    def values(self, name: str) -> NDArray[np.generic]:
        """Return a property without padding."""
        return self.memory.values(name)

    def explain(self) -> str:
        """Return the schedule, the kernels, the fast paths that were missed and why, and the generated source."""
        lines = [schedule_text(self, f", {self.threads} threads")]
        for group in self.tracking.groups:
            lines.append(f"kernel {self.tracking.name(group)}: {', '.join(stage.name for stage in group.stages)}")
        lines += [f"missed: {reason}" for reason in self.missed()]
        return "\n".join(lines) + f"\n\n{self.source}"

    def missed(self) -> list[str]:
        """Return the fast paths that this schedule does not take here, each with its reason."""
        return []

    def close(self) -> None:
        """Drop all arrays; :meth:`prepare` need not have been called."""
        if hasattr(self, "memory"):
            self.memory.arrays.clear()

    # for subclasses ---------------------------------------------------------------------------------------------
    def resolve(self) -> Any:
        """Return the schedule with every option filled in, before anything is lowered. The default is the schedule
        itself.
        """
        return self.schedule

    def resolved_options(self) -> Mapping[str, Any]:
        """Return the options under which the program was lowered."""
        return options_of(self.resolved)

    @abstractmethod
    def groups(self) -> tuple[FoldGroup, ...]:
        """Return the stages of each kernel."""

    @abstractmethod
    def plan(self) -> None:
        """Add kernels and steps."""

    def keeps_sent(self, program: Program) -> bool:
        """Return whether the values last propagated to reductions are kept, to compare changes with a tolerance or to
        make messages of differences.
        """
        forms = change_driven(program) if self.direction == "push" and self.change_driven else ()
        differences = isinstance(forms, str) or any(form.kind != "monotone" for form in forms)
        return program.control.tolerance is not None or differences

    def measures(self, criterion: Criterion) -> bool:
        """Return whether movement is measured.

        In the norm *max*, if every vertex is recomputed in every superstep, it is enough to count the vertices that
        moved by more than the tolerance.
        """
        return self.change_driven or criterion.norm == "sum"

    def has_settled(self) -> bool:
        """Return whether the run may end when no source is active: every side was updated, and accumulators agree."""
        every_side = self.superstep_index >= len(self.sides)
        return self.program.control.settles and every_side and self.confirmed()

    def rebuilding(self) -> bool:
        """Return whether this superstep rebuilds kept accumulators from all messages.

        It does so in the first superstep (of each side) unless the run was narrowed, every ``rebuild_every``
        supersteps, to confirm that the run has settled, and while active sources have at least ``REBUILD_SHARE`` of the
        edges.
        """
        turn = self.superstep_index // len(self.sides)
        first = turn == 0 and not self.narrowed
        due = self.rebuild_every > 0 and (turn % self.rebuild_every == 0 or self._nearly_all_active())
        self.rebuilt = first or self.confirming or due
        return self.rebuilt

    def _nearly_all_active(self) -> bool:
        found = self.active_sources.arcs
        groups = [self.tracking.name(group) for group in self.tracking.groups if group.edge_stages]
        most = max((found.get(name, 0) for name in groups), default=0)
        return most >= REBUILD_SHARE * self.graph.num_edges / len(self.sides)

    def confirmed(self) -> bool:
        """Return whether a run in which no source is active has settled.

        It has settled once a superstep that rebuilds accumulators moves nothing. What such a superstep moves is
        propagated as changes: recomputed float32 sums may move within their rounding error indefinitely (PageRank on
        email-Enron, 8 features, tolerance 1e-6: 124 supersteps; a run that rebuilds in all later supersteps has not
        settled after 200).
        """
        if not self.change_driven or self.rebuild_every == 0 or self.rebuilt:
            return True
        self.confirming = True
        return False

    @property
    def kernels(self) -> Sequence[Kernel]:
        """Return the kernels of this plan."""
        return tuple(self._kernels.values())

    def add_kernel(self, kernel: Kernel) -> None:
        """Add a kernel to the module. Raises EngineFailure if two stages lead to kernels with the same name."""
        if kernel.name in self._kernels:
            raise EngineFailure(f"{self.program.name}: two kernels are called {kernel.name!r}; rename a stage")
        self._kernels[kernel.name] = kernel

    def call(self, name: str, parts: int, **overrides: NDArray[Any]) -> None:
        """Run a kernel over ``parts`` parts; ``overrides`` replace arrays of the memory."""
        arguments = self._arguments[name]({**self.memory.arrays, **overrides})
        failed = self._functions[name](parts, min(parts, self.workers), *arguments)
        if failed:
            raise EngineFailure(f"{failed} parts of kernel {name} failed")

    @property
    def bounds(self) -> NDArray[np.int64]:
        """Return the parts of the vertices that this superstep updates."""
        return self.sides[self.superstep_index % len(self.sides)]

    def _side_bounds(self) -> list[NDArray[np.int64]]:
        offsets, count = self.graph.csc.offsets, self.graph.num_vertices
        if not self.program.control.alternate or self.graph.bipartite is None:
            return [balanced_bounds(offsets, 0, count, self.threads)]
        left = self.graph.bipartite[0]
        return [balanced_bounds(offsets, first, last, self.threads) for first, last in ((0, left), (left, count))]

    @property
    def ids(self) -> str:
        """Return the kind of the graph's vertex ids, as an argument of a kernel."""
        return "ids32" if self.graph.csr.neighbours.dtype == np.uint32 else "ids64"

    def bind_edges(
        self, builder: KernelBuilder, stages: Sequence[Stage], order: Literal["csc", "csr"], sent_to: str = ""
    ) -> None:
        """Bind edge properties at edge ``e`` of the block "edge", in either order, and those of its reverse.

        ``sent_to``: also bind the values last propagated to that group. If all edges pair, rows of CSR and CSC list the
        same vertices, so in either order the reverse of the edge at position e is at position ``reverse[e]``, the CSC's
        edge ids.
        """
        builder.bind("edge", "edge", "e", f"{order}_")
        builder.bind("sent_edge", "edge", "e", f"sent_{sent_to}_")
        if any(space == "reverse" for stage in stages for space, _ in reads(stage)):
            self.memory.add("reverse", self.graph.in_edge_ids)
            back = f"at({builder.argument('reverse', self.ids)}, e)"
            builder.bind("reverse", "edge", back, f"{order}_")
            builder.bind("sent_reverse", "edge", back, f"sent_{sent_to}_")

    # steps that most engines take -------------------------------------------------------------------------------
    def plan_update(self, group: FoldGroup) -> None:
        """Add the kernels of an edge update, by row of sources; see :class:`EdgeUpdates`."""
        updates = EdgeUpdates(self, self.active_sources, group)
        self.steps.append(updates.changes if self.change_driven else updates.everything)

    def plan_vertices(self, group: FoldGroup) -> None:
        """Add a kernel for a group of vertex steps."""
        kernel = vertex_kernel(self.tracking, group, self.layout, feature_aware=self.feature_aware)
        self.add_kernel(kernel)
        if self.change_driven:
            self.memory.add_flags(f"dirty_{kernel.name}", True)

        def step() -> None:
            self.call(kernel.name, len(self.bounds) - 1, bounds=self.bounds)
            self.moved += int(self.memory.arrays["counts"][: len(self.bounds) - 1].sum())

        self.steps.append(step)

    def plan_graph(self, stage: GraphReduce) -> None:
        """Add a kernel for a reduction over the graph. Under change tracking a new value makes its readers stale."""
        self.add_kernel(graph_kernel(self.program, stage, self.layout, feature_aware=self.feature_aware))
        whole = balanced_bounds(self.graph.csc.offsets, 0, self.graph.num_vertices, self.threads)
        stride = self.layout.stride(stage.value.shape)
        partial = self.memory.add(f"partial_{stage.name}", np.zeros((len(whole) - 1) * stride, np.float32))

        readers = [g for g in self.tracking.groups if g.kind != "graph" and stage.into in self.tracking.of_graph(g)]
        stale = [f"dirty_{self.tracking.name(reader)}" for reader in readers] if self.change_driven else []

        def step() -> None:
            self.workers = self.threads
            self.call(stage.name, len(whole) - 1, bounds=whole)
            rows = partial.reshape(-1, stride).astype(np.float64)
            total = segment_reduce(rows, np.array([0, len(rows)]), stage.reducer).astype(np.float32).reshape(-1)
            target = self.memory.arrays[f"graph_{stage.into}"]
            if stale and not np.array_equal(total, target):
                for flags in stale:
                    self.memory.set_flags(flags, True)
            target[:] = total

        self.steps.append(step)
