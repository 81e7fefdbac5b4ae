"""igraph as an engine: paths, components, cores and PageRank by its C core; one thread."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from engines.libraries.library_engine import SOURCED, Case, LibraryEngine, columns, least_labels, lengths
from engines.libraries.solving import Array, Reader
from harness.api import Device, Graph


class IgraphEngine(LibraryEngine):
    """igraph's methods."""

    library = "igraph"
    bytes_per_edge = 64
    network: Any

    def load(self, device: Device) -> None:
        """Import igraph."""
        import igraph

        self.igraph = igraph

    def convert(self, graph: Graph, kind: str) -> None:
        """Make igraph's graph, undirected with each edge once if the problem requires it."""
        ends = np.stack([graph.csr.row_of_edge, graph.csr.neighbours], axis=1).astype(np.int64)
        directed = kind in (*SOURCED, "pagerank")
        kept = ends if directed else ends[ends[:, 0] <= ends[:, 1]]
        self.network = self.igraph.Graph(n=graph.num_vertices, edges=kept, directed=directed)
        self.lengths = lengths(graph).tolist() if kind == "sssp" else None

    def distances(self, case: Case) -> Reader:
        """Call distances for all sources; Dijkstra's algorithm if edges have lengths."""
        chosen = {"weights": self.lengths, "algorithm": "dijkstra"} if case.kind == "sssp" else {}
        found = self.network.distances(case.sources.tolist(), mode="out", **chosen)
        return lambda: np.array(found, np.float64).T

    def bfs(self, case: Case) -> Reader:
        """Call bfs for each source."""
        found = [self.network.bfs(source, mode="out") for source in case.sources.tolist()]
        return lambda: columns([_levels(order, begins, case.graph.num_vertices) for order, begins, _ in found])

    def components(self, case: Case) -> Reader:
        """Call connected_components."""
        found = self.network.connected_components(mode="weak")
        return lambda: least_labels(np.array(found.membership), case.own)

    def coreness(self, case: Case) -> Reader:
        """Call coreness, which finds the core number of every vertex."""
        found = self.network.coreness()
        return lambda: np.array(found) >= case.core

    def prpack(self, case: Case) -> Reader:
        """Call personalized_pagerank for each vector; PRPACK solves the linear system to 1e-10."""
        solve = self.network.personalized_pagerank
        found = [solve(damping=case.alpha, reset=column, implementation="prpack") for column in case.teleport.T]
        return lambda: columns(found) * case.totals

    ways: ClassVar = {
        "bfs": {"distances": distances, "bfs": bfs},
        "sssp": {"distances": distances},
        "components": {"components": components},
        "kcore": {"coreness": coreness},
        "pagerank": {"prpack": prpack},
    }

    def close(self) -> None:
        """Release the lengths too."""
        super().close()
        self.lengths = None


def _levels(order: list[int], begins: list[int], count: int) -> Array:
    """Return the levels ``[V]`` of vertices in the order of a search; level i begins at ``begins[i]``."""
    level = np.full(count, np.inf)
    sizes = np.diff(begins)
    level[order] = np.repeat(np.arange(len(sizes)), sizes)
    return level
