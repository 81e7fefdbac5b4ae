"""The part that engines on a CUDA device share: compiling and loading a plan, its arrays, the run loop."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from harness.contract import (
    Device,
    Engine,
    EngineFailure,
    No,
    Phases,
    RunStatistics,
    Superstep,
    Yes,
    options_of,
    schedule_text,
)  # fmt: skip
from harness.device.cuda import allow_shared_memory, open_device, require_memory
from harness.facts import DeviceFacts
from harness.language import Inputs, Program
from harness.language.program import IDENTITY
from harness.lowering.cuda.buffers import Buffer, Holds
from harness.lowering.cuda.launcher import Launcher
from harness.lowering.cuda.launches import turned
from harness.lowering.cuda.memory import DeviceMemory
from harness.lowering.cuda.memory_model import behaviour_of
from harness.lowering.cuda.modules import MOST_GROUPS, compiled_module, headers
from harness.lowering.cuda.pauses import ENDLESS, Pauses
from harness.lowering.cuda.plan import CudaPlan
from harness.lowering.cuda.ranges import Tables
from harness.lowering.cuda.run_state import RUN_FIELDS, Look, RunState
from harness.lowering.cuda.walks import Mapped, UndeclaredMapping

if TYPE_CHECKING:
    from harness.facts import GraphFacts
    from harness.graph import Graph
    from harness.language.analysis import FoldGroup
    from harness.transactions import Behaviour

# Supersteps queued between two tests of whether the run has settled, after the first ones, each of which is tested:
# supersteps queued behind the end of a short run would take as long as the run.
LOOK_EVERY = 8
CUDA = DeviceFacts("cuda")
USUAL_SUPERSTEPS = 1024  # the number of records allocated; more are allocated for a run that may have more supersteps


class CudaEngine(Engine):
    """Run plans on a device. A subclass defines :meth:`plan`, which makes them, and what its plans refer to.

    ``planned``: the plan that :meth:`prepare` or :meth:`generate` has made. ``pauses``: set if tracking may pause.
    """

    planned: CudaPlan
    graph: Graph
    pauses: Pauses | None = None

    # for subclasses ---------------------------------------------------------------------------------------------------
    @abstractmethod
    def plan(self, program: Program, graph: GraphFacts, features: int, device: DeviceFacts = CUDA) -> CudaPlan | No:
        """Return the plan of a program, or why it cannot run; it depends on the schedule and the arguments only."""

    def tables_of(self, plan: CudaPlan, graph: Graph) -> Tables:
        """Return what a plan's kernels take that is computed from the graph once."""
        return Tables()

    def mappings(self) -> Sequence[Mapped]:
        """Return a mapping for every traversal (:mod:`harness.lowering.cuda.walks`)."""
        return ()

    def buffers(self) -> Iterable[Buffer]:
        """Return the buffers to allocate, after kernels are loaded; by default those of the plan."""
        return self.planned.buffers

    # without a device -------------------------------------------------------------------------------------------------
    def supports(self, program: Program, graph: Graph, features: int, device: Device) -> Yes | No:
        """Return whether the program can run under this schedule on this graph."""
        plan = self.plan(program, graph.facts, features)
        return plan if isinstance(plan, No) else Yes(plan.device_bytes)

    def generate(self, program: Program, graph: Graph, features: int, device: Device) -> None:
        """Plan, without a device. Raises EngineFailure if the program cannot run."""
        plan = self.plan(program, graph.facts, features)
        if isinstance(plan, No):
            raise EngineFailure(plan.reason)
        self.planned, self.graph = plan, graph

    def explain(self) -> str:
        """Return the schedule, the mapping, the kernels and the generated source."""
        plan = self.planned
        lanes = f"teams of {plan.team.lanes} lanes, {plan.team.width} features at once"
        lines = [schedule_text(self, f", {lanes}, {plan.threads} threads a block")]
        lines += [f"kernel {stages[0]}: {', '.join(stages)}" for stages in plan.groups]
        if plan.tracking.pauses:
            lines.append(
                "tracking pauses while nearly everything moves: kernels *_untracked take the place of the others"
            )
        return "\n".join(lines) + f"\n\n{plan.source}"

    def resolved_options(self) -> Mapping[str, Any]:
        """Return the options under which the program was planned."""
        return options_of(self.planned.schedule)

    def memory_model(self, program: Program, graph: Graph, features: int) -> Behaviour | No:
        """Return the memory transactions of a superstep over everything, counted on a sample of the graph by the
        mappings.
        """
        plan = self.plan(program, graph.facts, features)
        if isinstance(plan, No):
            return plan
        try:
            return behaviour_of(plan, graph, self.mappings(), self.tables_of(plan, graph))
        except UndeclaredMapping as error:
            return No(str(error))

    # on a device ------------------------------------------------------------------------------------------------------
    def prepare(self, program: Program, graph: Graph, features: int, device: Device, phases: Phases) -> None:
        """Plan, compile, upload. Raises DeviceUnavailable, CompilationFailed, MemoryError, EngineFailure."""
        with phases("lower"):
            self.generate(program, graph, features, device)
        with phases("transform"):
            self.tables = self.tables_of(self.planned, graph)
        with phases("compile"):
            chosen, plan = open_device(device.index), self.planned
            architecture = f"sm_{chosen.compute_capability}"
            self.compiled = compiled_module(plan.source, headers(plan.templates), architecture, plan.program)
            self._load(chosen)
        with phases("upload"):
            require_memory(plan.device_bytes)
            self._allocate()

    def _load(self, device: Any) -> None:
        import cupy

        module = cupy.cuda.function.Module()
        module.load(self.compiled.code)
        self.multiprocessors = int(device.attributes["MultiProcessorCount"])
        kernels = self.planned.kernels
        self.functions = {name: module.get_function(name) for name in ("end_of_superstep", *(k.name for k in kernels))}
        for kernel in kernels:
            needed = self.planned.shared_of(kernel)
            if needed:  # together with what the kernel declares this may exceed the default 48 KiB
                allow_shared_memory(self.functions[kernel.name], needed)

    def _allocate(self) -> None:
        import cupy

        self.memory = DeviceMemory(self.planned, self.graph)
        self.memory.allocate(self.buffers(), self.tables.arrays)
        self.state = RunState()
        self.ranges = self.planned.work_ranges(self.graph, self.tables)
        self.launcher = Launcher(
            self.planned, self.ranges, self.functions, self.memory.arrays, self.state.array, self.multiprocessors
        )
        self.past = cupy.zeros((USUAL_SUPERSTEPS, 3), np.int64)
        self.stream = cupy.cuda.Stream(non_blocking=True)

    def reset(self, inputs: Inputs, state: Mapping[str, NDArray[np.generic]] | None = None) -> None:
        """Set the whole state to the start of a run: all vertices are dirty and active."""
        import cupy

        self.memory.reset(inputs, state or {})
        plan, edges = self.planned, self.graph.num_edges
        thresholds, sides, tracking = plan.thresholds, len(plan.sides), plan.tracking
        for group in tracking.propagating() if tracking.change_driven else ():
            if tracking.moved_before(group):  # the first superstep compares with the previous values
                self._all_propagated(group)
        start = dict.fromkeys(RUN_FIELDS, 0)
        start |= {"active": self.graph.num_vertices, "sides": sides}
        start |= {"settles": int(plan.program.control.settles), "rebuilding": 1}
        start["rebuild"] = plan.accumulators.rebuild_every(state or {})
        start["dense_arcs"] = int(thresholds.dense * edges)
        start["dense_rows"] = int(max(thresholds.dense, thresholds.rows) * edges)
        start["rebuild_arcs"] = int(thresholds.rebuild * edges / sides) if plan.accumulators.rebuild else 0
        self.pauses = Pauses(self.state, thresholds.patience, begin=True) if tracking.pauses else None
        if self.pauses:
            start |= self._pauses()
            if thresholds.begins_untracked and not state:
                start |= self._first_stretch()
        if not plan.change_driven:
            start |= {"always": self._edges(0), "always_odd": self._edges(-1)}
        # at first all sources are active, of each side if sides alternate
        frontier = np.zeros((MOST_GROUPS, 2), np.int64)
        frontier[:, :sides] = edges + 1
        self.state.set(frontier, **start)
        self.done, self.settled = 0, False
        cupy.cuda.Device().synchronize()

    def _pauses(self) -> dict[str, int]:
        """Return the fields that decide when supersteps go untracked.

        They are limits on the edges of sources that moved, over all reductions and sides, and the number of edges that
        an untracked superstep visits.
        """
        tracking, thresholds = self.planned.tracking, self.planned.thresholds
        groups = tracking.propagating()
        reducing = [number for number, group in enumerate(groups) if group.edge_stages]
        at_once = [number for number in reducing if tracking.hears_at_once(groups[number])]
        return {
            "untracked_arcs": max(1, int(thresholds.untracked * self.graph.num_edges * len(reducing))),
            "reductions": sum(1 << number for number in reducing),
            "at_once": sum(1 << number for number in at_once),
            "may_pause": 1,
            "patience": thresholds.patience,
            "full": self._edges(0),
            "full_odd": self._edges(-1),
        }

    def _first_stretch(self) -> dict[str, int]:
        """Return the fields of a run that begins without tracking.

        What moves is compared with the number of all edges, because each of them may move.
        """
        edges = self.graph.num_edges
        reducing = sum(bool(group.edge_stages) for group in self.planned.tracking.propagating())
        return {"untracked": ENDLESS, "stretch": ENDLESS, "entered": reducing * edges, "usual": edges}

    def _all_propagated(self, group: FoldGroup) -> None:
        """Set the sent values of a group's sources to their current values."""
        arrays, tracking = self.memory.arrays, self.planned.tracking
        for source in tracking.sent(group):
            sent = arrays[f"sent_{tracking.name(group)}_{source}"]
            sent[:] = arrays[f"vertex_{source}"][: len(sent)]

    def begin_with(self, stale: NDArray[np.bool_], senders: NDArray[np.bool_]) -> None:
        """Begin a run, for engines that can :meth:`narrow`.

        Only ``stale`` vertices are dirty and only ``senders`` active; everything has been propagated, nothing reduced
        yet.
        """
        arrays, plan = self.memory.arrays, self.planned
        for buffer in plan.buffers:
            if buffer.holds is Holds.DIRTY:
                arrays[buffer.name][: len(stale)].set(stale)
            elif buffer.holds is Holds.ACTIVE:
                arrays[buffer.name][: len(senders)].set(senders)
        frontier = np.zeros((MOST_GROUPS, 2), np.int64)
        for number, group in enumerate(plan.tracking.propagating()):
            self._all_propagated(group)
            for stage in group.edge_stages:
                if f"vertex_{stage.into}" in arrays:
                    arrays[f"vertex_{stage.into}"].fill(IDENTITY[stage.reducer])
            frontier[number, : len(plan.sides)] = int(np.diff(self.graph.csr.offsets)[senders].sum())
        if self.pauses:  # few vertices are active
            self.pauses = Pauses(self.state, plan.thresholds.patience, begin=False)
        active = int(np.count_nonzero(stale | senders))
        self.state.set(frontier, active=active, rebuilding=0, may_pause=0)

    def run(self, max_supersteps: int) -> RunStatistics:
        """Run until settled or for ``max_supersteps`` more supersteps.

        Supersteps are queued ahead. The device decides whether the run has settled; the host reads this without waiting
        for the latest supersteps.
        """
        statistics = RunStatistics(settled=self.settled)
        if self.settled or max_supersteps < 1:
            return statistics
        first, wanted = self.done, self.done + max_supersteps
        with self.stream:
            past = self._past(max_supersteps)
            self.state.note(limit=wanted, first=first)
            self.queue(first, wanted, past)
            self.stream.synchronize()
            found = self.state.fields()
            if self.pauses:
                self.pauses.heard(found, found["superstep"])
                self.stream.synchronize()  # before other code writes to the state
        self.done, self.settled = found["superstep"], bool(found["settled"])
        taken = past[: self.done - first].get()
        statistics.supersteps = [self.superstep_of(*map(int, one)) for one in taken]
        statistics.settled = self.settled
        return statistics

    def _past(self, supersteps: int) -> Any:
        """Return an array for the records of this many supersteps: always the same array while it is large enough."""
        import cupy

        if len(self.past) < supersteps:
            self.past = cupy.zeros((supersteps, 3), np.int64)
        return self.past

    def queue(self, first: int, wanted: int, past: Any) -> None:
        """Queue supersteps ``first`` to ``wanted - 1``, which are recorded in ``past``.

        Once the run has settled, the remaining ones may be omitted.
        """
        looks: list[Look] = []
        for superstep in range(first, wanted):
            self.launcher.superstep(superstep, past, tracked=self.pauses is not None and not self.pauses.both)
            queued = superstep - first + 1
            if superstep + 1 < wanted and (queued < LOOK_EVERY or queued % LOOK_EVERY == 0):
                looks.append(self.state.look())
                if len(looks) > 1:
                    news = looks.pop(0).fields()
                    if news["settled"]:
                        return
                    if self.pauses:
                        self.pauses.heard(news, superstep + 1)

    def superstep_of(self, active: int, edges: int, dense: int) -> Superstep:
        """Return the statistics of a superstep from its record."""
        return Superstep(active, edges, "dense" if dense else self.planned.direction)

    def _edges(self, side: int) -> int:
        """Return the number of edges that a superstep of a side visits if no changes are tracked."""
        groups = self.planned.tracking.groups
        first, last = self.planned.sides[side]
        offsets = self.graph.csc.offsets
        inwards = int(offsets[last] - offsets[first])
        reductions = sum(len(group.edge_stages) for group in groups)
        updates = sum(len(group.stages) for group in groups if group.kind == "update")
        return inwards * reductions + updates * self.graph.num_edges

    def values(self, name: str) -> NDArray[np.generic]:
        """Return a property without padding."""
        plan = self.planned
        swapped = turned(plan.launches) if self.done % 2 else set()
        counted = [buffer for buffer in plan.buffers if buffer.flips]
        swapped |= {buffer.name for buffer in counted if int(self.memory.arrays[buffer.flips][0]) % 2}
        return self.memory.values(name, {array: plan.twins[array] for array in swapped})

    def close(self) -> None:
        """Release the device's memory."""
        if hasattr(self, "launcher"):
            self.launcher.forget()
        if hasattr(self, "memory"):
            self.past = None
            self.memory.arrays.clear()
            self.memory.cupy.get_default_memory_pool().free_all_blocks()
