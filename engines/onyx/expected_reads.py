"""The share of the edges from which a bottom-up pull replaces a push, by the edges that it is expected to read.

A search moves vertices from one level to the next. A bottom-up pull reads the in-edges of a vertex until it has found,
for every feature, a source that has just moved. Let sources with a share ``s`` of the edges have moved, each in one of
k features, and take the sources of edges to be random. After i edges a feature has found none with the probability
``(1 - s / k)^i``. The expected number of edges read is the sum, over i, of the number of vertices with more than i
in-edges, times the probability that some feature has found none after i edges.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from harness.api.directions import message_bound

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from harness.api import GraphFacts, Program

HALVINGS = 20  # of the interval in which the share is searched


def searches(program: Program) -> bool:
    """Return whether all sources that move at once send messages that are as good: they read no inputs but differ from
    the value of their source, as levels do."""
    bound = message_bound(program)
    return not isinstance(bound, str) and not bound.inputs and bound.message.op != "read"


def expected_reads(graph: GraphFacts, features: int, share: float) -> float:
    """Return the expected edges that a bottom-up pull reads if sources with this share of the edges have moved."""
    more = _more_edges_than(graph)
    missing = np.power(1.0 - share / features, np.arange(len(more)))
    return float(more @ -np.expm1(features * np.log1p(-np.minimum(missing, 1 - 1e-12))))


def share_of_pulls(program: Program, graph: GraphFacts, features: int, edge: float, vertex: float) -> float:
    """Return the share of the edges from which a bottom-up pull takes less time than a push.

    ``edge``, ``vertex``: the times of an edge that it reads and of a vertex that it visits, over that of a pushed edge.
    It is expected to visit all vertices and, in a program that does not search by levels, to read all edges.
    """
    if searches(program):
        return _share_of_search(graph, features, edge, vertex)
    return round(min(1.0, edge + vertex * graph.num_vertices / max(1, graph.num_edges)), 4)


@lru_cache(maxsize=256)
def _share_of_search(graph: GraphFacts, features: int, edge: float, vertex: float) -> float:
    """Return the share at which the time of a push equals that of a pull that reads the expected edges."""
    low, high = 0.0, 1.0
    for _ in range(HALVINGS):
        share = (low + high) / 2
        pulled = edge * expected_reads(graph, features, share) + vertex * graph.num_vertices
        low, high = (low, share) if share * graph.num_edges >= pulled else (share, high)
    return round(high, 4)


def _more_edges_than(graph: GraphFacts) -> NDArray[np.float64]:
    """Return the number of vertices with more than 0, 1, 2, ... in-edges; of a graph without counts, by the average."""
    counts = graph.in_degrees.counts or ((round(graph.average_degree), graph.num_vertices),)
    vertices = np.zeros(counts[-1][0] + 1)
    for degree, number in counts:
        vertices[degree] += number
    return np.cumsum(vertices[::-1])[::-1][1:]
