from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import numpy as np

from harness.graph import Graph, GraphError
from harness.language import Algorithm, Inputs, InvalidInput, K, minimum, normalize


class Spread(Algorithm):
    """x(v) = normalised sum of weight * x(u) over in-edges and the start; ten supersteps."""

    name: ClassVar[str] = "fake_spread"
    scale: float = 1.0
    most_features: int = 64

    def build(self, p):
        p.edge("weight")
        p.vertex("start", K)
        p.vertex("x", K, start="start")

        @p.over_edges(into="total", reduce="sum")
        def gather(src, edge):
            return edge.weight * src.x * self.scale

        @p.over_vertices
        def settle(v):
            return {"x": normalize(v.total + v.start)}

        p.repeat(10)
        p.output("x", bound=1e-4)

    def inputs(self, graph, features):
        if features > self.most_features:
            raise InvalidInput(
                f"{features} features are more than {self.most_features}; say features={self.most_features}"
            )
        start = np.random.default_rng(3).random((graph.num_vertices, features), np.float32)
        return Inputs({"start": start}, self.parameter_values())

    def default_features(self, graph):
        return 3 if "ring" in graph.name else None

    def metrics(self, graph, values):
        return {"accuracy": float(values["x"].mean())}

    def artefacts(self, graph, values, folder):
        (Path(folder) / "picture.txt").write_text("a picture")


class Phases(Algorithm):
    """The distances from vertex 0, then two supersteps of their sums over in-edges."""

    name: ClassVar[str] = "fake_phases"

    def build(self, p):
        p.vertex("far", K)
        p.vertex("level", K, start="far")
        p.over_edges(into="nearest", reduce="min")(lambda src: src.level + 1.0)
        p.over_vertices(lambda v: {"level": minimum(v.level, v.nearest)})
        p.until_settled(at_most=50)
        p.output("level", bound=0.0)
        p.then()
        p.vertex("x", K, start="level")
        p.over_edges(into="total", reduce="sum")(lambda src: 0.5 * src.x)
        p.over_vertices(lambda v: {"x": v.total + v.level})
        p.repeat(2)
        p.output("x", bound=1e-5)

    def inputs(self, graph, features):
        far = np.full((graph.num_vertices, features), np.inf, np.float32)
        far[0] = 0
        return Inputs({"far": far})

    def metrics(self, graph, values):
        return {"farthest": float(values["level"].max()), "most": float(values["x"].max())}


def ring(vertices):
    u = np.arange(vertices)
    return Graph.from_edges(u, (u + 1) % vertices, weights=np.ones(vertices, np.float32), name="ring")


def path(vertices):
    u = np.arange(vertices - 1)
    return Graph.from_edges(u, u + 1, num_vertices=vertices, weights=np.ones(vertices - 1, np.float32), name="path")


def from_file(path):
    if not Path(path).is_file():
        raise GraphError(f"{path}: there is no such file; say graph.path=FILE")
    raise GraphError(f"{path}, line 1: this is no graph")


def gated(log, gate):
    """Append the name of the gate to the log, then wait until something is written to the gate, a FIFO."""
    with Path(log).open("a") as file:
        file.write(f"{Path(gate).name}\n")
    Path(gate).read_text()
    return ring(12)
