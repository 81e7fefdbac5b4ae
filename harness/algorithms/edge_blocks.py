"""Edges in blocks whose arrays stay in the cache of a core, since the large graphs have 10^8 of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from harness.language.segments import segment_reduce

if TYPE_CHECKING:
    from harness.graph import Graph

_AT_ONCE = 1 << 15  # edges


def edge_blocks(graph: Graph) -> Iterator[tuple[slice, NDArray[Any], NDArray[Any]]]:
    """Yield slices of the edges in CSR order, each with its sources ``[n]`` and destinations ``[n]``."""
    offsets, neighbours = graph.csr.offsets, graph.csr.neighbours
    for first in range(0, graph.num_edges, _AT_ONCE):
        last = min(first + _AT_ONCE, graph.num_edges)
        begin, end = (int(np.searchsorted(offsets, edge, side="right")) for edge in (first, last - 1))
        vertices = np.arange(begin - 1, end, dtype=neighbours.dtype)
        bounds = np.clip(offsets[begin - 1 : end + 1], first, last)
        counts = bounds[1:] - bounds[:-1]
        yield slice(first, last), np.repeat(vertices, counts), neighbours[first:last]


def over_roots_of_totals(graph: Graph, values: NDArray[np.floating[Any]]) -> NDArray[np.float32]:
    """Return w(u, v) / sqrt(sum_v' w(u, v') sum_u' w(u', v)) for ``values`` w >= 0, float32[E]; 0 where w is 0."""
    totals = (
        segment_reduce(values, graph.csr.offsets, "sum"),
        np.bincount(graph.csr.neighbours, values, graph.num_vertices),
    )
    out, into = (1 / np.sqrt(np.where(total > 0, total, np.inf)) for total in totals)
    result = np.empty(graph.num_edges, np.float32)
    for part, sources, destinations in edge_blocks(graph):
        result[part] = values[part] * (out[sources] * into[destinations])
    return result
