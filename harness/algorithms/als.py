"""Collaborative filtering by alternating least squares."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from harness.algorithms.ratings import drawn_ratings, held_out, prediction_errors, ratings, training
from harness.contract import option
from harness.language import (
    Algorithm,
    Expression,
    Inputs,
    InvalidInput,
    K,
    ProgramBuilder,
    Reader,
    eye,
    maximum,
    outer,
    solve_spd,
    where,
)

if TYPE_CHECKING:
    from harness.graph import Graph
    from harness.language.algorithm import FixedPoints, Values


class ALS(Algorithm):
    """Alternating least squares with weighted lambda regularisation (Zhou et al. 2008); fig. 2.1(b) of Vaz 2021.

    x_v = (sum_u x_u x_u' + lambda n_v I)^-1 sum_u r_uv x_u over the n_v ratings of v (Zhou et al., sec. 3.1).

    ``sides=alternate``: on a bipartite graph of ratings, a superstep solves one side, the left first, as in Zhou et al.
    (one alternation is two supersteps). ``sides=all``: the thesis's form, every vertex from its neighbours' previous
    factors, on any graph. This form runs two interleaved alternations, and the two ends of a rating belong to different
    ones; its predictions are not rated. In both forms every edge gets its reverse.

    Ratings are centred on the training mean. Lambda times the number of ratings (``weighted``) is Zhou's
    regularisation; plain lambda I is the thesis's (its figure omits the I, without which the term is not a matrix). A
    share ``holdout`` of the ratings, drawn with ``seed``, is excluded from training and used for the RMSE; both edges
    of a pair are excluded together. Factors start as N(0, 1) / sqrt(k) draws. Vertices without ratings get zero
    factors: their prediction is the mean. ``ratings=drawn``: on any graph, ratings from 1 to 5 for each pair of
    vertices (:func:`harness.algorithms.ratings.drawn_ratings`) replace its weights, whose changes then have no effect.

    The bound: the systems amplify an error of their right-hand sides by about 1 / lambda. Ten times the ``tolerance``
    covers values that were not propagated over several supersteps (measured on MovieLens: a twentieth of ``tolerance``
    / lambda). Rounding in float32 caused 1e-6 / lambda there, 2e-6 / lambda without ``weighted``; hubs of 10^5 ratings
    may lose one more digit. Factors near zero are differences of larger numbers, hence the floor.
    """

    name: ClassVar[str] = "als"
    metrics_by_superstep: ClassVar[bool] = True

    lam: float = option(0.1, "lambda, the weight of the regularisation", within="(0, inf)")
    weighted: bool = option(True, "multiply lambda by the number of ratings of a vertex (Zhou et al.), or not (thesis)")
    sides: str = option(
        "alternate", "solve one side of a bipartite graph per superstep, or all", values=("alternate", "all")
    )
    ratings: str = option("given", "the graph's weights, or ratings drawn for every edge", values=("given", "drawn"))
    holdout: float = option(0.0, "share of the ratings that is kept for the RMSE and not trained on", within="[0, 1)")
    tolerance: float = option(1e-5, "largest change of a factor in a settled run", within="[0, inf)")
    supersteps: int = option(30, "the most supersteps of a run", within="[1, inf)")
    seed: int = option(0, "seed of the first factors, the held-out and the drawn ratings")

    def build(self, p: ProgramBuilder) -> None:
        p.edge("rating")
        p.vertex("initial", K)
        p.vertex("lf", K, start="initial")

        @p.over_edges(into="sc", reduce="sum")
        def score(src: Reader, edge: Reader) -> Expression:
            return edge.rating * src.lf

        @p.over_edges(into="ic", reduce="sum")
        def gram(src: Reader) -> Expression:
            return outer(src.lf, src.lf)

        @p.over_vertices
        def solve(v: Reader) -> dict[str, Expression]:
            ridge = self.lam * where(self.weighted, maximum(v.degree, 1.0), 1.0)
            return {"lf": solve_spd(v.ic + ridge * eye(K), v.sc)}

        if self.sides == "alternate":
            p.alternate_sides()
        p.until_settled(self.tolerance, at_most=self.supersteps)
        p.output("lf", bound=(5e-5 + 10 * self.tolerance) / self.lam, floor=0.01)

    def fixed_points(self) -> FixedPoints:
        return "several"

    def prepare_graph(self, graph: Graph) -> Graph:
        """Return the graph of the training ratings, with every edge in both directions; :meth:`inputs` draws them."""
        if self.sides == "alternate" and graph.bipartite is None:
            raise InvalidInput(
                f"sides=alternate: graph {graph.name!r} is not bipartite; use a ratings graph, or sides=all"
            )
        held = held_out(graph, self.holdout, self.seed)
        return (training(graph, held) if held.any() else graph).with_reverse_edges()

    def inputs(self, graph: Graph, features: int) -> Inputs:
        weights = ratings(self._rated(graph))
        rating = weights - np.float32(float(weights.sum(dtype=np.float64)) / max(len(weights), 1))
        draws = np.random.default_rng(self.seed).standard_normal((graph.num_vertices, features), np.float32)
        return Inputs({"rating": rating, "initial": draws / np.float32(np.sqrt(features))}, self.parameter_values())

    def metrics(self, graph: Graph, values: Values) -> dict[str, float]:
        """Return ``rmse`` of the predictions on the held-out ratings and ``train_rmse`` on the others; empty for
        sides=all."""
        if self.sides != "alternate":
            return {}
        graph = self._rated(graph)
        return prediction_errors(graph, values["lf"], held_out(graph, self.holdout, self.seed))

    def _rated(self, graph: Graph) -> Graph:
        return drawn_ratings(graph, self.seed) if self.ratings == "drawn" else graph
