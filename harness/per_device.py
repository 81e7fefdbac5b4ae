"""An engine that runs on several kinds of devices: one schedule, and a class for each kind."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from harness.contract import Device, Engine, No, Phases, RunStatistics, Yes

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from harness.graph import Graph
    from harness.language import Inputs, Program
    from harness.transactions import Behaviour


class PerDevice(Engine):
    """Hands everything to the engine of the device that it is asked for.

    A subclass sets ``engines``: the class for each kind of device, as ``"package.module:Class"``, imported only when
    that kind is asked for.
    """

    engines: ClassVar[Mapping[str, str]]

    def __init__(self, schedule: Any) -> None:
        super().__init__(schedule)
        self._made: dict[str, Engine] = {}
        self._prepared: Engine | None = None

    def on(self, device: Device) -> Engine:
        """The engine for a kind of device, made when that is first asked for."""
        if device.kind not in self._made:
            module, _, name = self.engines[device.kind].partition(":")
            self._made[device.kind] = getattr(importlib.import_module(module), name)(self.schedule)
        return self._made[device.kind]

    def supports(self, program: Program, graph: Graph, features: int, device: Device) -> Yes | No:
        """What the engine of the device answers."""
        if device.kind not in self.engines:
            return No(f"this engine has no {device.kind} code; it runs on: {', '.join(self.engines)}")
        return self.on(device).supports(program, graph, features, device)

    def prepare(self, program: Program, graph: Graph, features: int, device: Device, phases: Phases) -> None:
        """Prepare the engine of the device, to which everything goes from then on."""
        self._prepared = self.on(device)
        self._prepared.prepare(program, graph, features, device, phases)
        self.deterministic = self._prepared.deterministic

    def generate(self, program: Program, graph: Graph, features: int, device: Device) -> None:
        """Have the engine of the device generate what it would run."""
        self._prepared = self.on(device)
        self._prepared.generate(program, graph, features, device)

    @property
    def prepared(self) -> Engine:
        """The engine that was prepared, or that generated code."""
        assert self._prepared is not None, "prepare() comes first"
        return self._prepared

    def reset(self, inputs: Inputs, state: Mapping[str, NDArray[np.generic]] | None = None) -> None:
        """Everything to its start."""
        self.prepared.reset(inputs, state)

    def narrow(self, stale: NDArray[np.bool_], senders: NDArray[np.bool_]) -> None:
        """Begin with what is stale, where the engine can."""
        self.prepared.narrow(stale, senders)

    def run(self, max_supersteps: int) -> RunStatistics:
        """Run on."""
        return self.prepared.run(max_supersteps)

    def values(self, name: str) -> NDArray[np.generic]:
        """A property."""
        return self.prepared.values(name)

    def explain(self) -> str:
        """What was generated."""
        return self.prepared.explain()

    def memory_model(self, program: Program, graph: Graph, features: int) -> Behaviour | No:
        """What the engine of a GPU tells, on whatever device the run is."""
        if "cuda" not in self.engines:
            return super().memory_model(program, graph, features)
        return self.on(Device("cuda")).memory_model(program, graph, features)

    def close(self) -> None:
        """Release what was made."""
        for engine in self._made.values():
            engine.close()
