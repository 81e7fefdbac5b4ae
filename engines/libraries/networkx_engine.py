"""networkx as an engine: paths, components, cores and PageRank; one thread, and all but PageRank in Python."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from engines.libraries.library_engine import SOURCED, Case, LibraryEngine, columns, least_labels, matrix_of
from engines.libraries.solving import Array, Reader
from harness.api import Device, EngineFailure, Graph

MOST_ITERATIONS = 10_000


class NetworkxEngine(LibraryEngine):
    """networkx's functions, one call for each feature."""

    library = "networkx"
    bytes_per_edge = 500  # measured: a dictionary entry and a dictionary of attributes in either direction
    network: Any

    def load(self, device: Device) -> None:
        """Import networkx."""
        import networkx as nx

        self.nx = nx

    def convert(self, graph: Graph, kind: str) -> None:
        """Make networkx's graph, with lengths, or with the number of parallel edges, as weights."""
        adjacency = matrix_of(graph, kind).tocoo()
        directed = kind in (*SOURCED, "pagerank")
        self.network = self.nx.DiGraph() if directed else self.nx.Graph()
        self.network.add_nodes_from(range(graph.num_vertices))
        ends = adjacency.row.tolist(), adjacency.col.tolist()
        if kind in ("sssp", "pagerank"):
            self.network.add_weighted_edges_from(zip(*ends, adjacency.data.tolist(), strict=True))
        else:
            self.network.add_edges_from(zip(*ends, strict=True))

    def levels(self, case: Case) -> Reader:
        """Call single_source_shortest_path_length for each source."""
        find = self.nx.single_source_shortest_path_length
        found = [dict(find(self.network, source)) for source in case.sources.tolist()]
        return lambda: _from_dicts(found, case.graph.num_vertices)

    def dijkstra(self, case: Case) -> Reader:
        """Call single_source_dijkstra_path_length for each source."""
        find = self.nx.single_source_dijkstra_path_length
        found = [find(self.network, source) for source in case.sources.tolist()]
        return lambda: _from_dicts(found, case.graph.num_vertices)

    def components(self, case: Case) -> Reader:
        """Call connected_components."""
        found = list(self.nx.connected_components(self.network))
        return lambda: least_labels(_membership(found, case.graph.num_vertices), case.own)

    def core(self, case: Case) -> Reader:
        """Call k_core."""
        found = list(self.nx.k_core(self.network, case.core))
        return lambda: np.isin(np.arange(case.graph.num_vertices), found)

    def pagerank(self, case: Case) -> Reader:
        """Call pagerank, from the teleport vector, until the L1 norm of the movement is within the tolerance."""
        count = case.graph.num_vertices
        found = []
        for column in case.teleport.T:
            teleport = dict(enumerate(column.tolist()))
            try:
                ranks = self.nx.pagerank(
                    self.network, case.alpha, personalization=teleport, nstart=teleport, max_iter=MOST_ITERATIONS,
                    tol=case.tolerance / count,  # networkx multiplies it by the number of vertices
                )  # fmt: skip
            except self.nx.PowerIterationFailedConvergence as error:
                raise EngineFailure(f"networkx: {error}") from error
            found.append(ranks)
        return lambda: columns([list(ranks.values()) for ranks in found]) * case.totals

    ways: ClassVar = {
        "bfs": {"levels": levels},
        "sssp": {"dijkstra": dijkstra},
        "components": {"components": components},
        "kcore": {"k_core": core},
        "pagerank": {"pagerank": pagerank},
    }


def _from_dicts(found: list[dict[int, float]], count: int) -> Array:
    distance = np.full((count, len(found)), np.inf)
    for column, one in enumerate(found):
        distance[list(one), column] = list(one.values())
    return distance


def _membership(found: list[set[int]], count: int) -> Array:
    component = np.empty(count, np.int64)
    for number, members in enumerate(found):
        component[list(members)] = number
    return component
