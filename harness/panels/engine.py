"""An engine behind which another one runs a panel of features at a time.

The features are cut into panels of p features. The engine is prepared for p features, and every run goes through the
panels one after another: reset to the inputs of a panel, run, read the results. So the vertex state on the device is
p/k of the whole, and the edges are read once for every panel. The results are kept on the host.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.contract import (
    Device,
    Engine,
    EngineFailure,
    No,
    Operations,
    Phases,
    RunStatistics,
    Unsupported,
    Yes,
)
from harness.edge_places import AUTO
from harness.language.algorithm import Inputs
from harness.language.independent_features import not_in_panels, row_of_features
from harness.language.initial_state import Start, note_checked, on_device
from harness.panels.panel import Panel, Problem, device_memory, largest_panel, together

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from harness.graph import Graph
    from harness.language.program import Program
    from harness.transactions import Behaviour

    Array = NDArray[Any]
    State = Mapping[str, NDArray[np.generic]]


class PanelEngine(Engine):
    """Run ``engine``, whose schedule has no panel, for ``schedule.panel`` features at a time.

    With *auto* these are as many as fit into the memory of a GPU: ``Device.memory``, or all that it has. The time of a
    run includes whatever moves between host and device for its panels: inputs of each panel, its state if the run
    continues one, and its results. A superstep of the statistics stands for the supersteps of this number of all
    panels: its edges are those of all of them, and its active sources those of the panel that has most. If a panel has
    all features, everything is passed to the engine.
    """

    def __init__(self, schedule: Any, engine: Engine) -> None:
        super().__init__(schedule)
        self.engine, self.stepwise, self.tunes = engine, engine.stepwise, engine.tunes
        self._problem: Problem | None = None
        self._chosen: tuple[tuple[Program, Graph, int, Device], int] | None = None  # the latest choice of a panel
        self._forget()

    def _forget(self) -> None:
        """Drop all arrays of a run."""
        self._inputs, self._state = Inputs(), dict[str, Any]()
        self._kept: dict[str, Array] = {}
        self._narrowed: tuple[NDArray[np.bool_], NDArray[np.bool_]] | None = None
        self._settled: list[bool] = []
        self._done = [Operations()]

    # preparation ------------------------------------------------------------------------------------------------------
    def _width(self, program: Program, graph: Graph, features: int, device: Device) -> int:
        """Return the features of a panel."""
        if self.schedule.panel != AUTO:
            return min(int(self.schedule.panel), features)
        request = program, graph, features, device
        if self._chosen is None or self._chosen[0] != request:
            self._chosen = request, self._fitting(*request)
        return self._chosen[1]

    def _fitting(self, program: Program, graph: Graph, features: int, device: Device) -> int:
        """Return the features of the largest panel that fits the memory of a GPU; all of them if it is not known."""
        memory = device_memory(device)

        def fits(width: int) -> bool:
            answer = self.engine.supports(program, graph, width, device)
            return memory is None or isinstance(answer, No) or answer.bytes_needed <= memory

        return features if fits(features) else largest_panel(features, fits)

    def _refusal(self, program: Program, features: int, device: Device, width: int) -> str:
        """Return why the program cannot run in panels of ``width`` features; empty if it can, or one has all."""
        if self.schedule.panel == AUTO and device.kind != "cuda":
            return "panel=auto chooses by the memory of a GPU; give a number of features on the CPU"
        if width == features:
            return ""
        panel = f"panel={width} of {features} features"
        if self.tunes:
            return f"{panel}: tune=true times plans at a reset, and panels are reset within runs; omit one of them"
        reason = not_in_panels(program)
        return f"{panel}: {reason}" if reason else ""

    def supports(self, program: Program, graph: Graph, features: int, device: Device) -> Yes | No:
        """Return the answer for the features of a panel, with the memory of the host for all; No with the reason if
        features are not independent."""
        width = self._width(program, graph, features, device)
        refused = self._refusal(program, features, device, width)
        if refused:
            return No(refused)
        answer = self.engine.supports(program, graph, width, device)
        if isinstance(answer, No) or width == features:
            return answer
        host = Problem(program, graph, features, width).host_bytes
        if device.kind == "cpu":
            return replace(answer, bytes_needed=answer.bytes_needed + host)
        return replace(answer, host_bytes=answer.host_bytes + host)

    def _pose(self, program: Program, graph: Graph, features: int, device: Device) -> int:
        """Set the problem; return the features of a panel. Raises EngineFailure if it cannot run in panels."""
        width = self._width(program, graph, features, device)
        refused = self._refusal(program, features, device, width)
        if refused:
            raise EngineFailure(refused)
        self._forget()
        self._problem = Problem(program, graph, features, width)
        return width

    def build(self, program: Program, graph: Graph, features: int, device: Device, phases: Phases) -> None:
        """Build for the features of a panel."""
        self.engine.build(program, graph, self._pose(program, graph, features, device), device, phases)

    def prepare(self, program: Program, graph: Graph, features: int, device: Device, phases: Phases) -> None:
        """Prepare for the features of a panel."""
        self.engine.prepare(program, graph, self._pose(program, graph, features, device), device, phases)
        self.deterministic, self.stepwise = self.engine.deterministic, self.engine.stepwise

    def generate(self, program: Program, graph: Graph, features: int, device: Device) -> None:
        """Generate code for the features of a panel."""
        self.engine.generate(program, graph, self._pose(program, graph, features, device), device)

    @property
    def problem(self) -> Problem:
        """The problem that the engine is prepared for."""
        assert self._problem is not None, "prepare() comes first"
        return self._problem

    @property
    def _whole(self) -> bool:
        """True if one panel has all features."""
        return self.problem.width == self.problem.features

    # runs -------------------------------------------------------------------------------------------------------------
    def reset(self, inputs: Inputs, state: State | None = None) -> None:
        """Check and note the inputs and the state; :meth:`run` gives them to the engine panel by panel.

        Raises InvalidInput for an input that does not fit, and Unsupported for one in the memory of a device.
        """
        if self._whole:
            self.engine.reset(inputs, state)
            return
        for name, array in inputs.properties.items():
            if on_device(array):
                raise Unsupported(f"input {name!r} is on the device, and panels are cut on the host; give NumPy arrays")
        start = self._start(inputs, state or {})
        for prop in start.program.properties.values():
            if prop.role == "input" or prop.name in start.state:
                start.of(prop)
        self._forget()
        self._inputs, self._state = inputs, dict(state or {})
        self._settled = [False] * len(self.problem.panels)

    def _start(self, inputs: Inputs, state: State) -> Start:
        return Start(self.problem.program, self.problem.graph, self.problem.features, inputs, state)

    def narrow(self, stale: NDArray[np.bool_], senders: NDArray[np.bool_]) -> None:
        """Begin the first superstep of every panel with these vertices."""
        if self._whole:
            self.engine.narrow(stale, senders)
        else:
            self._narrowed = stale, senders

    def run(self, max_supersteps: int) -> RunStatistics:
        """Run every panel until it has settled or for ``max_supersteps`` more supersteps."""
        if self._whole:
            return self.engine.run(max_supersteps)
        if max_supersteps < 1 and self.stepwise:
            return RunStatistics(all(self._settled))
        found: list[RunStatistics] = []
        without_features: dict[str, Array] = {}
        self._done = []
        for number, panel in enumerate(self.problem.panels):
            if self._settled[number]:
                found.append(RunStatistics(settled=True))
                continue
            self._restore(panel)
            statistics = self.engine.run(max_supersteps)
            self._done.append(self.engine.operations(statistics))
            without_features |= self._keep(panel)
            self._settled[number] = bool(statistics.settled)
            found.append(statistics)
        self._kept |= without_features  # only now: every panel starts from the values before this run
        self._narrowed = None
        self._state = {prop.name: self._kept[prop.name] for prop in self.problem.kept if prop.role == "state"}
        return together(found)

    def _restore(self, panel: Panel) -> None:
        """Reset the engine to the inputs and the present state of a panel."""
        properties = self.problem.program.properties

        def part(name: str, values: Any) -> Array:
            array = np.asarray(values)
            return panel.of(array) if name in properties and row_of_features(properties[name].shape) else array

        given = self._inputs.properties
        inputs = Inputs({name: part(name, one) for name, one in given.items()}, self._inputs.parameters)
        for name, array in inputs.properties.items():
            if array is not given[name]:
                array.flags.writeable = False
        note_checked(self.problem.program, inputs)
        self.engine.reset(inputs, {name: part(name, one) for name, one in self._state.items()} or None)
        if self._narrowed is not None:
            self.engine.narrow(*self._narrowed)

    def _keep(self, panel: Panel) -> dict[str, Array]:
        """Keep the results of a panel; return those that have no features."""
        others = {}
        for prop in self.problem.kept:
            values = self.engine.values(prop.name)
            if not row_of_features(prop.shape):
                others[prop.name] = values
                continue
            if prop.name not in self._kept:
                self._kept[prop.name] = np.empty((*values.shape[:-1], self.problem.features), values.dtype)
            panel.put(self._kept[prop.name], values)
        return others

    # results ----------------------------------------------------------------------------------------------------------
    def _known(self, name: str) -> Array:
        """Return a property on the host. Raises EngineFailure for temporary values that are not outputs."""
        if name in self._kept:
            return self._kept[name]
        start = self._start(self._inputs, self._state)
        prop = start.program.properties[name]
        if prop.role == "temporary" and self._kept:
            raise EngineFailure(f"{name!r} is neither a state nor an output, of which panels keep no values")
        return start.of(prop).astype(np.bool_ if prop.dtype == "bool" else np.float32, copy=False)

    def values(self, name: str) -> NDArray[np.generic]:
        """Return a copy of a property from the host."""
        return self.engine.values(name) if self._whole else np.array(self._known(name))

    def rows(self, name: str, index: NDArray[np.integer[Any]]) -> NDArray[np.generic]:
        """Return some rows of a property from the host."""
        if self._whole:
            return self.engine.rows(name, index)
        found: NDArray[np.generic] = self._known(name)[index]
        return found

    def device_values(self, name: str) -> Any:
        """Return a property on the device; None if there are several panels, whose values are on the host."""
        return self.engine.device_values(name) if self._whole else None

    def operations(self, statistics: RunStatistics) -> Operations:
        """Return the operations of all panels in the latest run."""
        if self._whole:
            return self.engine.operations(statistics)
        launches, adds = sum(one.launches for one in self._done), sum(one.adds for one in self._done)
        return Operations(launches, adds, any(one.wide for one in self._done))

    # descriptions -----------------------------------------------------------------------------------------------------
    def explain(self) -> str:
        """Return the number of panels, and the description of the engine for one of them."""
        if self._whole:
            return self.engine.explain()
        problem = self.problem
        line = (
            f"{problem.features} features in {len(problem.panels)} panels of {problem.width}, one after another, with "
            f"all edges read for each; {problem.host_bytes:,} bytes on the host for results and a panel of inputs"
        )
        return f"{line}\n{self.engine.explain()}"

    def resolved_options(self) -> Mapping[str, Any]:
        """Return the options of the engine, and the features of a panel."""
        return {**self.engine.resolved_options(), "panel": self.problem.width}

    def memory_model(self, program: Program, graph: Graph, features: int, inputs: Inputs) -> Behaviour | No:
        """Return the memory model of the engine if one panel has all features."""
        if self.schedule.panel != AUTO and self.schedule.panel >= features:
            return self.engine.memory_model(program, graph, features, inputs)
        return No("accesses are counted for all features at once; omit panel")

    def close(self) -> None:
        """Close the engine and drop all arrays."""
        self._forget()
        self.engine.close()
