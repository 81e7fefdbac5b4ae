"""The execution of a plan on a CUDA device: its kernels and arrays there, and the run loop."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from harness.contract import RunStatistics, Superstep
from harness.device.compilation import Compiled
from harness.device.cuda import allow_shared_memory, architecture, open_device, require_memory
from harness.language import Inputs
from harness.language.program import IDENTITY
from harness.lowering.cuda.buffers import Buffer, Holds
from harness.lowering.cuda.launcher import Launcher
from harness.lowering.cuda.launches import turned
from harness.lowering.cuda.memory import DeviceMemory
from harness.lowering.cuda.modules import MOST_GROUPS, compiled_module, headers
from harness.lowering.cuda.plan import CudaPlan
from harness.lowering.cuda.ranges import Tables
from harness.lowering.cuda.run_start import start_fields
from harness.lowering.cuda.run_state import Look, RunState
from harness.lowering.cuda.tracking_policy import Pauses

if TYPE_CHECKING:
    from harness.graph import Graph
    from harness.language.analysis import FoldGroup

# Supersteps queued between two tests of whether the run has settled, after the first ones, each of which is tested:
# supersteps queued behind the end of a short run would take as long as the run.
LOOK_EVERY = 8
USUAL_SUPERSTEPS = 1024  # the number of records allocated; more are allocated for a run that may have more supersteps


class CudaExecutor:
    """Run a plan on a device: :meth:`compile` and :meth:`load` its kernels, :meth:`allocate` its buffers, then
    :meth:`reset` and :meth:`run`.

    ``tables``: what its kernels take that is computed from the graph once. ``done``, ``settled``: of the present run.
    ``pauses``: set if tracking may pause.
    """

    functions: dict[str, Any]
    memory: DeviceMemory | None = None
    launcher: Launcher | None = None
    pauses: Pauses | None = None
    _compiled: Compiled | None = None
    done = 0
    settled = False

    def __init__(self, plan: CudaPlan, graph: Graph, tables: Tables) -> None:
        self.plan, self.graph, self.tables = plan, graph, tables
        self.ranges = plan.work_ranges(graph, tables)

    def compile(self, index: int) -> None:
        """Compile the plan's module for a device, without a context on it.

        Raises DeviceUnavailable, CompilationFailed.
        """
        plan = self.plan
        self._compiled = compiled_module(plan.source, headers(plan.templates), architecture(index), plan.program)

    def load(self, index: int) -> None:
        """Load the module that :meth:`compile` made. Raises DeviceUnavailable."""
        import cupy

        assert self._compiled is not None, "compile() comes first"
        device, plan = open_device(index), self.plan
        module = cupy.cuda.function.Module()
        module.load(self._compiled.code)
        self.attributes: Mapping[str, int] = device.attributes
        names = ("end_of_superstep", *(kernel.name for kernel in plan.kernels))
        self.functions = {name: module.get_function(name) for name in names}
        for kernel in plan.kernels:
            needed = plan.shared_of(kernel)
            if needed:  # together with what the kernel declares this may exceed the default 48 KiB
                allow_shared_memory(self.functions[kernel.name], needed)

    def buffers(self) -> Iterable[Buffer]:
        """Return the buffers to allocate, after kernels are loaded; by default those of the plan."""
        return self.plan.buffers

    def allocate(self) -> None:
        """Allocate the buffers, and upload the graph and the tables. Raises MemoryError."""
        import cupy

        require_memory(self.plan.bytes_needed)
        self.memory = DeviceMemory(self.plan, self.graph)
        self.memory.allocate(self.buffers(), self.tables.arrays)
        self.state = RunState()
        multiprocessors = int(self.attributes["MultiProcessorCount"])
        self.launcher = Launcher(
            self.plan, self.ranges, self.functions, self.memory.arrays, self.state.array, multiprocessors
        )
        self.past = cupy.zeros((USUAL_SUPERSTEPS, 3), np.int64)
        self.stream = cupy.cuda.Stream(non_blocking=True)

    @property
    def arrays(self) -> dict[str, Any]:
        """The arrays on the device by name."""
        assert self.memory is not None, "allocate() comes first"
        return self.memory.arrays

    def reset(self, inputs: Inputs, state: Mapping[str, NDArray[np.generic]]) -> None:
        """Set the whole state to the start of a run: all vertices are dirty and active."""
        import cupy

        assert self.memory is not None, "allocate() comes first"
        self.memory.reset(inputs, state)
        tracking, sides = self.plan.tracking, len(self.plan.sides)
        for group in tracking.propagating() if tracking.change_driven else ():
            if tracking.moved_before(group):  # the first superstep compares with the previous values
                self._all_propagated(group)
        # at first all sources are active, of each side if sides alternate
        frontier = np.zeros((MOST_GROUPS, 2), np.int64)
        frontier[:, :sides] = self.graph.num_edges + 1
        self.pauses = Pauses(self.state, self.plan.thresholds.patience, begin=True) if tracking.pauses else None
        self.state.set(frontier, **start_fields(self.plan, self.graph, state))
        self.done, self.settled = 0, False
        cupy.cuda.Device().synchronize()

    def _all_propagated(self, group: FoldGroup) -> None:
        """Set the sent values of a group's sources to their current values."""
        arrays, tracking = self.arrays, self.plan.tracking
        for source in tracking.sent(group):
            sent = arrays[f"sent_{tracking.name(group)}_{source}"]
            sent[:] = arrays[f"vertex_{source}"][: len(sent)]

    def begin_with(self, stale: NDArray[np.bool_], senders: NDArray[np.bool_]) -> None:
        """Begin a run with few vertices, after :meth:`reset`.

        Only ``stale`` vertices are dirty and only ``senders`` active; everything has been propagated, nothing reduced
        yet.
        """
        arrays, plan = self.arrays, self.plan
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
        assert self.launcher is not None, "allocate() comes first"
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
        return Superstep(active, edges, "dense" if dense else self.plan.direction)

    def values(self, name: str, index: NDArray[np.integer[Any]] | None = None) -> NDArray[np.generic]:
        """Return a property without padding, or some rows of it."""
        assert self.memory is not None, "allocate() comes first"
        plan = self.plan
        swapped = turned(plan.launches) if self.done % 2 else set()
        counted = [buffer for buffer in plan.buffers if buffer.flips]
        swapped |= {buffer.name for buffer in counted if int(self.arrays[buffer.flips][0]) % 2}
        array_of = {array: plan.twins[array] for array in swapped}
        return self.memory.values(name, array_of) if index is None else self.memory.rows(name, array_of, index)

    def close(self) -> None:
        """Release the device's memory, also after a failure."""
        if self.launcher is not None:
            self.launcher.forget()
        if self.memory is not None:
            self.past = None
            self.memory.arrays.clear()
            self.memory.cupy.get_default_memory_pool().free_all_blocks()
