"""Matrix factorisation by full gradient descent: every vertex moves along the mean gradient of its ratings."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from harness.algorithms.ratings import held_out, prediction_errors, ratings, training
from harness.contract import option
from harness.language import (
    Algorithm,
    Expression,
    Inputs,
    InvalidInput,
    K,
    ProgramBuilder,
    Reader,
    dot,
    maximum,
    mean,
    sqrt,
)

if TYPE_CHECKING:
    from harness.graph import Graph
    from harness.language.algorithm import Values


class GradientDescentMatrixFactorisation(Algorithm):
    """Factors x of users and items with r_ui ~ x_u . x_i, all of them moved at once.

    x_v <- x_v + alpha ((1 / n_v) sum_u (r_uv - x_u . x_v) x_u - lambda x_v) over the n_v ratings of v, on the values of
    before. Summed over all ratings, this is gradient descent on the objective of :mod:`harness.algorithms.sgd_mf`, with
    a step of alpha / n_v for each vertex; plain gradient descent needs a step below the inverse of the largest degree.
    It does the work of a sweep in a bulk-synchronous superstep, which every engine of such programs runs. Satish et al.
    (SIGMOD 2014) found that it needs about 40 times as many supersteps as SGD on Netflix.

    ``bias=both``: r_ui ~ x_u . x_i + b_u + b_i, and b_v <- b_v + alpha (mean error - lambda b_v). ``rates=adagrad``:
    the step of a vertex is alpha / sqrt(g), where g starts at 1 and grows by the mean square of its gradient in every
    superstep (Duchi et al. 2011, with one number a row), as for ``sgd_mf``; its bias has the same rate.

    Ratings are centred on the training mean. A share ``holdout`` of the ratings is held out of training, for the RMSE.
    Factors start uniform in [-1/2, 1/2) / sqrt(k), as for ``sgd_mf``.

    With alpha = 0.5 it diverges on MovieLens (ml-latest-small, k = 16), with 0.2 it does not.

    The bound: after 100 supersteps float32 was off by at most 2.2e-6, relative to a row's largest value or a tenth of
    that of all rows (generated ratings and MovieLens, k = 1 to 128).
    """

    name: ClassVar[str] = "mf_gd"
    metrics_by_superstep: ClassVar[bool] = True

    alpha: float = option(0.2, "step size", within="(0, inf)")
    lam: float = option(0.05, "lambda, the weight of the regularisation", within="[0, inf)")
    bias: str = option("none", "a bias of users and items, or none", values=("none", "both"))
    rates: str = option(
        "constant", "a constant step, or one that falls by a number a row", values=("constant", "adagrad")
    )
    supersteps: int = option(100, "steps of all factors", within="[1, inf)")
    holdout: float = option(0.0, "share of the ratings that is kept for the RMSE and not trained on", within="[0, 1)")
    seed: int = option(0, "seed of the first factors and of the held-out ratings")

    def build(self, p: ProgramBuilder) -> None:
        p.edge("rating")
        p.vertex("initial", K)
        p.vertex("x", K, start="initial")

        if self.bias == "both":
            p.vertex("b", start=0.0)
        if self.rates == "adagrad":
            p.vertex("g", start=1.0)

        def error(src: Reader, dst: Reader, edge: Reader) -> Expression:
            known = edge.rating - dot(src.x, dst.x)
            return known - src.b - dst.b if self.bias == "both" else known

        @p.over_edges(into="pull", reduce="sum")
        def gradient(src: Reader, dst: Reader, edge: Reader) -> Expression:
            return error(src, dst, edge) * src.x

        if self.bias == "both":

            @p.over_edges(into="missing", reduce="sum")
            def bias_gradient(src: Reader, dst: Reader, edge: Reader) -> Expression:
                return error(src, dst, edge)

        @p.over_vertices
        def descend(v: Reader) -> dict[str, Expression]:
            count, new = maximum(v.degree, 1.0), {}
            up = v.pull / count - self.lam * v.x
            rate: Expression | float = self.alpha
            if self.rates == "adagrad":
                new["g"] = v.g + mean(up * up)
                rate = self.alpha / sqrt(new["g"])
            if self.bias == "both":
                new["b"] = v.b + rate * (v.missing / count - self.lam * v.b)
            return {"x": v.x + rate * up, **new}

        p.repeat(self.supersteps)
        for name in ("x", "b") if self.bias == "both" else ("x",):
            p.output(name, bound=2e-5, floor=0.1)

    def prepare_graph(self, graph: Graph) -> Graph:
        """Return the training ratings, with every edge in both directions."""
        if graph.bipartite is None:
            raise InvalidInput(f"graph {graph.name!r} is not bipartite; use a ratings graph")
        held = held_out(graph, self.holdout, self.seed)
        return (training(graph, held) if held.any() else graph).with_reverse_edges()

    def inputs(self, graph: Graph, features: int) -> Inputs:
        weights = ratings(graph)
        rating = weights - np.float32(float(weights.sum(dtype=np.float64)) / max(len(weights), 1))
        draws = np.random.default_rng(self.seed).random((graph.num_vertices, features), np.float32) - np.float32(0.5)
        return Inputs({"rating": rating, "initial": draws / np.float32(np.sqrt(features))}, self.parameter_values())

    def metrics(self, graph: Graph, values: Values) -> dict[str, float]:
        """Return ``rmse`` of the predictions on the held-out ratings and ``train_rmse`` on the others."""
        held = held_out(graph, self.holdout, self.seed)
        return prediction_errors(graph, values["x"], held, values["b"] if self.bias == "both" else None)
