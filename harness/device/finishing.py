"""Engines that have finished when they say so: what a device still has to do belongs to the call that asked for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from harness.contract import Device, Engine, No, Phases, RunStatistics, Yes
from harness.device.driver import synchronize

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from harness.graph import Graph
    from harness.language import Inputs, Program


def finishing(engine: Engine, device: Device) -> Engine:
    """The engine itself on a processor; on a CUDA device, one whose calls return when the device has done its part."""
    return engine if device.kind == "cpu" else Finishing(engine, device.index)


class Finishing(Engine):
    """Waits for the device after every call that gives it work; a kernel that failed is told by the call it is of."""

    def __init__(self, engine: Engine, index: int) -> None:
        super().__init__(engine.schedule)
        self._engine, self._index = engine, index

    def supports(self, program: Program, graph: Graph, features: int, device: Device) -> Yes | No:
        """As the engine says."""
        return self._engine.supports(program, graph, features, device)

    def prepare(self, program: Program, graph: Graph, features: int, device: Device, phases: Phases) -> None:
        """Wait for the last upload, too."""
        self._engine.prepare(program, graph, features, device, phases)
        synchronize(self._index)

    def reset(self, inputs: Inputs, state: Mapping[str, NDArray[np.generic]] | None = None) -> None:
        """Nothing of a reset is left to the run after it."""
        self._engine.reset(inputs, state)
        synchronize(self._index)

    def narrow(self, stale: NDArray[np.bool_], senders: NDArray[np.bool_]) -> None:
        """As a reset."""
        self._engine.narrow(stale, senders)
        synchronize(self._index)

    def run(self, max_supersteps: int) -> RunStatistics:
        """Return when the device has finished."""
        statistics = self._engine.run(max_supersteps)
        synchronize(self._index)
        return statistics

    def values(self, name: str) -> NDArray[Any]:
        """As the engine says."""
        return self._engine.values(name)

    def explain(self) -> str:
        """As the engine says."""
        return self._engine.explain()

    def close(self) -> None:
        """As the engine does."""
        self._engine.close()
