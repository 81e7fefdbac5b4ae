"""Execute a plan on the CPU: compiled kernels, arrays, and the loop of supersteps, which can be replaced."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from harness.contract import Phases, RunStatistics, Superstep
from harness.language import Inputs
from harness.lowering.cpu.calls import Calls
from harness.lowering.cpu.compile_beside import compile_beside
from harness.lowering.cpu.edge_places import StreamedEdges
from harness.lowering.cpu.host_store import HostStore
from harness.lowering.cpu.kernels import Kernel
from harness.lowering.cpu.memory import Memory
from harness.lowering.cpu.module_source import compiled
from harness.lowering.cpu.movement import MOVEMENT, Movement
from harness.lowering.cpu.plan import CpuPlan
from harness.lowering.cpu.run import Run, Step
from harness.lowering.cpu.windowed_calls import WindowedCalls
from harness.lowering.first_senders import FirstSenders
from harness.lowering.graph_store import Structure


class Loop(Protocol):
    """The order in which the steps of supersteps run."""

    def __call__(
        self, run: Run, steps: Sequence[Step], movement: Movement | None, max_supersteps: int
    ) -> RunStatistics:
        """Run until settled or for ``max_supersteps`` more supersteps."""


def host_loop(run: Run, steps: Sequence[Step], movement: Movement | None, max_supersteps: int) -> RunStatistics:
    """Run one superstep after the other, and test after each whether the run has settled."""
    statistics = RunStatistics(settled=run.settled)
    for _ in range(0 if statistics.settled else max_supersteps):
        active = run.active
        run.begin_superstep()
        measuring = None if movement is None or (run.counts_movement and movement.counted) else movement
        if measuring:
            measuring.note(run.superstep_index)
        for step in steps:
            step()
        within = measuring is not None and measuring.within(run.superstep_index)
        run.end_superstep()
        statistics.supersteps.append(Superstep(active, run.edges, run.taken, run.choice))
        run.confirming = False
        if within or (run.active == 0 and run.has_settled()):
            run.settled = statistics.settled = True
            break
    return statistics


class CpuExecutor:
    """Runs of one plan on the graph of a store.

    Raises CacheError if compiled modules or edge files cannot be written, and EngineFailure if edge files cannot be
    read.
    """

    def __init__(self, plan: CpuPlan, store: HostStore, phases: Phases, loop: Loop = host_loop) -> None:
        self.plan, self.store, self.loop = plan, store, loop
        with phases("transform"):
            taken = {name for kernel in plan.kernels for name in kernel.arguments}
            parts = [part for part in Structure if not part.of_edges or part.value in taken]
            structure = {part.value: self._structure(part, phases) for part in parts}
            for table in plan.tables:
                structure |= store.named(table)
        with phases("compile"):
            wanted = [*plan.kernels, *([MOVEMENT] if plan.criterion is not None else [])]
            compile_beside(wanted, plan.rules.threads)
            kernels = {kernel: compiled(kernel) for kernel in plan.kernels}
        with phases("upload"):
            self.memory = Memory(plan.program, store.graph, plan.layout, plan.buffers, structure, store.edges)
        with phases("compile"):
            self.movement = self._movement()
        rules = plan.rules
        pushes = rules.change_driven and rules.direction == "push" and rules.accumulators.extrema
        features = plan.layout.features
        self.first_senders = FirstSenders(plan.program, store.graph, features, keeps_extrema=pushes)
        with phases("transform"):
            self.kernel_calls = self._calls(kernels)
            self.run_state = Run(plan.rules, store, self.memory, self.kernel_calls)
            self.steps = [one.bound(self.run_state) for one in plan.passes]

    def _structure(self, part: Structure, phases: Phases) -> NDArray[np.generic]:
        """Return an array of the graph; packing its ids is timed apart."""
        if not (part.of_edges and self.store.packed):
            return self.store.structure(part)
        with phases("pack_ids"):
            return self.store.structure(part)

    def _calls(self, kernels: Mapping[Kernel, Callable[..., int]]) -> Calls:
        rules, edges = self.plan.rules, self.store.edges
        if isinstance(edges, StreamedEdges):
            return WindowedCalls(kernels, self.memory, rules.threads, edges, self.plan.windows, rules.partition)
        return Calls(kernels, self.memory, rules.threads)

    def _movement(self) -> Movement | None:
        plan = self.plan
        if plan.criterion is None:
            return None
        vertices = plan.rules.graph.num_vertices
        return Movement(plan.criterion, plan.program, plan.layout, self.memory, vertices, plan.rules.threads)

    def reset(self, inputs: Inputs, state: Mapping[str, NDArray[np.generic]]) -> None:
        """Set the whole state to the start of a run."""
        self.run_state.reset(inputs, state)
        senders = None if state else self.first_senders.of(inputs)
        if senders is not None:
            self.run_state.begin_with(np.ones_like(senders), senders)
            self.run_state.active = int(np.count_nonzero(senders))

    def narrow(self, stale: NDArray[np.bool_], senders: NDArray[np.bool_]) -> None:
        """Begin with only some vertices if the plan allows it for these: bool[V] each."""
        if self.plan.narrowing is not None:
            self.plan.narrowing.begin(self.run_state, stale, senders)

    def run(self, max_supersteps: int) -> RunStatistics:
        """Run until settled or for ``max_supersteps`` more supersteps."""
        self.kernel_calls.transferred()  # nothing of the run before counts
        statistics = self.loop(self.run_state, self.steps, self.movement, max_supersteps)
        statistics.transfers = self.kernel_calls.transferred()
        return statistics

    def values(self, name: str) -> NDArray[np.generic]:
        """Return a property without padding."""
        return self.memory.values(name)
