"""Graphs with self-loops, parallel edges, isolated vertices, separate parts and a hub; and dense matrices of graphs."""

from __future__ import annotations

import numpy as np
import scipy.sparse
from hypothesis import strategies as st

from harness.graph import Graph


@st.composite
def multigraphs(draw, max_vertices=14, max_edges=40):
    """Draw random edges in two parts, with a hub in the first and isolated vertices at the end; lengths are
    multiples of 1/8, some 0."""
    part = draw(st.integers(1, max_vertices // 2))
    first, second = st.integers(0, part - 1), st.integers(part, 2 * part - 1)
    pairs = draw(st.lists(st.tuples(first, first) | st.tuples(second, second), max_size=max_edges))
    if draw(st.booleans()):
        pairs += [pair for leaf in range(part) for pair in ((0, leaf), (leaf, 0))]  # its self-loop twice
    pairs += pairs[: draw(st.integers(0, len(pairs)))]  # parallel edges
    ends = np.array(pairs, np.int64).reshape(-1, 2)
    eighths = np.random.default_rng(draw(st.integers(0, 99))).integers(0, 24, len(ends))
    return Graph.from_edges(
        ends[:, 0], ends[:, 1], num_vertices=2 * part + draw(st.integers(0, 3)), weights=eighths.astype(np.float32) / 8,
        name="drawn", duplicates="keep",
    )  # fmt: skip


def adjacency_of(graph, values=None):
    """Return the dense float64 matrix with the sum of ``values`` (by default 1) over the edges u -> v at (u, v)."""
    values = np.ones(graph.num_edges) if values is None else np.asarray(values, np.float64)
    shape = (graph.num_vertices, graph.num_vertices)
    return scipy.sparse.coo_array((values, (graph.csr.row_of_edge, graph.csr.neighbours)), shape=shape).toarray()


def shortest_lengths(graph, lengths):
    """Return ``[V, V]``: the smallest length of the edges u -> v, infinity if there is none."""
    least = np.full((graph.num_vertices, graph.num_vertices), np.inf)
    np.minimum.at(least, (graph.csr.row_of_edge, graph.csr.neighbours), np.asarray(lengths, np.float64))
    return least
