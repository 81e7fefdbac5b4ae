"""scikit-network as an engine: BFS, components, cores and PageRank on SciPy's sparse matrices; one thread.

Of its PageRank solvers two give the program's vectors. *RH* is a polynomial of a fixed degree, normalised at the end,
which gives vertices without out-edges their right place. *piteration* is the power iteration; it loses the rank of such
vertices, so it is left out where there are any. Left out everywhere: bicgstab stops at SciPy's own relative residual
whatever tolerance is given, and the threads of diteration race (vectors off by 0.5 on an R-MAT graph of 128 vertices).
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from engines.libraries.library_engine import Case, LibraryEngine, columns, least_labels, matrix_of
from engines.libraries.solving import Reader
from harness.api import Device, Graph
from harness.api.library import Recognised

MOST_PRODUCTS = 10_000


class ScikitNetworkEngine(LibraryEngine):
    """scikit-network's functions, one call for each feature."""

    library = "scikit-network"
    bytes_per_edge = 32
    network: Any

    def refused(self, problem: Recognised, graph: Graph, features: int) -> str:
        """Refuse a graph without edges, which these functions take for a mistake."""
        empty = not graph.num_edges and problem.kind in ("components", "pagerank")
        return f"scikit-network's {problem.kind} needs a graph with edges" if empty else ""

    def load(self, device: Device) -> None:
        """Import scikit-network."""
        import sknetwork.path
        import sknetwork.ranking
        import sknetwork.topology

        self.sknetwork = sknetwork

    def convert(self, graph: Graph, kind: str) -> None:
        """Make the adjacency matrix."""
        self.network = matrix_of(graph, kind)

    def usable(self, way: str, case: Case) -> bool:
        """Leave out the power iteration where it would lose rank."""
        return way != "piteration" or bool((case.graph.out_degrees > 0).all())

    def distances(self, case: Case) -> Reader:
        """Call get_distances for each source."""
        found = [self.sknetwork.path.get_distances(self.network, source=source) for source in case.sources.tolist()]
        return lambda: columns([np.where(one < 0, np.inf, one) for one in found])

    def components(self, case: Case) -> Reader:
        """Call get_connected_components."""
        found = self.sknetwork.topology.get_connected_components(self.network)
        return lambda: least_labels(found, case.own)

    def cores(self, case: Case) -> Reader:
        """Call get_core_decomposition, which finds the core number of every vertex."""
        found = self.sknetwork.topology.get_core_decomposition(self.network)
        return lambda: np.asarray(found) >= case.core

    def horner(self, case: Case) -> Reader:
        """Run the solver RH to the degree after which the rest of the series is within the tolerance."""
        return self._ranks(case, "RH", math.ceil(math.log(min(case.tolerance, 0.5)) / math.log(case.alpha)))

    def piteration(self, case: Case) -> Reader:
        """Run the power iteration until the L1 norm of the movement is within the tolerance."""
        return self._ranks(case, "piteration", MOST_PRODUCTS)

    def _ranks(self, case: Case, solver: str, iterations: int) -> Reader:
        rank = self.sknetwork.ranking.PageRank(case.alpha, solver, n_iter=iterations, tol=case.tolerance)
        found = [rank.fit_predict(self.network, weights=teleport) for teleport in case.teleport.T]
        return lambda: columns(found) * case.totals

    ways: ClassVar = {
        "bfs": {"distances": distances},
        "components": {"components": components},
        "kcore": {"cores": cores},
        "pagerank": {"RH": horner, "piteration": piteration},
    }
