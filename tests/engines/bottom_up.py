"""Programs of paths whose pulls read only what may improve a vertex, and problems for them."""

from __future__ import annotations

import numpy as np

from harness.language import Inputs, K, maximum, minimum, trace
from tests.engines.programs import traced
from tests.engines.test_cuda import algorithms


def bottleneck(p, _):
    """Keep the widest path from a source: a maximum, of minima of what edges carry."""
    p.edge("weight")
    p.vertex("source", K)
    p.vertex("width", K, start="source")

    @p.over_edges(into="widest", reduce="max")
    def carry(src, edge):
        return minimum(src.width, edge.weight)

    @p.over_vertices
    def settle(v):
        return {"width": maximum(v.width, v.widest)}

    p.until_settled(at_most=1000)
    p.output("width", bound=0.0)


def decay(p, _):
    """Halve values on every edge, nine times at most. Some are below zero, and improve on the way."""
    p.vertex("source", K)
    p.vertex("value", K, start="source")

    @p.over_edges(into="halved", reduce="max")
    def halve(src):
        return src.value * 0.5

    @p.over_vertices
    def settle(v):
        return {"value": maximum(v.value, v.halved)}

    p.until_settled(at_most=9)
    p.output("value", bound=1e-6)


def problem(name, graph, features, seed=0):
    """Return a program, its graph and its inputs, by the name of an algorithm or of a function above."""
    if name in ("bfs", "sssp", "components"):
        algorithm = algorithms()[name]
        graph = algorithm.prepare_graph(graph)
        return trace(algorithm), graph, algorithm.inputs(graph, features)
    rng = np.random.default_rng(seed)
    source = np.full((graph.num_vertices, features), -np.inf, np.float32)
    at = rng.integers(0, graph.num_vertices, features)
    source[at, np.arange(features)] = np.inf if name == "bottleneck" else rng.uniform(-9, 9, features)
    return traced(globals()[name], name), graph, Inputs({"source": source})
