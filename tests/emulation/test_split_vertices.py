"""Ranges that end within the edges of a vertex, emulated; the answers are known by hand."""

from __future__ import annotations

import numpy as np

from harness.graph import Graph
from harness.language import Inputs, trace
from tests.engines.test_cuda import algorithms, prepared


def test_a_vertex_continues_in_the_next_ranges(emulated):
    """On merge paths blocks take 1,024 vertices and edges: those of the hub fill several ranges."""
    hub, leaves = 1, np.arange(2, 2602)
    sources, destinations = np.r_[0, np.full(len(leaves), hub)], np.r_[hub, leaves]
    graph = Graph.from_edges(sources, destinations, num_vertices=2602, name="hub")
    program = trace(algorithms()["bfs"])
    engine = prepared("gunrock-merge-path", program, graph, 1, emulated)
    engine.reset(Inputs({"source": np.where(np.arange(2602) == 0, 0.0, np.inf).astype(np.float32)[:, None]}, {}))
    engine.run(program.max_supersteps)
    np.testing.assert_array_equal(engine.values("level").ravel(), [0, 1, *[2] * len(leaves)])
