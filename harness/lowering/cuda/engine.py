"""The part that engines on a CUDA device share: compiling and loading a plan, its arrays, the run loop."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from harness.contract import Device, Phases, RunStatistics, Superstep
from harness.device.cuda import allow_shared_memory, open_device, require_memory
from harness.language import Inputs, Program
from harness.language.program import IDENTITY
from harness.lowering.cuda.launcher import Launcher
from harness.lowering.cuda.launches import turned
from harness.lowering.cuda.memory import DeviceMemory
from harness.lowering.cuda.memory_model import ModelledEngine
from harness.lowering.cuda.modules import MOST_GROUPS, compiled_module, headers
from harness.lowering.cuda.pauses import ENDLESS, Pauses
from harness.lowering.cuda.run_state import RUN_FIELDS, Look, RunState

if TYPE_CHECKING:
    from harness.graph import Graph
    from harness.language.analysis import FoldGroup

# Supersteps queued between two tests of whether the run has settled, after the first ones, each of which is tested:
# supersteps queued behind the end of a short run would take as long as the run.
LOOK_EVERY = 8
USUAL_SUPERSTEPS = 1024  # the number of records allocated; more are allocated for a run that may have more supersteps


class CudaEngine(ModelledEngine):
    """Run on a device what a subclass plans (:class:`harness.lowering.cuda.plan.PlannedEngine`)."""

    pauses: Pauses | None = None  # set if tracking may pause

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
            if needed:  # together with what the kernel declares this may exceed the default 48 KiB
                allow_shared_memory(self.functions[kernel.name], needed)

    def _allocate(self) -> None:
        import cupy

        self.memory = DeviceMemory(self.program, self.graph, self.layout, self.arc, self.tracking.propagated_share)
        self.memory.need(self.array_names())
        for name, (values, dtype) in self.own_arrays().items():
            self.memory.empty(name, values, dtype)
        for name, table in self.tables.arrays.items():
            self.memory.arrays[name] = cupy.asarray(table)
        self.state = RunState()
        arrays = self.memory.arrays
        self.ranges = self.work_ranges(self.tables)
        self.launcher = Launcher(self, self.ranges, self.functions, arrays, self.state.array, self.multiprocessors)
        self.past = cupy.zeros((USUAL_SUPERSTEPS, 3), np.int64)
        self.stream = cupy.cuda.Stream(non_blocking=True)

    def reset(self, inputs: Inputs, state: Mapping[str, NDArray[np.generic]] | None = None) -> None:
        """Set the whole state to the start of a run: all vertices are dirty and active."""
        import cupy

        self.memory.reset(inputs, state or {})
        for name, array in self.memory.arrays.items():
            match name.partition("_")[0]:
                case "dirty" | "active" | "changed":
                    array[:] = True
                case "fresh" | "flips" | "rows" | "moved" | "far" | "movement":
                    array[:] = 0
        for name, blank in self.blanks.items():
            self.memory.arrays[name].fill(blank)
        for group in self.tracking.propagating() if self.change_driven else ():
            if self.tracking.moved_before(group):  # the first superstep compares with the previous values
                self._all_propagated(group)
        start = dict.fromkeys(RUN_FIELDS, 0)
        edges = self.graph.num_edges
        start |= {"active": self.graph.num_vertices, "sides": len(self.sides)}
        start |= {"settles": int(self.program.control.settles), "rebuilding": 1}
        start["rebuild"] = self.accumulators.rebuild_every(state or {})
        start["dense_arcs"] = int(self.dense_share * edges)
        start["dense_rows"] = int(max(self.dense_share, self.rows_share) * edges)
        start["rebuild_arcs"] = int(self.rebuild_share * edges / len(self.sides)) if self.accumulators.rebuild else 0
        self.pauses = Pauses(self.state, self.patience, begin=True) if self.tracking.pauses else None
        if self.pauses:
            start |= self._pauses()
            if self.begins_untracked and not state:
                start |= self._first_stretch()
        if not self.change_driven:
            start |= {"always": self._edges(0), "always_odd": self._edges(-1)}
        # at first all sources are active, of each side if sides alternate
        frontier = np.zeros((MOST_GROUPS, 2), np.int64)
        frontier[:, : len(self.sides)] = edges + 1
        self.state.set(frontier, **start)
        self.done, self.settled = 0, False
        cupy.cuda.Device().synchronize()

    def _pauses(self) -> dict[str, int]:
        """Return the fields that decide when supersteps go untracked.

        They are limits on the edges of sources that moved, over all reductions and sides, and the number of edges that
        an untracked superstep visits.
        """
        groups = self.tracking.propagating()
        reducing = [number for number, group in enumerate(groups) if group.edge_stages]
        at_once = [number for number in reducing if self.tracking.hears_at_once(groups[number])]
        return {
            "untracked_arcs": max(1, int(self.untracked_share * self.graph.num_edges * len(reducing))),
            "reductions": sum(1 << number for number in reducing),
            "at_once": sum(1 << number for number in at_once),
            "may_pause": 1,
            "patience": self.patience,
            "full": self._edges(0),
            "full_odd": self._edges(-1),
        }

    def _first_stretch(self) -> dict[str, int]:
        """Return the fields of a run that begins without tracking.

        What moves is compared with the number of all edges, because each of them may move.
        """
        edges = self.graph.num_edges
        reducing = sum(bool(group.edge_stages) for group in self.tracking.propagating())
        return {"untracked": ENDLESS, "stretch": ENDLESS, "entered": reducing * edges, "usual": edges}

    def _all_propagated(self, group: FoldGroup) -> None:
        """Set the sent values of a group's sources to their current values."""
        arrays = self.memory.arrays
        for source in self.tracking.sent(group):
            sent = arrays[f"sent_{self.tracking.name(group)}_{source}"]
            sent[:] = arrays[f"vertex_{source}"][: len(sent)]

    def begin_with(self, stale: NDArray[np.bool_], senders: NDArray[np.bool_]) -> None:
        """Begin a run, for engines that can :meth:`narrow`.

        Only ``stale`` vertices are dirty and only ``senders`` active; everything has been propagated, nothing reduced
        yet.
        """
        arrays = self.memory.arrays
        for name in arrays:
            if name.startswith("dirty_"):
                arrays[name][: len(stale)].set(stale)
            elif name.startswith("active_"):
                arrays[name][: len(senders)].set(senders)
        frontier = np.zeros((MOST_GROUPS, 2), np.int64)
        for number, group in enumerate(self.tracking.propagating()):
            self._all_propagated(group)
            for stage in group.edge_stages:
                if f"vertex_{stage.into}" in arrays:
                    arrays[f"vertex_{stage.into}"].fill(IDENTITY[stage.reducer])
            frontier[number, : len(self.sides)] = int(np.diff(self.graph.csr.offsets)[senders].sum())
        if self.pauses:  # few vertices are active
            self.pauses = Pauses(self.state, self.patience, begin=False)
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
        return Superstep(active, edges, "dense" if dense else self.direction)

    def _edges(self, side: int) -> int:
        """Return the number of edges that a superstep of a side visits if no changes are tracked."""
        first, last = self.sides[side]
        offsets = self.graph.csc.offsets
        inwards = int(offsets[last] - offsets[first])
        reductions = sum(len(group.edge_stages) for group in self.tracking.groups)
        updates = sum(len(group.stages) for group in self.tracking.groups if group.kind == "update")
        return inwards * reductions + updates * self.graph.num_edges

    def values(self, name: str) -> NDArray[np.generic]:
        """Return a property without padding."""
        swaps = turned(self.launches) if self.done % 2 else set()
        swaps |= {array for array, flips in self.flipped.items() if int(self.memory.arrays[flips][0]) % 2}
        return self.memory.values(name, {array: f"next_{array}" for array in swaps})

    def close(self) -> None:
        """Release the device's memory."""
        if hasattr(self, "launcher"):
            self.launcher.forget()
        if hasattr(self, "memory"):
            self.past = None
            self.memory.arrays.clear()
            self.memory.cupy.get_default_memory_pool().free_all_blocks()
