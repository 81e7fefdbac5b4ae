"""Multi-manifold ranking."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from harness.algorithms.starting_vertices import starting_vertices
from harness.algorithms.views import VIEWS_HELP, affinities, joined_views, number_of_views
from harness.contract import option
from harness.language import (
    Algorithm,
    Expression,
    Inputs,
    K,
    ProgramBuilder,
    Reader,
    hadamard_inverse,
    where,
)

if TYPE_CHECKING:
    from harness.graph import Graph
    from harness.language.algorithm import FixedPoints, Values

DEFAULT_QUERIES = 10


class ManifoldRanking(Algorithm):
    """Multi-manifold ranking (Wang et al. 2013, after Zhou et al. 2004), as in fig. 2.1(c) of Vaz 2021.

    Feature f ranks all vertices by their similarity to one query on one manifold, a graph whose affinities are column f
    of the vectors w(u, v) on the edges; o is the elementwise product:

        mm(v) = alpha (sum_u w(u, v) o mm(u)) o (sum_u w(u, v))^-1 + (1 - alpha) mm0(v)

    The thesis's text omits the left parenthesis of the inverse, and the last one encloses (1 - alpha) mm0 with the
    inverse. Read literally, a score would grow with the product of the two, without a fixed point at the scale of mm0.
    With the inverse of the sum as the factor, and the query added, the fixed point is Zhou's: (I - alpha P) mm = (1 -
    alpha) mm0. P contains the affinities with every vertex's in-edges divided by their total (Zhou et al. divide by the
    square roots of both ends' totals instead). P is stochastic, so the system has one solution for alpha < 1 and the
    supersteps converge to it. A vertex without in-edges on a manifold keeps its (1 - alpha) mm0. Alpha 0.99 is Zhou's.

    With M ``views`` (:func:`harness.algorithms.views.joined_views`), feature f is query f // M on view f mod M.
    ``queries``: the ceil(k / M) vertices, such as "3 17", or *drawn* with ``seed`` from those with out-edges.

    The bound: a relative error of ``tolerance`` at every source causes tolerance / (1 - alpha) in the scores, once from
    settling and once from values not propagated. Rounding errors occur in every step of a random walk from its query.
    """

    name: ClassVar[str] = "manifold_ranking"

    alpha: float = option(0.99, "share of a score that is taken from the neighbours", within="(0, 1)")
    tolerance: float = option(1e-6, "largest relative change of a score in a settled run", within="[0, inf)")
    supersteps: int = option(2000, "the most supersteps of a run", within="[1, inf)")
    views: str = option("auto", VIEWS_HELP)
    neighbours: int = option(10, "neighbours of an image on a derived view", within="[1, inf)")
    queries: str = option("drawn", 'vertex numbers, such as "3 17", or drawn')
    at: int = option(50, "number of answers that the precision counts", within="[1, inf)")
    seed: int = option(0, "seed of drawn queries and of random views")

    def build(self, p: ProgramBuilder) -> None:
        p.edge("affinity", K)
        p.vertex("query", K)
        p.vertex("mm", K, start="query")

        @p.over_edges(into="waggr", reduce="sum")
        def spread(src: Reader, edge: Reader) -> Expression:
            return edge.affinity * src.mm

        @p.over_edges(into="haggr", reduce="sum")
        def weigh(edge: Reader) -> Expression:
            return edge.affinity

        @p.over_vertices
        def rank(v: Reader) -> dict[str, Expression]:
            mean = where(v.haggr > 0, v.waggr * hadamard_inverse(v.haggr), 0.0)
            return {"mm": self.alpha * mean + (1 - self.alpha) * v.query}

        p.until_settled(self.tolerance, relative=True, at_most=self.supersteps)
        p.output("mm", bound=2 * self.tolerance / (1 - self.alpha) + 2.5e-7 * self.supersteps)

    def fixed_points(self) -> FixedPoints:
        return "one"

    def prepare_graph(self, graph: Graph) -> Graph:
        """Return the graph of the edges of all views."""
        return joined_views(graph, self.views, self.neighbours, self.seed)

    def inputs(self, graph: Graph, features: int) -> Inputs:
        feature = np.arange(features)
        query = np.zeros((graph.num_vertices, features), np.float32)
        query[self._queries(graph, features)[feature // number_of_views(self.views)], feature] = 1.0
        affinity = affinities(graph, self.views, self.seed, feature % number_of_views(self.views))
        return Inputs({"query": query, "affinity": affinity}, self.parameter_values())

    def default_features(self, graph: Graph) -> int | None:
        """Return ten queries on every view if the graph has labels, which rate the answers; otherwise None."""
        return None if graph.labels is None else DEFAULT_QUERIES * number_of_views(self.views)

    def metrics(self, graph: Graph, values: Values) -> dict[str, float]:
        """Return ``precision``: the share of the first ``at`` answers with the query's own label, over all labelled
        queries.

        Answers are ranked by the sum of the views' scores, each scaled to a total of 1; the query itself is excluded.
        """
        scores = np.asarray(values["mm"], np.float64)
        queries = self._queries(graph, scores.shape[1])
        if graph.labels is None or not (known := graph.labels[queries] >= 0).any():
            return {}
        scaled = scores / np.maximum(scores.sum(axis=0), np.finfo(np.float64).tiny)
        fused = np.add.reduceat(scaled, np.arange(0, scores.shape[1], number_of_views(self.views)), axis=1)
        fused[queries, np.arange(len(queries))] = -1.0
        first = np.argsort(-fused, axis=0, kind="stable")[: min(self.at, graph.num_vertices - 1)]
        return {"precision": float((graph.labels[first] == graph.labels[queries])[:, known].mean())}

    def _queries(self, graph: Graph, features: int) -> NDArray[np.int64]:
        return starting_vertices(self.queries, graph, -(-features // number_of_views(self.views)), self.seed)
