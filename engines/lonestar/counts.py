"""Facts of graphs and runs that the engines of all devices need."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from harness.api import Graph


def leads_to_columns(graph: Graph) -> bool:
    """Return whether the graph is bipartite and all edges lead from its left to its right side."""
    return graph.bipartite is not None and int(graph.csr.offsets[graph.bipartite[0]]) == graph.num_edges


def lost_share(degrees: NDArray[Any], counters: NDArray[Any]) -> float:
    """Return the share of updates of rows that were lost in a superstep, from counts taken without locks as rows are.

    ``degrees``, ``counters``: int [V], the edges at each vertex and those that it counted.
    """
    updates = int(degrees.sum())
    return float((degrees - counters).sum() / updates) if updates else 0.0
