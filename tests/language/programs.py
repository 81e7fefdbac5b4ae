"""Shared programs, graphs and plain loops of the language tests."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from harness.graph import Graph
from harness.language import Algorithm, Inputs, K, trace, where
from harness.language.reference import ReferenceRun


def program_of(build, *, tolerance=0.0):
    """Return the traced program with the body ``build(p, self)``; ``self.tolerance`` and ``self.rate`` are
    parameters."""
    chosen = tolerance

    class Test(Algorithm):
        name = "test"
        tolerance: float = chosen
        rate: float = 0.5

        def build(self, p):
            build(p, self)

    return trace(Test())


def run(program, graph, features=1, supersteps=1, state=None, **properties):
    """Return the reference after some supersteps."""
    reference = ReferenceRun(program, graph, features)
    reference.reset(Inputs(properties), state)
    reference.run(supersteps)
    return reference


def edges(graph):
    """Return ``(source, destination, CSR position)`` of every edge, as plain ints."""
    return [
        (u, int(graph.csr.neighbours[e]), e)
        for u in range(graph.num_vertices)
        for e in range(graph.csr.offsets[u], graph.csr.offsets[u + 1])
    ]


@st.composite
def graphs(draw, max_vertices=6, max_edges=14, symmetric=False, positive=False):
    """Draw small graphs with self-loops, parallel edges, isolated vertices, no or one vertex; weights are multiples
    of 1/4."""
    vertices = draw(st.integers(1, max_vertices))
    vertex = st.integers(0, vertices - 1)
    pairs = draw(st.lists(st.tuples(vertex, vertex), max_size=max_edges))
    quarters = draw(st.lists(st.integers(1 if positive else -8, 8), min_size=len(pairs), max_size=len(pairs)))
    return Graph.from_edges(
        np.array([u for u, _ in pairs], np.int64), np.array([v for _, v in pairs], np.int64), num_vertices=vertices,
        weights=np.array(quarters, np.float32) / 4, name="drawn", duplicates="keep", symmetrize=symmetric,
    )  # fmt: skip


@st.composite
def bipartite_graphs(draw, max_side=4, max_edges=10):
    """Draw graphs of two sides with every edge in both directions."""
    left, right = draw(st.integers(1, max_side)), draw(st.integers(1, max_side))
    pair = st.tuples(st.integers(0, left - 1), st.integers(left, left + right - 1))
    pairs = draw(st.lists(pair, max_size=max_edges))
    quarters = draw(st.lists(st.integers(1, 8), min_size=len(pairs), max_size=len(pairs)))
    return Graph.from_edges(
        np.array([u for u, _ in pairs], np.int64), np.array([v for _, v in pairs], np.int64),
        num_vertices=left + right, weights=np.array(quarters, np.float32) / 4, name="sided", duplicates="keep",
        symmetrize=True, bipartite=(left, right),
    )  # fmt: skip


def numbers(graph, *shape, seed=0, per="vertex"):
    """Return reproducible float32 values for a property."""
    count = graph.num_vertices if per == "vertex" else graph.num_edges
    return np.random.default_rng(seed).uniform(0.25, 2.0, (count, *shape)).astype(np.float32)


def mean_of_neighbours(p, self):
    p.vertex("given", K)
    p.vertex("x", K, start="given")
    p.over_edges(into="aggr", reduce="sum")(lambda src: src.x)
    p.over_vertices(lambda v: {"x": where(v.in_degree > 0, 0.5 * v.aggr / v.in_degree, v.x)})
    p.until_settled(self.tolerance, at_most=50)
    p.output("x", bound=1.0)


class WeightedWalks(Algorithm):
    """Walks that choose an edge by its share of the weights of their vertex, which is 0 without out-edges."""

    name = "weighted_walks"

    def build(self, p):
        p.edge("weight")
        p.vertex("start", K)
        p.vertex("share", K, start="start")
        p.once.over_edges(into="strength", reduce="sum", along="out")(lambda edge: edge.weight)
        p.over_edges(into="arriving", reduce="sum")(lambda src, edge: edge.weight / src.strength * src.share)
        p.over_vertices(lambda v: {"share": v.arriving})
        p.repeat(3)
        p.output("share", bound=1e-5)

    def prepare_graph(self, graph):
        return graph.both_directions()

    def inputs(self, graph, features):
        return Inputs({"start": np.eye(graph.num_vertices, features, dtype=np.float32)})
