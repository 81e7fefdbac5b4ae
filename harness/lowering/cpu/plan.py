"""The plan of a program on the CPU: kernels, buffers, tables and passes, decided from facts before anything runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from harness.contract import No
from harness.edge_places import Place, Placement
from harness.language import Program
from harness.language.analysis import FoldGroup
from harness.language.criterion import Criterion
from harness.language.program import Stage, reads
from harness.lowering.buffers import ORDERS, Holds
from harness.lowering.cpu.active_sources import Frontier
from harness.lowering.cpu.buffers import CpuBuffer
from harness.lowering.cpu.edge_places import PLACES
from harness.lowering.cpu.frontier import count_kernel, propagated_kernel
from harness.lowering.cpu.kernels import Kernel, KernelBuilder
from harness.lowering.cpu.module_source import module_source
from harness.lowering.cpu.run import Pass, Run, RunRules
from harness.lowering.cpu.setting import CpuSetting
from harness.lowering.cpu.tables import SideParts, SourceParts
from harness.lowering.cpu.windows import Windows
from harness.lowering.edge_tables import Reverse
from harness.lowering.graph_store import Table
from harness.lowering.layout import Layout


class Narrowing(Protocol):
    """A way for a run to begin with the vertices that a superstep would change; a frozen value."""

    def begin(self, run: Run, stale: NDArray[np.bool_], senders: NDArray[np.bool_]) -> None:
        """Begin a run, which has been reset, with these vertices if it can; bool[V] each.

        ``stale``: vertices to recompute. ``senders``: vertices that send their messages again.
        """


@dataclass(frozen=True)
class Resending:
    """Sources send their extrema again."""

    def begin(self, run: Run, stale: NDArray[np.bool_], senders: NDArray[np.bool_]) -> None:
        """Begin with the senders."""
        run.begin_with(stale, senders)


@dataclass(frozen=True)
class CpuPlan:
    """All that an executor needs to run a program on any graph with these facts.

    ``schedule``: with every option resolved. ``program``: as lowered; plans compare its ``fingerprint``. ``kernels``:
    what is compiled, one module each. ``buffers``: arrays of a run. ``tables``: arrays computed from the graph.
    ``passes``: the parts of a superstep, in order. ``missed``: the fast paths that are not taken, with reasons.
    ``estimates``: those that choices were made by.
    ``place``: of the edge arrays. ``windows``: those of streamed ones.
    """

    title: str
    schedule: Any
    program: Program = field(compare=False, repr=False)
    fingerprint: str
    layout: Layout
    rules: RunRules
    criterion: Criterion | None
    kernels: tuple[Kernel, ...]
    buffers: tuple[CpuBuffer, ...]
    tables: tuple[Table[Any], ...]
    passes: tuple[Pass, ...]
    narrowing: Narrowing | None
    groups: tuple[tuple[str, tuple[str, ...]], ...]
    missed: tuple[str, ...]
    estimates: tuple[str, ...]
    place: Place
    windows: Windows

    @property
    def bytes_needed(self) -> int:
        """Bytes of all arrays beside the graph, at most: of edge arrays in files only the windows of streamed ones."""
        in_files = self.place is not Place.RESIDENT
        tables = sum(table.nbytes(self.rules.graph) for table in self.tables if not (in_files and table.of_edges))
        buffers = sum(buffer.nbytes for buffer in self.buffers if not (in_files and buffer.placed))
        return tables + buffers + self.windows.nbytes

    @property
    def source(self) -> str:
        """The source of all kernels, with the names of the program."""
        return module_source(f"{self.title}, k = {self.layout.features}", self.kernels)

    @property
    def text(self) -> str:
        """The groups of stages, the estimates, the fast paths that were missed and why, and the generated source."""
        lines = [f"kernel {name}: {', '.join(stages)}" for name, stages in self.groups]
        if self.place is not Place.RESIDENT:
            lines.append(f"edge arrays {self.place.value} from files; windows in memory: {self.windows.nbytes:,} bytes")
        if self.windows.packed:
            lines.append(
                f"ids of neighbours packed, and unpacked in windows: {self.windows.room_bytes:,} of these bytes"
            )
        lines += [f"estimate: {one}" for one in self.estimates]
        lines += [f"missed: {reason}" for reason in self.missed]
        return "\n".join(lines) + f"\n\n{self.source}"


class PlanDraft:
    """A plan in progress, within one call of a planning function."""

    def __init__(self, setting: CpuSetting) -> None:
        self.setting = setting
        self.kernels: list[Kernel] = []
        self.passes: list[Pass] = []
        self.missed: dict[str, None] = {}  # fast paths that are not taken, with reasons
        self.sides = SideParts(setting.partition, setting.alternates)
        self._buffers: dict[str, CpuBuffer] = {}
        self._tables: dict[Table[Any], None] = {self.sides: None}
        self._frontiers: list[Frontier] = []

    # parts --------------------------------------------------------------------------------------------------------
    def buffer(self, buffer: CpuBuffer) -> CpuBuffer:
        """Add a buffer; one of the same name is replaced."""
        self._buffers[buffer.name] = buffer
        return buffer

    def flags(self, name: str, holds: Holds, of: str, start: bool) -> None:
        """Add two-level flags of the vertices."""
        self.buffer(CpuBuffer(name, holds, of, "bool", self.setting.facts.num_vertices, start=start, two_levels=True))

    def like(self, name: str, holds: Holds, prop: str) -> None:
        """Add a buffer in the layout of a vertex property."""
        chosen, layout = self.setting.program.properties[prop], self.setting.layout
        self.buffer(CpuBuffer.of_values(name, holds, chosen, self.setting.facts.num_vertices, layout))

    def array(self, name: str, holds: Holds, of: str, dtype: str, length: int) -> None:
        """Add a buffer whose elements have no value of their own when a run begins."""
        self.buffer(CpuBuffer(name, holds, of, dtype, length))

    def table(self, table: Table[Any]) -> None:
        """Add a table computed from the graph."""
        self._tables[table] = None

    def frontier(
        self,
        group: FoldGroup,
        *,
        marks: Mapping[str, Sequence[str]] | None = None,
        visits: str = "",
        edges: bool = True,
    ) -> Frontier:
        """Add the arrays and kernels that track the sources of a group (:mod:`.frontier`)."""
        setting, tracking = self.setting, self.setting.tracking
        name = tracking.name(group)
        self.flags(f"active_{name}", Holds.ACTIVE, name, False)
        frontier = Frontier(name, bool(group.edge_stages), tracking.sent(group), tracking.moved_before(group))
        for source in frontier.sent:
            self.like(f"sent_{name}_{source}", Holds.SENT, source)
        self.kernels.append(count_kernel(tracking, group, setting.layout, visits=visits, edges=edges))
        self.kernels.append(
            propagated_kernel(
                tracking, group, setting.layout,
                ids=setting.ids, marks=marks or {}, feature_aware=setting.feature_aware,
            )
        )  # fmt: skip
        self._frontiers.append(frontier)
        return frontier

    def counted(self, gathered: Sequence[str]) -> tuple[str, ...]:
        """Return the groups whose active sources are counted at the end of a superstep.

        Edge updates are counted too, unless any change activates their sources.
        """
        updates = (one.group for one in self._frontiers if not one.reduces and one.sent)
        return (*gathered, *updates)

    def bind_edges(
        self, builder: KernelBuilder, stages: Sequence[Stage], order: Literal["csc", "csr"], sent_to: str = ""
    ) -> None:
        """Bind edge properties at edge ``e`` of the block "edge", in either order, and those of its reverse.

        ``sent_to``: also bind the values last propagated to that group. If all edges pair, rows of CSR and CSC list the
        same vertices. In either order, the reverse of the edge at position e is then at position ``reverse[e]``, the
        CSC's edge ids.
        """
        builder.bind("edge", "edge", "e", f"{order}_")
        builder.bind("sent_edge", "edge", "e", f"sent_{sent_to}_")
        if any(space == "reverse" for stage in stages for space, _ in reads(stage)):
            self.table(Reverse())
            back = f"at({builder.argument('reverse', self.setting.ids)}, e)"
            builder.bind("reverse", "edge", back, f"{order}_")
            builder.bind("sent_reverse", "edge", back, f"sent_{sent_to}_")

    # the result ---------------------------------------------------------------------------------------------------
    def finish(
        self, title: str, schedule: Any, *, narrowing: Narrowing | None = None, missed: Sequence[str] = (),
        estimates: Sequence[str] = (),
    ) -> CpuPlan | No:  # fmt: skip
        """Return the plan; No if two stages lead to kernels of the same name, or if edges cannot be streamed."""
        setting, names = self.setting, [kernel.name for kernel in self.kernels]
        placement = Placement.of(schedule)
        twice = next((name for i, name in enumerate(names) if name in names[:i]), "")
        if twice:
            return No(f"{setting.program.name}: two kernels are called {twice!r}; rename a stage")
        self._add_properties()
        if placement.cache_bytes:
            return No("cache_mb has no meaning on the CPU, whose edges are all in one memory; leave it unset")
        if placement.place not in PLACES:
            built = ", ".join(place.value for place in PLACES)
            return No(f"edges={placement.place.value} is for GPUs; give one of {built} on the CPU")
        windows = Windows.of(placement, setting.facts, setting.ids, self._buffers.values())
        refused = windows.refusal(setting.program, setting.facts, self._tables)
        if refused:
            return No(refused)
        self._add_work()
        tracking = setting.tracking
        rules = RunRules(
            setting.facts, setting.threads, setting.partition, self.sides, setting.direction, setting.change_driven,
            setting.program.control.settles, setting.accumulators,
            tuple((stage.into, stage.reducer) for group in tracking.groups for stage in group.edge_stages),
            tuple(self._frontiers), setting.policy,
        )  # fmt: skip
        return CpuPlan(
            title, schedule, setting.program, setting.program.fingerprint, setting.layout, rules, setting.measured,
            tuple(self.kernels), tuple(self._buffers.values()), tuple(self._tables), tuple(self.passes), narrowing,
            tuple((tracking.name(group), tuple(stage.name for stage in group.stages)) for group in tracking.groups),
            (*self.missed, *missed), tuple(estimates), placement.place, windows,
        )  # fmt: skip

    def _add_properties(self) -> None:
        """Add the current values of every property; of an edge property in the orders that kernels read."""
        taken = {name for kernel in self.kernels for name in kernel.arguments}
        for prop in self.setting.program.properties.values():
            for order in ORDERS[prop.place]:
                if prop.place != "edge" or order.array(prop.name) in taken:
                    placed = prop.place == "edge" and prop.role == "input"
                    facts, layout = self.setting.facts, self.setting.layout
                    self.buffer(CpuBuffer.of_property(prop, order, facts, layout, placed=placed))

    def _add_work(self) -> None:
        """Add what kernels need besides values: scratch, counts by part, parameters, values before a measurement."""
        threads = self.setting.threads
        floats = max((kernel.scratch_floats for kernel in self.kernels), default=0)
        self.table(SourceParts(self.setting.partition))
        self.array("scratch", Holds.WORK, "", "float32", max(1, threads * floats))
        for name, values in {"counts": 2, "watched": 1, "pairs": 2}.items():
            self.array(name, Holds.WORK, "", "int64", values * self.setting.partition.most)
        self.array("parameters", Holds.PARAMETERS, "", "float32", max(1, len(self.setting.program.parameters)))
        for name in self.setting.measured.properties if self.setting.measured else ():
            self.like(f"before_{name}", Holds.WORK, name)
