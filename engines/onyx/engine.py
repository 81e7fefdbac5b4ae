"""The Onyx engine: one schedule, with a separate engine for each kind of device and each order of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from engines.onyx.order_choice import OrderChoice, chosen_order
from engines.onyx.policy import DEFAULT
from engines.onyx.schedule import ADAPTIVE, NEAR_FAR, SUPERSTEPS
from harness.api import Device, DeviceFacts, Engine, No, PerDevice, Yes
from harness.api.figures import own_cache_bytes

if TYPE_CHECKING:
    from engines.onyx.schedule import OnyxSchedule
    from harness.api import Graph, Inputs, Phases, Program

_HOOKING = {
    "cpu": "engines.onyx.cpu_hooking:HookingCpuEngine",
    "cuda": "engines.onyx.cuda_hooking:HookingCudaEngine",
}
_NEAR_FAR = {
    "cpu": "harness.lowering.cpu.near_far:NearFarCpuEngine",
    "cuda": "harness.lowering.cuda.near_far:near_far_with_short_lists",
}


class OnyxEngine(PerDevice):
    """Feature-aware, change-driven, folded (thesis ch. 4-6); see :class:`OnyxSchedule` for its options.

    If the schedule leaves the order of a run to the engine, each problem has its own
    (:func:`engines.onyx.order_choice.chosen_order`), and ``stepwise`` is that of the prepared problem.
    """

    engines: ClassVar[dict[str, str]] = {
        "cpu": "engines.onyx.cpu_engine:OnyxCpuEngine",
        "cuda": "engines.onyx.cuda_engine:OnyxCudaEngine",
    }
    policy = DEFAULT
    _choice: OrderChoice | None = None  # of the problem that was prepared or generated

    def __init__(self, schedule: OnyxSchedule) -> None:
        super().__init__(schedule)
        self.tunes = bool(schedule.tune)
        self.stepwise = not schedule.hooking and schedule.solver is None and schedule.order != NEAR_FAR
        self._ordered: dict[str, OnyxEngine] = {}  # by the order that was chosen

    def class_for(self, kind: str) -> str:
        """Return the engine class for a kind of device.

        With ``tune`` it is that of an engine that chooses its plan, with ``hooking`` that of components without
        supersteps, with ``order=near_far`` that of paths in order of priority, and with ``solver`` that of Krylov
        plans, which refuses a GPU.
        """
        if self.schedule.order == NEAR_FAR:
            return _NEAR_FAR[kind]
        if self.schedule.hooking:
            return _HOOKING[kind]
        if self.schedule.solver is not None:
            return "engines.onyx.krylov_engine:KrylovCpuEngine"
        return "engines.onyx.tuning:TunedEngine" if self.tunes else super().class_for(kind)

    def order_of(self, program: Program, graph: Graph, features: int, device: Device) -> OrderChoice | None:
        """Return the order that the schedule leaves to the engine for a problem; None if it does not."""
        facts = DeviceFacts(device.kind)
        if device.kind == "cpu":
            from harness.api.cpu import usable_threads  # loads the compiler

            facts = DeviceFacts(device.kind, usable_threads(device), cache_bytes=own_cache_bytes())
        return chosen_order(self.schedule, program, graph.facts, features, facts, self.policy)

    def engine_for(self, program: Program, graph: Graph, features: int, device: Device) -> Engine:
        """Return the engine for the order of a problem."""
        choice = self.order_of(program, graph, features, device)
        if choice is None:
            return self.on(device)
        if choice.order not in self._ordered:
            self._ordered[choice.order] = OnyxEngine(choice.under(self.schedule))
        return self._ordered[choice.order].on(device)

    def supports(self, program: Program, graph: Graph, features: int, device: Device) -> Yes | No:
        """Return whether the plan of the problem runs, and whether it is stepwise."""
        answer = super().supports(program, graph, features, device)
        if isinstance(answer, No) or self.order_of(program, graph, features, device) is None:
            return answer
        return replace(answer, stepwise=self.engine_for(program, graph, features, device).stepwise)

    def prepare(self, program: Program, graph: Graph, features: int, device: Device, phases: Phases) -> None:
        """Prepare the engine for the order of the problem."""
        self._choice = self.order_of(program, graph, features, device)
        super().prepare(program, graph, features, device, phases)

    def generate(self, program: Program, graph: Graph, features: int, device: Device) -> None:
        """Generate code with the engine for the order of the problem."""
        self._choice = self.order_of(program, graph, features, device)
        super().generate(program, graph, features, device)

    def memory_model(self, program: Program, graph: Graph, features: int, inputs: Inputs) -> Any:
        """Return the behaviour of a superstep, or No; also if ``order=adaptive`` chooses a run without supersteps."""
        choice = None
        if self.schedule.order == ADAPTIVE:
            choice = self.order_of(program, graph, features, Device("cuda"))
        if choice is not None and choice.order != SUPERSTEPS:
            reason = f"memory transactions are counted for a superstep, and order=adaptive chooses {choice.order}"
            return No(f"{reason}; give order=supersteps")
        return super().memory_model(program, graph, features, inputs)

    def resolved_options(self) -> Mapping[str, Any]:
        """Return the options of the engine for the order, with the reason and the estimates if it was chosen."""
        chosen = {} if self._choice is None else self._choice.options()
        return {**super().resolved_options(), **chosen}

    def explain(self) -> str:
        """Describe the engine for the order, and why it was chosen."""
        text = super().explain()
        return text if self._choice is None else f"{self._choice.line}\n{text}"

    def close(self) -> None:
        """Close every engine that was created."""
        super().close()
        for engine in self._ordered.values():
            engine.close()
