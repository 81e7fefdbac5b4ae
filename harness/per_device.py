"""An engine for several kinds of devices: one schedule, one engine class per kind."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from harness.contract import Device, Engine, No, Phases, Yes
from harness.forwarding import Forwarding

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from harness.graph import Graph
    from harness.language import Inputs, Program
    from harness.transactions import Behaviour


class PerDevice(Forwarding, Engine):
    """Delegate every call to the engine class of the requested device.

    A subclass sets ``engines``: the class for each kind of device, as ``"package.module:Class"``. A class is imported
    when its kind is first requested. With the option ``panel`` of the schedule, the engine runs behind a
    :class:`harness.panels.engine.PanelEngine`.
    """

    engines: ClassVar[Mapping[str, str]]

    def __init__(self, schedule: Any) -> None:
        super().__init__(schedule)
        self._made: dict[str, Engine] = {}

    def on(self, device: Device) -> Engine:
        """Return the engine for a kind of device; create it on first use."""
        if device.kind not in self._made:
            module, _, name = self.class_for(device.kind).partition(":")
            self._made[device.kind] = self._new(getattr(importlib.import_module(module), name))
        return self._made[device.kind]

    def _new(self, engine: Callable[[Any], Engine]) -> Engine:
        """Return a new engine of a class, which runs in panels of features if the schedule says so."""
        if getattr(self.schedule, "panel", None) is None:
            return engine(self.schedule)
        from harness.panels.engine import PanelEngine

        return PanelEngine(self.schedule, engine(replace(self.schedule, panel=None)))

    def class_for(self, kind: str) -> str:
        """Return the engine class for a kind of device, as text."""
        return self.engines[kind]

    def engine_for(self, program: Program, graph: Graph, features: int, device: Device) -> Engine:
        """Return the engine for a problem: that of the device, unless a subclass chooses by the problem."""
        return self.on(device)

    def supports(self, program: Program, graph: Graph, features: int, device: Device) -> Yes | No:
        """Return the answer of the device's engine, or No for a device kind without an engine."""
        if device.kind not in self.engines:
            return No(f"this engine has no {device.kind} code; it runs on: {', '.join(self.engines)}")
        return self.engine_for(program, graph, features, device).supports(program, graph, features, device)

    def build(self, program: Program, graph: Graph, features: int, device: Device, phases: Phases) -> None:
        """Build what the engine of the device can without it."""
        self.engine_for(program, graph, features, device).build(program, graph, features, device, phases)

    def prepare(self, program: Program, graph: Graph, features: int, device: Device, phases: Phases) -> None:
        """Prepare the engine of the device; later calls go to that engine."""
        self._prepared = self.engine_for(program, graph, features, device)
        self._prepared.prepare(program, graph, features, device, phases)
        self.deterministic, self.stepwise = self._prepared.deterministic, self._prepared.stepwise

    def generate(self, program: Program, graph: Graph, features: int, device: Device) -> None:
        """Generate code with the engine of the device; later calls go to that engine."""
        self._prepared = self.engine_for(program, graph, features, device)
        self._prepared.generate(program, graph, features, device)

    def reset(self, inputs: Inputs, state: Mapping[str, NDArray[np.generic]] | None = None) -> None:
        """Reset the prepared engine."""
        self.prepared.reset(inputs, state)

    def explain(self) -> str:
        """Describe the schedule and the generated code of the prepared engine."""
        return self.prepared.explain()

    def resolved_options(self) -> Mapping[str, Any]:
        """Return the options that the engine of the device resolved."""
        return self.prepared.resolved_options()

    def memory_model(self, program: Program, graph: Graph, features: int, inputs: Inputs) -> Behaviour | No:
        """Return the memory model of the CUDA engine, for a run on any device."""
        if "cuda" not in self.engines:
            return super().memory_model(program, graph, features, inputs)
        return self.on(Device("cuda")).memory_model(program, graph, features, inputs)

    def close(self) -> None:
        """Close every engine that was created."""
        for engine in self._made.values():
            engine.close()
