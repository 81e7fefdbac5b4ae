"""The engine contract on the CPU: every answer is read from one plan."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numba
import numpy as np
from numpy.typing import NDArray

from harness.contract import Device, Engine, EngineFailure, No, Phases, RunStatistics, Yes, options_of, schedule_text
from harness.device.cpu_cache import own_cache_bytes
from harness.facts import DeviceFacts, GraphFacts
from harness.graph import Graph
from harness.language import Inputs, Program
from harness.lowering.cpu.executor import CpuExecutor
from harness.lowering.cpu.host_store import HostStore
from harness.lowering.cpu.plan import CpuPlan
from harness.lowering.cpu.policy import DEFAULT, CpuPolicy


def usable_threads(device: Device) -> int:
    """Return the threads of a device, at most those of Numba."""
    return min(device.threads, int(numba.config.NUMBA_NUM_THREADS))  # type: ignore[attr-defined]


class CpuEngine(Engine):
    """A schedule on the CPU. A subclass defines :meth:`plan`, a pure function of facts.

    ``runs``: the constants by which change-driven runs choose how to work; plans receive them. ``executor_type``: runs
    the plans.
    """

    deterministic = True  # parts and their order depend only on the number of threads; there are no atomic operations
    runs: CpuPolicy = DEFAULT
    executor_type: ClassVar[type[CpuExecutor]] = CpuExecutor
    planned: CpuPlan | None = None
    _executor: CpuExecutor | None = None

    @abstractmethod
    def plan(self, program: Program, graph: GraphFacts, features: int, device: DeviceFacts) -> CpuPlan | No:
        """Return the plan of a traced program, or the reason why it cannot run. Nothing else changes."""

    def plan_on(self, program: Program, graph: Graph, features: int, device: Device) -> CpuPlan | No:
        """Return the plan for the threads of a device, at most those of Numba."""
        if device.kind != "cpu":
            return No(f"this engine has no {device.kind} code yet")
        return self.plan(program, graph.facts, features, self.facts_of(device))

    def facts_of(self, device: Device) -> DeviceFacts:
        """Return the facts of a device that plans depend on."""
        return DeviceFacts("cpu", usable_threads(device), cache_bytes=own_cache_bytes())

    def supports(self, program: Program, graph: Graph, features: int, device: Device) -> Yes | No:
        """Return whether the program can run under this schedule on this graph."""
        plan = self.plan_on(program, graph, features, device)
        return plan if isinstance(plan, No) else Yes(plan.bytes_needed)

    def generate(self, program: Program, graph: Graph, features: int, device: Device) -> None:
        """Plan; nothing is compiled. Raises EngineFailure if the program is refused."""
        plan = self.plan_on(program, graph, features, device)
        if isinstance(plan, No):
            raise EngineFailure(plan.reason)
        self.planned = plan

    def prepare(self, program: Program, graph: Graph, features: int, device: Device, phases: Phases) -> None:
        """Plan, compute tables from the graph, compile, and allocate. Raises EngineFailure for a refused program."""
        with phases("lower"):
            self.generate(program, graph, features, device)
        assert self.planned is not None
        numba.set_num_threads(self.planned.rules.threads)
        self._executor = self.executor_type(self.planned, self._store(graph), phases)

    def _store(self, graph: Graph) -> HostStore:
        assert self.planned is not None
        return HostStore.of(graph, self.planned.place, packed=self.planned.windows.packed)

    @property
    def executor(self) -> CpuExecutor:
        """The executor that :meth:`prepare` made."""
        assert self._executor is not None, "prepare() comes first"
        return self._executor

    def reset(self, inputs: Inputs, state: Mapping[str, NDArray[np.generic]] | None = None) -> None:
        """Set the whole state to the start of a run."""
        self.executor.reset(inputs, state or {})

    def narrow(self, stale: NDArray[np.bool_], senders: NDArray[np.bool_]) -> None:
        """Begin with the stale vertices, or with the senders, if the plan allows it."""
        self.executor.narrow(stale, senders)

    def run(self, max_supersteps: int) -> RunStatistics:
        """Run until settled or for ``max_supersteps`` more supersteps."""
        return self.executor.run(max_supersteps)

    def values(self, name: str) -> NDArray[np.generic]:
        """Return a property without padding."""
        return self.executor.values(name)

    def explain(self) -> str:
        """Return the schedule, the kernels, the fast paths that were missed and why, and the generated source."""
        assert self.planned is not None, "prepare() or generate() comes first"
        return f"{schedule_text(self, f', {self.planned.rules.threads} threads')}\n{self.planned.text}"

    def resolved_options(self) -> Mapping[str, Any]:
        """Return the options under which the program was planned."""
        assert self.planned is not None, "prepare() or generate() comes first"
        return options_of(self.planned.schedule)

    def close(self) -> None:
        """Drop the executor with all arrays and tables; :meth:`prepare` need not have been called."""
        self._executor = None
