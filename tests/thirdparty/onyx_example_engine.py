"""The example engine: pull over in-edges with NumPy, one block of destinations at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.api import (
    Device,
    EdgeReduce,
    Engine,
    Evaluator,
    Graph,
    GraphReduce,
    Inputs,
    No,
    Phases,
    Program,
    RunStatistics,
    Settling,
    Superstep,
    VertexStep,
    Yes,
    initial_values,
    segment_reduce,
    watched,
)  # fmt: skip

Array = NDArray[Any]
REDUCERS = ("sum", "min", "max")


class ExampleEngine(Engine):
    """Runs programs of edge sums, minima and maxima and of vertex steps; all vertices in every superstep."""

    deterministic = True

    def supports(self, program: Program, graph: Graph, features: int, device: Device) -> Yes | No:
        if program.names_vertices:
            return No("this engine reads no vertices that values name")
        if not all(isinstance(stage, (EdgeReduce, VertexStep, GraphReduce)) for stage in program.stages):
            return No("this engine updates no edge properties")
        if any(stage.reducer not in REDUCERS for stage in program.stages if not isinstance(stage, VertexStep)):
            return No("this engine reduces by sum, min and max only")
        if program.control.alternate:
            return No("this engine does not alternate between sides")
        return Yes(bytes_needed=4 * graph.num_edges * features)

    def prepare(self, program: Program, graph: Graph, features: int, device: Device, phases: Phases) -> None:
        self.program, self.graph, self.features = program, graph, features
        with phases("transform"):
            self.destinations = np.repeat(np.arange(graph.num_vertices), graph.in_degrees)
            self.positions = graph.csc.edge_ids
            self.bounds = np.linspace(0, graph.num_vertices, self.schedule.blocks + 1).astype(int)

    def reset(self, inputs: Inputs, state: Mapping[str, Array] | None = None) -> None:
        self.parameters = {**self.program.parameters, **inputs.parameters}
        self.value = initial_values(self.program, self.graph, self.features, inputs, state or {}, np.float32)
        self.settling = Settling(self.program, self.parameters)

    def run(self, max_supersteps: int) -> RunStatistics:
        done = RunStatistics(settled=self.settling.settled)
        while len(done.supersteps) < max_supersteps and not done.settled:
            before = {name: self.value[name] for _, name in watched(self.program)}
            edges = 0
            for stage in self.program.stages:
                edges += self._stage(stage)
            done.supersteps.append(Superstep(self.graph.num_vertices, edges, "pull"))
            done.settled = self.settling.after(before, self.value)
        return done

    def values(self, name: str) -> Array:
        return self.value[name].copy()

    def close(self) -> None:
        self.value = {}

    def _stage(self, stage: EdgeReduce | VertexStep | GraphReduce) -> int:
        """Run one stage; return the edges visited."""
        if isinstance(stage, VertexStep):
            evaluate = Evaluator(lambda _, name: self.value[name], self.parameters, self.features, np.float32)
            new = {
                name: np.broadcast_to(a := evaluate(e), (self.graph.num_vertices, *a.shape[1:]))
                for name, e in stage.values
            }
            self.value |= new
            return 0
        if isinstance(stage, GraphReduce):
            evaluate = Evaluator(lambda _, name: self.value[name], self.parameters, self.features, np.float32)
            rows = evaluate(stage.value)
            rows = np.broadcast_to(rows, (self.graph.num_vertices, *rows.shape[1:]))
            self.value[stage.into] = _reduced(rows, np.array([0, len(rows)]), stage.reducer)
            return 0
        parts = [self._pull(stage, first, last) for first, last in zip(self.bounds, self.bounds[1:], strict=False)]
        self.value[stage.into] = np.concatenate(parts)
        return self.graph.num_edges

    def _pull(self, stage: EdgeReduce, first: int, last: int) -> Array:
        offsets = self.graph.csc.offsets
        edges = slice(offsets[first], offsets[last])
        index = {
            "src": self.graph.csc.neighbours[edges],
            "dst": self.destinations[edges],
            "edge": self.positions[edges],
        }

        def read(space: str, name: str) -> Array:
            return self.value[name] if space == "graph" else self.value[name][index[space]]

        messages = Evaluator(read, self.parameters, self.features, np.float32)(stage.message)
        messages = np.broadcast_to(messages, (edges.stop - edges.start, *messages.shape[1:]))
        return _reduced(messages, offsets[first : last + 1] - edges.start, stage.reducer)


def _reduced(rows: Array, offsets: Array, reducer: Any) -> Array:
    """Reduce runs of rows, float32; sums are accumulated in float64, because a float32 sum of many rows loses
    digits."""
    return segment_reduce(rows, offsets, reducer).astype(np.float32)
