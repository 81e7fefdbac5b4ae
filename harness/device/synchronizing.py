"""Synchronize the device after each engine call, so that asynchronous work is charged to the call that submitted it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from harness.contract import Device, Engine, No, Operations, Phases, RunStatistics, Yes
from harness.device.driver import synchronize

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from harness.graph import Graph
    from harness.language import Inputs, Program


def synchronizing(engine: Engine, device: Device) -> Engine:
    """Return the engine itself on a CPU; on a CUDA device, wrap it so that each call synchronizes the device."""
    return engine if device.kind == "cpu" else Finishing(engine, device.index)


class Finishing(Engine):
    """Synchronize after every call that submits work, so that a failed kernel raises in the call that launched it."""

    def __init__(self, engine: Engine, index: int) -> None:
        super().__init__(engine.schedule)
        self._engine, self._index = engine, index
        self.stepwise, self.tunes = engine.stepwise, engine.tunes

    def supports(self, program: Program, graph: Graph, features: int, device: Device) -> Yes | No:
        """Return the engine's answer."""
        return self._engine.supports(program, graph, features, device)

    def build(self, program: Program, graph: Graph, features: int, device: Device, phases: Phases) -> None:
        """Build what the engine can without the device."""
        self._engine.build(program, graph, features, device, phases)

    def prepare(self, program: Program, graph: Graph, features: int, device: Device, phases: Phases) -> None:
        """Prepare the engine and wait for its uploads."""
        self._engine.prepare(program, graph, features, device, phases)
        self.stepwise = self._engine.stepwise
        synchronize(self._index)

    def generate(self, program: Program, graph: Graph, features: int, device: Device) -> None:
        """Generate what the engine's description needs."""
        self._engine.generate(program, graph, features, device)

    def reset(self, inputs: Inputs, state: Mapping[str, NDArray[np.generic]] | None = None) -> None:
        """Reset the engine and wait, so that no part of the reset runs inside a timed run."""
        self._engine.reset(inputs, state)
        synchronize(self._index)

    def narrow(self, stale: NDArray[np.bool_], senders: NDArray[np.bool_]) -> None:
        """Narrow the engine's first superstep and wait."""
        self._engine.narrow(stale, senders)
        synchronize(self._index)

    def run(self, max_supersteps: int) -> RunStatistics:
        """Run the engine and wait for the device."""
        statistics = self._engine.run(max_supersteps)
        synchronize(self._index)
        return statistics

    def ordered_superstep(self) -> Mapping[str, NDArray[np.integer[Any]] | float]:
        """Run one superstep of the engine, wait for the device, and return its orders of edges."""
        found = self._engine.ordered_superstep()
        synchronize(self._index)
        return found

    def values(self, name: str) -> NDArray[Any]:
        """Return the engine's values of a property."""
        return self._engine.values(name)

    def rows(self, name: str, index: NDArray[np.integer[Any]]) -> NDArray[Any]:
        """Return some rows of the engine's values of a property."""
        return self._engine.rows(name, index)

    def device_values(self, name: str) -> Any:
        """Return the engine's values of a property on the device, after they are copied."""
        found = self._engine.device_values(name)
        synchronize(self._index)
        return found

    def explain(self) -> str:
        """Return the engine's description."""
        return self._engine.explain()

    def resolved_options(self) -> Mapping[str, Any]:
        """Return the engine's resolved options."""
        return self._engine.resolved_options()

    def operations(self, statistics: RunStatistics) -> Operations:
        """Return the operations of the engine's latest run."""
        return self._engine.operations(statistics)

    def close(self) -> None:
        """Close the engine."""
        self._engine.close()
