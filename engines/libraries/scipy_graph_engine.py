"""SciPy's graph routines as an engine: ``scipy.sparse.csgraph``; one thread."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy.sparse import csgraph

from engines.libraries.library_engine import Case, LibraryEngine, columns, least_labels, matrix_of
from engines.libraries.solving import Array, Reader
from harness.api import Device, Graph


class ScipyGraphEngine(LibraryEngine):
    """SciPy's functions of csgraph."""

    library = "scipy.sparse.csgraph"
    bytes_per_edge = 32
    network: Any

    def load(self, device: Device) -> None:
        """Do nothing: SciPy is a requirement of the harness and has no number of threads."""

    def convert(self, graph: Graph, kind: str) -> None:
        """Make the adjacency matrix."""
        self.network = matrix_of(graph, kind)

    def dijkstra(self, case: Case) -> Reader:
        """Call dijkstra for all sources."""
        found = csgraph.dijkstra(self.network, indices=case.sources, unweighted=case.kind == "bfs")
        return lambda: found.T

    def breadth_first(self, case: Case) -> Reader:
        """Call breadth_first_order for each source, and derive levels from the predecessors."""
        found = columns([_levels(self.network, source) for source in case.sources.tolist()])
        return lambda: found

    def components(self, case: Case) -> Reader:
        """Call connected_components."""
        _, found = csgraph.connected_components(self.network, directed=False)
        return lambda: least_labels(found, case.own)

    ways: ClassVar = {
        "bfs": {"breadth_first_order": breadth_first, "dijkstra": dijkstra},
        "sssp": {"dijkstra": dijkstra},
        "components": {"components": components},
    }


def _levels(matrix: Any, source: int) -> Array:
    """Return levels ``[V]``. Parents stand in the order of their levels, so each level is one stretch of the order."""
    order, parent = csgraph.breadth_first_order(matrix, source)
    position = np.empty(matrix.shape[0], np.int64)
    position[order] = np.arange(len(order))
    above = position[parent[order[1:]]]
    level = np.full(matrix.shape[0], np.inf)
    first, last, depth = 0, 1, 0
    while first < last:
        level[order[first:last]] = depth
        first, last, depth = last, 1 + int(np.searchsorted(above, last)), depth + 1
    return level
