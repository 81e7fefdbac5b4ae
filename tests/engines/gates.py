"""Messages of edges that change and of sources that move, each also without the other: whole numbers, by NumPy."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from harness.contract import Engine
from harness.graph import Graph
from harness.language import Inputs, K, where
from tests.engines.programs import traced

VERTICES, SUPERSTEPS = 60, 12


def gates(p, _):
    """Send values of sources through edges that are open if the source's value, or that of an input, is large."""
    p.vertex("first", K)
    p.edge("held")
    p.edge("gate", K, start=0.0)
    p.vertex("x", K, start="first")
    p.over_edges(updates="gate")(lambda src, edge: where(src.x > edge.held, 1.0, 0.0))
    p.over_edges(into="near", reduce="sum")(lambda src, edge: src.x * edge.gate)
    p.over_vertices(lambda v: {"x": where(v.near > 6.5, 0.0, v.near + 1.0)})
    p.repeat(SUPERSTEPS)
    p.output("x", bound=0.0)
    p.output("gate", bound=0.0)


def graph() -> Graph:
    """Return a graph of few edges with a hub, parallel edges, and vertices without edges."""
    rng = np.random.default_rng(8)
    sources, targets = rng.integers(0, 50, 70), rng.integers(0, 50, 70)
    targets[:12], sources[:3], targets[:3] = 7, 4, 9
    return Graph.from_edges(sources, targets, num_vertices=VERTICES, name="gates", duplicates="keep")


def starts(given: Graph, features: int) -> Iterator[Inputs]:
    """Yield inputs of different runs."""
    rng = np.random.default_rng(features)
    for most in (3, 7, 3):
        first = rng.integers(0, most, (given.num_vertices, features)).astype(np.float32)
        yield Inputs({"first": first, "held": rng.integers(0, 4, given.num_edges).astype(np.float32)}, {})


def expected(given: Graph, inputs: Inputs) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Yield the values of vertices and edges after each superstep."""
    sources = np.repeat(np.arange(given.num_vertices), np.diff(given.csr.offsets))
    targets = given.csr.neighbours.astype(np.int64)
    x, held = inputs.properties["first"].astype(np.float64), inputs.properties["held"][:, None]
    for _ in range(SUPERSTEPS):
        gate = (x[sources] > held).astype(np.float64)
        near = np.zeros(x.shape)
        np.add.at(near, targets, x[sources] * gate)
        x = np.where(near > 6.5, 0.0, near + 1.0)
        yield x, gate


def program():
    """Return the program."""
    return traced(gates, "gates")


def check(engine: Engine, given: Graph, features: int) -> None:
    """Check every superstep of three runs of an engine that is prepared."""
    for inputs in starts(given, features):
        engine.reset(inputs)
        for superstep, (x, gate) in enumerate(expected(given, inputs)):
            engine.run(1)
            np.testing.assert_array_equal(engine.values("x").reshape(x.shape), x, f"after superstep {superstep}")
            np.testing.assert_array_equal(engine.values("gate").reshape(gate.shape), gate, f"edges, {superstep}")
    engine.close()
