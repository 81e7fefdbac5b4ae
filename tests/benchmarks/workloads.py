"""Workloads of the benchmarks: graphs, algorithms and prepared engines."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from functools import cache
from typing import Any, ClassVar

import numpy as np

from harness.contract import Device, Engine, EngineFailure, Phases, ScheduleError, Yes, schedule_from_options
from harness.graph import Graph, open_graph
from harness.graph.generators import grid
from harness.language import Algorithm, Expression, Inputs, K, ProgramBuilder, Reader, normalize, trace
from harness.plugins import load_plugins

FEATURES = (1, 4, 8, 32, 128)


class Aggregation(Algorithm):
    """One weighted aggregation with normalisation per superstep: ``x(v) = normalize(sum of w(u, v) x(u))``."""

    name: ClassVar[str] = "aggregation"

    tolerance: float = 0.0
    supersteps: int = 1000

    def build(self, p: ProgramBuilder) -> None:
        p.edge("weight")
        p.vertex("start", K)
        p.vertex("x", K, start="start")

        @p.over_edges(into="aggr", reduce="sum")
        def gather(src: Reader, edge: Reader) -> Expression:
            return edge.weight * src.x

        @p.over_vertices
        def scale(v: Reader) -> dict[str, Expression]:
            return {"x": normalize(v.aggr)}

        p.repeat(self.supersteps)
        p.output("x", bound=1e-4)

    def inputs(self, graph: Graph, features: int) -> Inputs:
        draws = np.random.default_rng(0).random((graph.num_vertices, features), np.float32)
        return Inputs({"start": draws}, self.parameter_values())


@cache
def rmat(scale: int = 18) -> Graph:
    """Return the R-MAT graph of the figures: 2^scale vertices, edge factor 16, random weights."""
    graph = open_graph("harness.graph.catalogue:rmat", {"scale": scale, "edge_factor": 16, "seed": 1})
    weights = np.random.default_rng(0).random(graph.num_edges, np.float32) + np.float32(0.1)
    return graph.with_weights(weights)


@cache
def picture(side: int) -> Graph:
    """Return a photograph of noise, ``side`` times ``side`` pixels."""
    lattice = grid(rows=side, columns=side, removed=0.0)
    colour = np.random.default_rng(0).random((lattice.num_vertices, 3), np.float32)
    return Graph.from_edges(
        lattice.csr.row_of_edge, lattice.csr.neighbours, num_vertices=lattice.num_vertices, name="picture",
        directed=False, vertex_data={"colour": colour}, meta={"height": side, "width": side},
    )  # fmt: skip


def new_engine(name: str, **options: Any) -> Engine:
    """Return an engine under a schedule."""
    spec = load_plugins().engine(name)
    module, _, attribute = spec.factory.partition(":")
    engine: Engine = getattr(importlib.import_module(module), attribute)(schedule_from_options(spec, options))
    return engine


def ready(
    engine: tuple[str, Mapping[str, Any]], algorithm: Algorithm, graph: Graph, features: int, device: Device
) -> Engine | str:
    """Return an engine that is prepared for an algorithm, or the reason why there is none.

    ``engine``: its name and the options of its schedule.
    """
    name, options = engine
    program = trace(algorithm)
    try:
        made = new_engine(name, **options)
        answer = made.supports(program, graph, features, device)
        if not isinstance(answer, Yes):
            return answer.reason
        made.prepare(program, graph, features, device, Phases())
    except (ScheduleError, EngineFailure) as error:
        return str(error)
    return made


def prepared(name: str, algorithm: Algorithm, graph: Graph, features: int, threads: int, **options: Any) -> Engine:
    """Return an engine, ready to run the algorithm; its ``restart`` sets everything to the initial state."""
    engine = new_engine(name, **options)
    program, device = trace(algorithm), Device(threads=threads)
    answer = engine.supports(program, graph, features, device)
    assert not hasattr(answer, "reason"), answer
    engine.prepare(program, graph, features, device, Phases())
    inputs = algorithm.inputs(graph, features)
    engine.restart = lambda: engine.reset(inputs)  # type: ignore[attr-defined]
    engine.restart()
    return engine
