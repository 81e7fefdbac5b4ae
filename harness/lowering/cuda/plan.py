"""A program under a schedule, planned for a CUDA device: legality, launches, the generated module. Needs no device."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.contract import Device, Direction, Engine, No, Yes, options_of, schedule_text
from harness.language import Program
from harness.language.analysis import FoldGroup, factors, watched
from harness.language.criterion import Criterion, propagated_share
from harness.lowering.accumulators import separated
from harness.lowering.cuda.kernels import CudaKernel
from harness.lowering.cuda.launches import Launch, Most, named_apart
from harness.lowering.cuda.layout import DeviceLayout, TeamShape
from harness.lowering.cuda.memory import arrays_of, values_of
from harness.lowering.cuda.modules import MOST_GROUPS, headers, module_source
from harness.lowering.cuda.movement import Measuring, measuring
from harness.lowering.cuda.ranges import Range, Tables, WorkRanges
from harness.lowering.cuda.tracked_arrays import tracked_arrays
from harness.lowering.kept_accumulators import KeptAccumulators
from harness.lowering.log_products import products_as_sums
from harness.lowering.refusals import unsupported
from harness.lowering.tracking import Tracking

if TYPE_CHECKING:
    from harness.graph import Graph

MOST_SHARED = 220 * 1024  # bytes of shared memory that a block may have on sm_80 and later, minus what kernels declare
MOST_LOCAL = 4096  # floats of a thread's own matrices, with features in a loop


class PlannedEngine(Engine):
    """The launches of a superstep, their kernels and the arrays that these take.

    A subclass defines :meth:`plan`, which adds launches, and the location of its ``.cuh`` files.
    """

    feature_aware = True
    change_driven = False
    dense_share = 0.0  # of the edges, from which on a frontier processes everything
    rebuild_share = 0.0  # of the edges, from which on rebuilding kept sums is no more work; 0: it always is
    untracked_share = 0.0  # of the edges, from which on tracking changes costs more than it saves; 0: it never does
    patience = 0  # turns with this much movement before tracking pauses
    begins_untracked = False  # of a run from a cold start, in which nearly everything moves at first
    rows_share = 0.5  # of the edges, from which on an edge update processes all of them
    tracks_edges = False  # whether changes of edge properties are tracked
    accumulators = KeptAccumulators()
    most: Most = "some"  # blocks of a launch (:class:`Launch`)
    direction: Direction = "pull"
    width: int | None = None  # maximum number of features that a lane loads at once (:meth:`TeamShape.for_program`)
    block = 256
    templates: Path

    resolved: Any  # the schedule with every option filled in
    program: Program
    graph: Graph
    layout: DeviceLayout
    team: TeamShape
    tracking: Tracking
    criterion: Criterion | None
    measuring: Measuring

    # planning ---------------------------------------------------------------------------------------------------------
    def supports(self, program: Program, graph: Graph, features: int, device: Device) -> Yes | No:
        """Return whether the program can run under this schedule on this graph."""
        lowered = separated(products_as_sums(program, masked=True))
        reason = self.refusal(lowered, graph, features)
        if reason:
            return No(reason)
        self.lower(program, graph, features)
        tracked = len(self.tracking.propagating()) if self.change_driven else 0
        if tracked > MOST_GROUPS:
            return No(f"changes are tracked for {MOST_GROUPS} edge stages at most, and the program has {tracked}")
        if graph.num_edges > 1 << 32 and self.array_names() & {"reverse", "places"}:
            return No("positions of other arcs take 32 bits on a device, and the graph has more arcs")
        floats = max((kernel.tile_floats for kernel in self.kernels), default=0)
        if self.team.lanes == 1 and floats > MOST_LOCAL:
            return No(f"matrices of {floats} floats do not fit a thread; with feature_aware a team shares them")
        if self.team.lanes > 1 and self.shared_bytes(floats, 32) > MOST_SHARED:
            return No(f"matrices of {floats} floats for each team do not fit the shared memory of a block")
        return Yes(self.bytes_needed())

    def refusal(self, program: Program, graph: Graph, features: int) -> str:
        """Return why the program cannot run; empty if it can."""
        if graph.num_vertices >= 1 << 31:
            return "vertex ids take 32 bits on a device, and the graph has more vertices"
        return unsupported(
            program, graph.facts, features, change_driven=self.change_driven, tracks_edges=self.tracks_edges
        )

    def bytes_needed(self) -> int:
        """Return the device memory of a run: the graph's arrays in kernels, the properties, and the engine's own
        arrays.
        """
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
        """Plan and generate, without a device; return the module's source."""
        watches, multiplied = watched(program), factors(program)
        self.criterion, share = Criterion.of(program), propagated_share(program)
        self.program, self.graph = self.rewritten(separated(products_as_sums(program, masked=True))), graph
        self.layout = DeviceLayout(features)
        self.resolved = self.resolve()
        self.team = TeamShape.for_program(self.program, features, self.feature_aware, self.width)
        self.launches: list[Launch] = []
        self.rooms: dict[str, int] = {}
        self.flipped: dict[str, str] = {}
        self.blanks: dict[str, float] = {}
        self.accumulators = KeptAccumulators()
        self.tracking = Tracking(
            self.program, self.groups(), self.change_driven, watches, multiplied, propagated_share=share
        )
        self.sides = self._sides()
        self.many_arcs = graph.num_edges >= 1 << 31
        self.plan()
        self.measuring = self.plan_measuring()
        self._name_apart()
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

    def _name_apart(self) -> None:
        ahead = len(self.launches)
        launches = named_apart([*self.launches, *self.measuring.launches])
        self.launches, measuring = launches[:ahead], launches[ahead:]
        first = len(self.measuring.ahead)
        self.measuring = Measuring(measuring[:first], measuring[first:])

    def generate(self, program: Program, graph: Graph, features: int, device: Device) -> None:
        """Return the source; there need not be a device."""
        self.lower(program, graph, features)

    def _sides(self) -> list[tuple[int, int]]:
        count = self.graph.num_vertices
        if not self.program.control.alternate or self.graph.bipartite is None:
            return [(0, count)]
        left = self.graph.bipartite[0]
        return [(0, left), (left, count)]

    @property
    def kernels(self) -> tuple[CudaKernel, ...]:
        """Return the kernels of the plan, each once."""
        launches = (*self.launches, *self.measuring.launches)
        return tuple({launch.kernel.name: launch.kernel for launch in launches}.values())

    def shared_bytes(self, floats: int, block: int) -> int:
        """Return the shared memory of a block whose teams need ``floats`` each."""
        return 0 if self.team.lanes == 1 else 4 * floats * (block // 32) * self.team.teams

    def shared_of(self, kernel: CudaKernel) -> int:
        """Return the shared memory that a launch of a kernel requests."""
        return self.shared_bytes(kernel.tile_floats, self.threads) + 4 * kernel.thread_floats * self.threads

    # launches and arrays ----------------------------------------------------------------------------------------------
    def work_ranges(self, tables: Tables) -> WorkRanges:
        """Return the bounds of the launches' ranges, given the engine's tables."""
        return WorkRanges(self.graph, self.sides, tables.pieces, self.threads // 32 * self.team.teams)

    @property
    def twins(self) -> dict[str, str]:
        """Return the arrays of the two buffers that kernels name."""
        pairs = [((f"even_{array}", array), (f"odd_{array}", f"next_{array}")) for array in self.flipped]
        return dict(pair for both in pairs for pair in both)

    def array_names(self) -> set[str]:
        """Return the arrays that kernels take, and those that swap with them."""
        taken = {self.twins.get(name, name) for kernel in self.kernels for name in kernel.arguments}
        return taken | {name for launch in self.launches for name in launch.swaps if f"next_{name}" in taken}

    def own_arrays(self) -> dict[str, tuple[int, type[np.generic]]]:
        """Return the arrays beside the graph and the properties, with their lengths and dtypes.

        They are ``self.rooms`` and the arrays of change tracking.
        """
        found: dict[str, tuple[int, type[np.generic]]] = {name: (size, np.float32) for name, size in self.rooms.items()}
        return found | tracked_arrays(self.tracking, self.graph, self.layout, self.array_names())

    def explain(self) -> str:
        """Return the schedule, the mapping, the kernels and the generated source."""
        teams = (
            f", teams of {self.team.lanes} lanes, {self.team.width} features at once, {self.threads} threads a block"
        )
        lines = [schedule_text(self, teams)]
        for group in self.tracking.groups:
            lines.append(f"kernel {self.tracking.name(group)}: {', '.join(stage.name for stage in group.stages)}")
        if self.tracking.pauses:
            lines.append(
                "tracking pauses while nearly everything moves: kernels *_untracked take the place of the others"
            )
        return "\n".join(lines) + f"\n\n{self.source}"

    # for subclasses ---------------------------------------------------------------------------------------------------
    def rewritten(self, program: Program) -> Program:
        """Return the lowered program as the engine runs it; by default unchanged."""
        return program

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

    def transform(self) -> Tables:
        """Return what the engine computes from the graph once, beside the arrays that kernels know."""
        return Tables()

    @abstractmethod
    def plan(self) -> None:
        """Add launches (:meth:`add`).

        Add to ``self.rooms`` the engine's own arrays with their lengths in floats, and to ``self.blanks`` the arrays
        that a run begins with filled with one number.
        """

    def plan_measuring(self) -> Measuring:
        """Return the launches that measure movement.

        In the norm *max*, if every vertex is recomputed in every superstep, it is enough to count the vertices that
        moved by more than the tolerance.
        """
        criterion = self.criterion
        if criterion is None or not (self.change_driven or criterion.norm == "sum"):
            return Measuring()
        made = measuring(criterion, self.program, self.layout, self.graph.num_vertices, self.flipped)
        self.rooms |= made.rooms
        return made

    def add(
        self, kernel: CudaKernel, over: Range, lanes: float | None = None, swaps: tuple[str, ...] = (), *,
        most: Most | None = None,
    ) -> None:  # fmt: skip
        """Add a launch, by default with a team for each vertex and of ``self.most`` blocks."""
        lanes = self.team.lanes if lanes is None else lanes
        self.launches.append(Launch(kernel, over, lanes, swaps, most=most or self.most))

    def double(self, array: str, rows: int, name: str) -> None:
        """Give an array of a property a second buffer, ``next_<array>``."""
        self.rooms[f"next_{array}"] = rows * self.layout.stride(self.program.properties[name].shape)

    @property
    def arc(self) -> type[np.generic]:
        """Return the dtype of a position among the edges."""
        return np.int64 if self.many_arcs else np.uint32
