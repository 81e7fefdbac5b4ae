"""The execution of a plan on a CUDA device: its kernels, its arrays and its runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from harness.contract import RunStatistics, Superstep
from harness.device.compilation import Compiled
from harness.device.cuda import allow_shared_memory, architecture, free_memory, open_device, require_memory
from harness.language import Inputs
from harness.language.program import IDENTITY
from harness.lowering.buffers import Holds
from harness.lowering.cuda.buffers import CudaBuffer
from harness.lowering.cuda.device_store import DeviceStore
from harness.lowering.cuda.launcher import Launcher
from harness.lowering.cuda.launches import turned
from harness.lowering.cuda.loop import CudaRun, Loop, queue_ahead
from harness.lowering.cuda.memory import DeviceMemory
from harness.lowering.cuda.modules import compiled_module, headers
from harness.lowering.cuda.plan import CudaPlan
from harness.lowering.cuda.run_start import start_fields
from harness.lowering.cuda.run_state import MOST_GROUPS, RunState, pinned
from harness.lowering.cuda.windows import name_of_test
from harness.lowering.first_senders import FirstSenders

if TYPE_CHECKING:
    from harness.language.analysis import FoldGroup
    from harness.lowering.cuda.edge_places import Replayer
    from harness.lowering.cuda.run_extension import Observer

PAST_FIELDS = 5  # of a record: struct Past
FEW_SENDERS = 1 / 64  # of the vertices, whose numbers are uploaded instead of a flag for every vertex
USUAL_SUPERSTEPS = 1024  # the number of records allocated, and copied to the host when a run ends
MOST_SUPERSTEPS = 1 << 14  # of a part of a run, for which records are allocated; the host reads them after each part


class CudaExecutor:
    """Run a plan on the device of a store: :meth:`compile` and :meth:`load` its kernels, :meth:`allocate` its buffers,
    then :meth:`reset` and :meth:`run`.

    ``loop``: the order in which supersteps are queued. ``current``: the run, once buffers are allocated.
    """

    functions: dict[str, Any]
    memory: DeviceMemory | None = None
    _compiled: Compiled | None = None
    current: CudaRun | None = None
    _everything = False  # a run begins with all vertices active
    _senders: tuple[NDArray[np.bool_], NDArray[np.int64]] | None = None

    def __init__(self, plan: CudaPlan, store: DeviceStore, loop: Loop = queue_ahead) -> None:
        self.plan, self.store, self.loop = plan, store, loop
        self.ranges = plan.work_ranges(store)
        pushes = plan.change_driven and plan.direction == "push" and plan.accumulators.extrema
        features = plan.layout.features
        self.first_senders = FirstSenders(plan.program, store.graph, features, keeps_extrema=pushes)
        for table in plan.tables:
            store.table(table)

    def compile(self) -> None:
        """Compile the plan's module for the device, without a context on it.

        Raises DeviceUnavailable, CompilationFailed.
        """
        plan = self.plan
        self._compiled = compiled_module(
            plan.source, headers(plan.templates), architecture(self.store.device), plan.program
        )

    def stage(self) -> None:
        """Compute on the host what :meth:`allocate` uploads of the graph and of tables."""
        self.store.stage(self.plan.buffers)

    def pack(self) -> None:
        """Pack on the host the ids that :meth:`allocate` uploads packed."""
        self.store.pack(self.plan.buffers)

    def load(self) -> None:
        """Load the module that :meth:`compile` made. Raises DeviceUnavailable."""
        import cupy

        assert self._compiled is not None, "compile() comes first"
        device, plan = open_device(self.store.device), self.plan
        module = cupy.cuda.function.Module()
        module.load(self._compiled.code)
        self.attributes: Mapping[str, int] = device.attributes
        self.functions = {name: module.get_function(name) for name in self.function_names()}
        for kernel in plan.kernels:
            needed = plan.shared_of(kernel)
            if needed:  # together with what the kernel declares this may exceed the default 48 KiB
                allow_shared_memory(self.functions[kernel.name], needed)

    def function_names(self) -> Iterable[str]:
        """Return the names of the functions of the module that are launched."""
        plan = self.plan
        tests = (name_of_test(kernel) for kernel in plan.kernels if plan.windows.decides(kernel))
        return ("end_of_superstep", *(kernel.name for kernel in plan.kernels), *tests, *plan.windows.functions)

    def buffers(self) -> Iterable[CudaBuffer]:
        """Return the buffers to allocate, after kernels are loaded; by default those of the plan."""
        return self.plan.buffers

    def allocate(self) -> None:
        """Allocate the buffers; what the store lacks of the graph and of tables is uploaded. Raises MemoryError."""
        import cupy

        plan = self.plan
        require_memory(self.store.device_bytes(plan.buffers) + plan.windows.nbytes + plan.prefix.nbytes)
        self.memory = DeviceMemory(self.plan, self.store)
        self.store.attach()
        self.memory.allocate(self.buffers())
        self.state = RunState(self.plan.extension.names)
        multiprocessors = int(self.attributes["MultiProcessorCount"])
        launcher = Launcher(
            self.plan, self.ranges, self.functions, self.memory.arrays, self.state.array, multiprocessors,
            self.replayer(self.memory.arrays),
        )  # fmt: skip
        self.stream = cupy.cuda.Stream(non_blocking=True)
        past = cupy.zeros((USUAL_SUPERSTEPS, PAST_FIELDS), np.int64)
        self._final = pinned(len(self.state.array))
        self._record = pinned(past.size).reshape(past.shape)
        self.current = CudaRun(launcher, self.state, self.stream, past)

    def replayer(self, arrays: Mapping[str, Any]) -> Replayer:
        """Return what prepares the calls of a superstep; by default what the place of the edges has for that.

        Raises MemoryError.
        """
        return self.store.edges.replayer(self.plan, self.store, self.functions, arrays)

    @property
    def run_in_progress(self) -> CudaRun:
        """The run that :meth:`reset` began."""
        assert self.current is not None, "allocate() comes first"
        return self.current

    @property
    def arrays(self) -> dict[str, Any]:
        """The arrays on the device by name."""
        assert self.memory is not None, "allocate() comes first"
        return self.memory.arrays

    def reset(self, inputs: Inputs, state: Mapping[str, NDArray[np.generic]]) -> None:
        """Set the whole state to the start of a run: all vertices are dirty and active."""
        assert self.memory is not None, "allocate() comes first"
        run = self.run_in_progress
        self.memory.reset(inputs, state)
        run.launcher.place.refresh(inputs)
        tracking, sides = self.plan.tracking, len(self.plan.sides)
        for group in tracking.propagating() if tracking.change_driven else ():
            # the first superstep compares with the previous values; a side may move before it sends
            if tracking.moved_before(group) or sides > 1:
                self._all_propagated(group)
        # at first all sources are active, of each side if sides alternate
        frontier = np.zeros((MOST_GROUPS, 2), np.int64)
        frontier[:, :sides] = self.store.graph.num_edges + 1
        run.observer = self.observer(everything=True)
        fields = run.observer.fields() if run.observer else {}
        self.state.set(frontier, **{**start_fields(self.plan, self.store.graph, state), **fields})
        run.done, run.settled = 0, False
        senders = None if state else self.first_senders.of(inputs)
        self._everything = senders is None
        if senders is not None:
            self._send_from(senders)
            self.state.set(self._frontier(senders), active=len(self._numbers_of(senders)), rebuilding=0)
        self.store.edges.keep()
        run.launcher.place.transferred()  # nothing of the run before counts
        self.wait()

    def observer(self, *, everything: bool) -> Observer | None:
        """Return the host's part of the plan's extension in a run; ``everything``: all sources are active at first."""
        return self.plan.extension.observer(self.state, everything=everything)

    @staticmethod
    def wait() -> None:
        """Wait until the device is set: the stream of a run does not wait for writes of the host."""
        import cupy

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
        arrays, plan, run = self.arrays, self.plan, self.run_in_progress
        self._everything = False
        self._senders = None  # the caller may have changed the array
        for buffer in plan.buffers:
            if buffer.holds is Holds.DIRTY:
                arrays[buffer.name][: len(stale)].set(stale)
        self._send_from(senders)
        run.observer = self.observer(everything=False)
        fields = run.observer.fields() if run.observer else {}
        active = int(np.count_nonzero(stale | senders))
        self.state.set(self._frontier(senders), active=active, rebuilding=0, **fields)
        self.wait()

    def _send_from(self, senders: NDArray[np.bool_]) -> None:
        """Make ``senders`` active and no others; everything has been propagated, nothing reduced yet."""
        import cupy

        arrays, plan = self.arrays, self.plan
        numbers = self._numbers_of(senders)
        few = len(numbers) <= FEW_SENDERS * len(senders)
        for buffer in plan.buffers:
            if buffer.holds is Holds.ACTIVE and few:
                arrays[buffer.name].fill(False)
                arrays[buffer.name][cupy.asarray(numbers)] = True
            elif buffer.holds is Holds.ACTIVE:
                arrays[buffer.name][: len(senders)].set(senders)
        for group in plan.tracking.propagating():
            self._all_propagated(group)
            for stage in group.edge_stages:
                if f"vertex_{stage.into}" in arrays:
                    arrays[f"vertex_{stage.into}"].fill(IDENTITY[stage.reducer])

    def _numbers_of(self, senders: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return the numbers of ``senders``, int64, sorted; those of the latest array are kept."""
        if self._senders is None or self._senders[0] is not senders:
            self._senders = senders, np.flatnonzero(senders)
        return self._senders[1]

    def _frontier(self, senders: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return the edges of active sources, of all propagating groups, for the first superstep of each side."""
        frontier = np.zeros((MOST_GROUPS, 2), np.int64)
        numbers, offsets = self._numbers_of(senders), self.store.graph.csr.offsets
        edges = int((offsets[numbers + 1] - offsets[numbers]).sum())
        frontier[: len(self.plan.tracking.propagating()), : len(self.plan.sides)] = edges
        return frontier

    def run(self, max_supersteps: int) -> RunStatistics:
        """Run until settled or for ``max_supersteps`` more supersteps.

        The loop queues supersteps ahead, and the device decides whether the run has settled.
        """
        run = self.run_in_progress
        statistics = RunStatistics(settled=run.settled)
        run.launches, wanted = 0, run.done + max_supersteps
        if run.settled or max_supersteps < 1:
            return statistics
        while run.done < wanted and not run.settled:
            statistics.supersteps += self._run_part(wanted - run.done)
        statistics.settled = run.settled
        statistics.transfers = run.launcher.place.transferred()
        return statistics

    def _run_part(self, left: int) -> list[Superstep]:
        """Run until settled or for at most MOST_SUPERSTEPS of the ``left`` supersteps; return their statistics."""
        run, most = self.run_in_progress, min(left, MOST_SUPERSTEPS)
        first, wanted = run.done, run.done + most
        with self.stream:
            self._extend_past(most)
            if not first:
                self.store.edges.fetch(self.stream.ptr)
            self.state.begin(limit=wanted, first=first)
            run.launcher.place.begin(left, everything=self._everything and not first)
            self.loop(run, first, wanted)
            # the copies follow the kernels, so that the host queues them while these run
            record = self._record[: min(most, USUAL_SUPERSTEPS)]
            news = self.state.queue_copy(self._final)
            run.past[: len(record)].get(out=record, blocking=False)
            self.stream.synchronize()
            if run.observer:
                run.observer.update(news.fields(), news.field("superstep"))
                self.stream.synchronize()  # before other code writes to the state
        run.done, run.settled = news.field("superstep"), bool(news.field("settled"))
        done = run.done - first
        taken = record[:done] if done <= len(record) else run.past[:done].get()
        return self.supersteps_of(taken.tolist(), first)

    def _extend_past(self, supersteps: int) -> None:
        """Replace the array of records if it is too short for this many supersteps."""
        import cupy

        run = self.run_in_progress
        if len(run.past) < supersteps:
            run.past = cupy.zeros((supersteps, PAST_FIELDS), np.int64)

    def supersteps_of(self, records: list[list[int]], first: int) -> list[Superstep]:
        """Return the statistics of supersteps from their records; ``first``: the number of the first of them."""
        return [self.superstep_of(active, edges, dense) for active, edges, dense, *_ in records]

    def superstep_of(self, active: int, edges: int, dense: int) -> Superstep:
        """Return the statistics of a superstep from its record."""
        return Superstep(active, edges, self.plan.extension.dense if dense else self.plan.direction)

    def values(self, name: str, index: NDArray[np.integer[Any]] | None = None) -> NDArray[np.generic]:
        """Return a property without padding, or some rows of it."""
        assert self.memory is not None, "allocate() comes first"
        array_of = self._array_of()
        return self.memory.values(name, array_of) if index is None else self.memory.rows(name, array_of, index)

    def device_values(self, name: str) -> Any:
        """Return a property without padding, as a new array on the device."""
        assert self.memory is not None, "allocate() comes first"
        return self.memory.device_values(name, self._array_of())

    def _array_of(self) -> dict[str, str]:
        """Return the array that has the values of each array whose buffers are swapped now."""
        plan = self.plan
        swapped = turned(plan.launches) if self.run_in_progress.done % 2 else set()
        counted = [buffer for buffer in plan.buffers if buffer.flips]
        swapped |= {buffer.name for buffer in counted if int(self.arrays[buffer.flips][0]) % 2}
        return {array: plan.ping_pong[array] for array in swapped}

    def close(self) -> None:
        """Release the arrays of the executor, and those of the store unless others use them; also after a failure."""
        if self.current is not None:
            self.current.launcher.close()
            self.current.past = None
        if self.memory is not None:
            self.memory.arrays.clear()
            self.memory = None
            self.store.detach()
            free_memory()
