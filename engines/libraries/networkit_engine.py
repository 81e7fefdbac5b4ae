"""NetworKit as an engine: its BFS, Dijkstra, components, cores and PageRank."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from engines.libraries.library_engine import UNDIRECTED, Case, LibraryEngine, columns, least_labels, lengths
from engines.libraries.solving import Array, Reader
from harness.api import Device, Graph, Unsupported
from harness.api.library import Recognised

UNREACHED = 1e300  # NetworKit has the largest float64 there


class NetworkitEngine(LibraryEngine):
    """NetworKit's algorithms in C++; those that are parallel use the threads of the device."""

    library = "NetworKit"
    bytes_per_edge = 48
    network: Any

    def refused(self, problem: Recognised, graph: Graph, features: int) -> str:
        """Refuse personalised PageRank."""
        if problem.kind == "pagerank" and features > 1:
            return "NetworKit's PageRank takes no teleport vector: one feature, uniform, is all that it finds"
        return ""

    def load(self, device: Device) -> None:
        """Import NetworKit and set its threads."""
        import networkit

        networkit.setNumberOfThreads(device.threads)
        self.nk = networkit

    def convert(self, graph: Graph, kind: str) -> None:
        """Make NetworKit's graph, undirected with each edge once if the problem requires it."""
        source, destination = graph.csr.row_of_edge.astype(np.int64), graph.csr.neighbours.astype(np.int64)
        undirected = kind in UNDIRECTED
        kept = source <= destination if undirected else np.ones(len(source), np.bool_)
        edges = (lengths(graph)[kept], (source[kept], destination[kept]))
        self.network = self.nk.GraphFromCoo(
            edges, n=graph.num_vertices, weighted=kind == "sssp", directed=not undirected
        )

    def sources_in_parallel(self, case: Case) -> Reader:
        """Run SPSP: the sources are divided among the threads."""
        found = self.nk.distance.SPSP(self.network, case.sources.tolist()).run()
        return lambda: _reached(np.array(found.getDistances()).T)

    def one_by_one(self, case: Case) -> Reader:
        """Run BFS or Dijkstra for one source after the other."""
        algorithm = self.nk.distance.Dijkstra if case.kind == "sssp" else self.nk.distance.BFS
        found = [algorithm(self.network, source, False).run() for source in case.sources.tolist()]
        return lambda: _reached(columns([one.getDistances() for one in found]))

    def components(self, case: Case) -> Reader:
        """Run ConnectedComponents, on one thread."""
        found = self.nk.components.ConnectedComponents(self.network).run()
        return lambda: least_labels(found.getPartition().getVector(), case.own)

    def parallel_components(self, case: Case) -> Reader:
        """Run ParallelConnectedComponents."""
        found = self.nk.components.ParallelConnectedComponents(self.network).run()
        return lambda: least_labels(found.getPartition().getVector(), case.own)

    def cores(self, case: Case) -> Reader:
        """Run CoreDecomposition, which finds the core number of every vertex."""
        found = self.nk.centrality.CoreDecomposition(self.network).run()
        return lambda: np.asarray(found.scores()) >= case.core

    def pagerank(self, case: Case) -> Reader:
        """Run PageRank until the L1 norm of the movement is within the tolerance."""
        if not np.allclose(case.teleport, 1 / case.graph.num_vertices, rtol=1e-6, atol=0):
            raise Unsupported("NetworKit's PageRank takes no teleport vector, and this one is not uniform")
        centrality = self.nk.centrality
        sinks = centrality.SinkHandling.DistributeSinks
        algorithm = centrality.PageRank(self.network, case.alpha, case.tolerance, distributeSinks=sinks)
        algorithm.norm = centrality.Norm.L1_NORM
        found = algorithm.run()
        return lambda: np.asarray(found.scores())[:, None] * case.totals

    ways: ClassVar = {
        "bfs": {"spsp": sources_in_parallel, "one_by_one": one_by_one},
        "sssp": {"spsp": sources_in_parallel, "one_by_one": one_by_one},
        "components": {"components": components, "parallel_components": parallel_components},
        "kcore": {"cores": cores},
        "pagerank": {"pagerank": pagerank},
    }


def _reached(distance: Array) -> Array:
    return np.where(distance > UNREACHED, np.inf, distance)
