"""The engine contract on CUDA devices: every answer is read from one plan."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from harness.contract import (
    Device,
    Engine,
    EngineFailure,
    No,
    Operations,
    Phases,
    RunStatistics,
    Yes,
    options_of,
    schedule_text,
)
from harness.facts import DeviceFacts
from harness.language import Inputs, Program
from harness.lowering.cuda.device_store import DeviceStore
from harness.lowering.cuda.executor import CudaExecutor
from harness.lowering.cuda.memory_model import behaviour_of, countable
from harness.lowering.cuda.plan import CudaPlan

if TYPE_CHECKING:
    from harness.facts import GraphFacts
    from harness.graph import Graph
    from harness.transactions import Behaviour

CUDA = DeviceFacts("cuda")


class CudaEngine(Engine):
    """A schedule on a CUDA device. A subclass defines :meth:`plan`, a pure function of facts, and what plans refer to.

    ``planned``: the plan that :meth:`prepare` or :meth:`generate` has made. ``executor_type``: runs it.
    """

    executor_type: ClassVar[type[CudaExecutor]] = CudaExecutor
    planned: CudaPlan
    _executor: CudaExecutor | None = None
    _built: tuple[Program, Graph, int, Device] | None = None  # for the next :meth:`prepare`

    # for subclasses ---------------------------------------------------------------------------------------------------
    @abstractmethod
    def plan(self, program: Program, graph: GraphFacts, features: int, device: DeviceFacts = CUDA) -> CudaPlan | No:
        """Return the plan of a program, or why it cannot run; it depends on the schedule and the arguments only."""

    # without a device -------------------------------------------------------------------------------------------------
    def supports(self, program: Program, graph: Graph, features: int, device: Device) -> Yes | No:
        """Return whether the program can run under this schedule on this graph."""
        plan = self.plan(program, graph.facts, features)
        return plan if isinstance(plan, No) else Yes(plan.bytes_needed, plan.host_bytes)

    def generate(self, program: Program, graph: Graph, features: int, device: Device) -> None:
        """Plan, without a device. Raises EngineFailure if the program cannot run."""
        plan = self.plan(program, graph.facts, features)
        if isinstance(plan, No):
            raise EngineFailure(plan.reason)
        self.planned = plan

    def explain(self) -> str:
        """Return the schedule, the mapping, the kernels and the generated source."""
        plan = self.planned
        lanes = f"groups of {plan.lane_group.lanes} lanes, {plan.lane_group.width} features at once"
        lines = [schedule_text(self, f", {lanes}, {plan.threads} threads a block")]
        lines += [f"kernel {stages[0]}: {', '.join(stages)}" for stages in plan.groups]
        pinned = f"{plan.host_bytes:,} bytes of page-locked host memory, " if plan.host_bytes else ""
        lines.append(f"edge arrays {plan.place.value}: {pinned}{plan.bytes_needed:,} bytes on the device")
        if plan.windows.packed:
            bound = f"at most {plan.windows.packed_bytes:,} bytes of them"
            lines.append(f"packed, and unpacked on the device: {', '.join(plan.windows.packed)}, {bound}")
        if plan.prefix.edges:
            cached = f"{plan.prefix.edges:,} of {plan.facts.num_edges:,} edges, {plan.prefix.nbytes:,} bytes"
            lines.append(f"cached on the device: the first {cached}")
        if plan.extension.explanation:
            lines.append(plan.extension.explanation)
        return "\n".join(lines) + f"\n\n{plan.source}"

    def resolved_options(self) -> Mapping[str, Any]:
        """Return the options under which the program was planned."""
        return options_of(self.planned.schedule)

    def memory_model(self, program: Program, graph: Graph, features: int, inputs: Inputs) -> Behaviour | No:
        """Return the memory transactions of the first superstep, counted on the emulated device."""
        plan = self.plan(program, graph.facts, features)
        steps = plan if isinstance(plan, No) else countable(plan)
        if isinstance(steps, No):
            return steps
        try:
            return behaviour_of(self.executor_type(steps, DeviceStore(graph)), inputs)
        except MemoryError as error:
            return No(f"the memory model runs kernels in the memory of the host: {error}")

    # on a device ------------------------------------------------------------------------------------------------------
    def build(self, program: Program, graph: Graph, features: int, device: Device, phases: Phases) -> None:
        """Plan, compute the tables of the graph, compile. Raises DeviceUnavailable, CompilationFailed, EngineFailure.

        No context is created on the device.
        """
        with phases("lower"):
            self.generate(program, graph, features, device)
        with phases("transform"):
            self._executor = self.executor_type(self.planned, self._store(graph, device))
            self._executor.stage()
        if self.planned.windows.packed:
            with phases("pack_ids"):
                self._executor.pack()
        with phases("compile"):
            self._executor.compile()
        self._built = program, graph, features, device

    def _store(self, graph: Graph, device: Device) -> DeviceStore:
        plan = self.planned
        return DeviceStore.of(graph, plan.place, device.index, plan.advice, packed=bool(plan.windows.packed))

    def prepare(self, program: Program, graph: Graph, features: int, device: Device, phases: Phases) -> None:
        """Build, load the kernels, upload. Raises DeviceUnavailable, CompilationFailed, MemoryError, EngineFailure."""
        built, self._built = self._built, None
        same = built is not None and built[0] is program and built[1] is graph and built[2:] == (features, device)
        if not same:
            self.build(program, graph, features, device, phases)
            self._built = None
        with phases("load"):
            self.executor.load()
        with phases("upload"):
            self.executor.allocate()

    @property
    def executor(self) -> CudaExecutor:
        """The executor that :meth:`prepare` made."""
        assert self._executor is not None, "prepare() comes first"
        return self._executor

    def reset(self, inputs: Inputs, state: Mapping[str, NDArray[np.generic]] | None = None) -> None:
        """Set the whole state to the start of a run."""
        self.executor.reset(inputs, state or {})

    def run(self, max_supersteps: int) -> RunStatistics:
        """Run until settled or for ``max_supersteps`` more supersteps."""
        return self.executor.run(max_supersteps)

    def operations(self, statistics: RunStatistics) -> Operations:
        """Return the kernels that the latest run launched, and the atomic additions of its visited edges."""
        plan = self.executor.plan
        adds = plan.adds_per_visit * statistics.edges
        return Operations(self.executor.run_in_progress.launches, adds, plan.lane_group.width > 1)

    def values(self, name: str) -> NDArray[np.generic]:
        """Return a property without padding."""
        return self.executor.values(name)

    def rows(self, name: str, index: NDArray[np.integer[Any]]) -> NDArray[np.generic]:
        """Return some rows of a property without padding; only these are downloaded."""
        return self.executor.values(name, index)

    def device_values(self, name: str) -> Any:
        """Return a property without padding, as a new CuPy array."""
        return self.executor.device_values(name)

    def close(self) -> None:
        """Release the device's memory, except for what executors of other engines share."""
        executor, self._executor, self._built = self._executor, None, None
        if executor is not None:
            executor.close()
