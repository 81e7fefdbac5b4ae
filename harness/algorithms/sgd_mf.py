"""Matrix factorisation by stochastic gradient descent: every rating updates the factors of its two ends in place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from harness.algorithms.ratings import (
    double_cover,
    drawn_ratings,
    held_out,
    left_to_right,
    ratings,
    root_mean_squares,
    row_products,
    training,
)
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
    mean,
    sqrt,
    total,
    where,
)

if TYPE_CHECKING:
    from harness.graph import Graph
    from harness.language.algorithm import Values

RATES = ("power", "adagrad", "twin")
SLOW = 8  # features with the first rate of rates=twin; LIBMF's alignment of rows, in float32


class SGDMatrixFactorisation(Algorithm):
    """Factors x of users and items with r_ui ~ x_u . x_i (+ b_u + b_i), one rating after another.

    A step on the rating r of u and i, with e = r - x_u . x_i, is x_u <- x_u + s (e x_i - lambda x_u) and
    x_i <- x_i + s (e x_u - lambda x_i); both read the old values. A superstep is a sweep over all ratings. Kaleem et
    al. (IPDPS 2016) run it on GPUs without stating the update; this is the one of the Galois CPU code and of LIBMF.

    ``rates=power``: s = alpha / (1 + beta t^1.5) in sweep t = 0, 1, ... (Yun et al., NOMAD, VLDB 2014).
    ``rates=adagrad``: s = alpha / sqrt(g), where g starts at 1 and grows by the mean square of the vertex's gradient in
    every step (Duchi et al. 2011, with one number a row). ``rates=twin``: the rates of LIBMF (Chin et al., "A
    learning-rate schedule for stochastic gradient methods to matrix factorization", 2015). The first 8 features have
    such a number, and the others, whose first sweep is left out, another; a step takes the rate from before it.
    ``bias=both``: users and items have a bias, with the rate of the (first) features.

    ``normalise=centre`` subtracts the training mean; *largest* divides by the largest rating, as the GPU code of Galois
    does; *deviation* divides by the standard deviation, as LIBMF does. Factors start uniform in [0, 1/sqrt(k)), as in
    both; centred ratings subtract half of that.

    ``sides=ratings``: a bipartite graph of ratings, each once. ``sides=double``: any graph, by its double cover: a row
    for every source, a column for every destination. ``ratings=drawn``: ratings from 1 to 5 replace the weights
    (:func:`harness.algorithms.ratings.drawn_ratings`). A share ``holdout`` of the ratings is held out of training, for
    the RMSE. ``order`` and ``conflicts``: :class:`harness.language.program.EdgeStep`.

    The bound: a float32 run in the same order differed from float64 by at most 7e-6 after 40 sweeps (k = 1 to 128, all
    options, alpha = 0.02 and 0.1), relative to a row's largest value or a tenth of that of all rows. With k = 1 and for
    biases, values near zero are differences of larger numbers, hence the floor. Runs in two orders differ by 5 % after
    one sweep.
    """

    name: ClassVar[str] = "sgd_mf"
    interval_slack: ClassVar[float | None] = 0.02
    diverged_over: ClassVar[float | None] = 10.0

    alpha: float = option(0.02, "step size of the first sweep", within="(0, inf)")
    beta: float = option(0.015, "decay of the step size, with rates=power", within="[0, inf)")
    lam: float = option(0.05, "lambda, the weight of the regularisation", within="[0, inf)")
    epochs: int = option(20, "sweeps over all ratings, each one superstep", within="[1, inf)")
    bias: str = option("none", "a bias of users and items, or none", values=("none", "both"))
    rates: str = option(
        "power", "how the step size falls: with the sweeps, by one number a row, or by two", values=RATES
    )
    normalise: str = option(
        "centre", "subtract the mean, or divide by the largest or the standard deviation",
        values=("centre", "largest", "deviation"),
    )  # fmt: skip
    sides: str = option("ratings", "a graph of ratings, or any by its double cover", values=("ratings", "double"))
    ratings: str = option("given", "the graph's weights, or drawn ratings", values=("given", "drawn"))
    order: Literal["any", "given"] = option("any", "order in which the ratings are visited")
    conflicts: Literal["serial", "lossy"] = option("serial", "whether parallel steps may lose updates of a row")
    holdout: float = option(0.0, "share of the ratings that is kept for the RMSE and not trained on", within="[0, 1)")
    seed: int = option(0, "seed of the first factors, the held-out and the drawn ratings")

    def build(self, p: ProgramBuilder) -> None:
        p.edge("rating")
        p.vertex("initial", K)
        p.vertex("x", K, start="initial")
        if self.bias == "both":
            p.vertex("b", start=0.0)
        if self.rates != "power":
            p.vertex("g", start=1.0)
        if self.rates == "twin":
            p.vertex("h", start=1.0)
            p.graph("first", K)
            p.graph("others")

        @p.over_edges(update="both", order=self.order, conflicts=self.conflicts)
        def step(src: Reader, dst: Reader, edge: Reader, graph: Reader) -> dict[str, dict[str, Expression]]:
            error = edge.rating - dot(src.x, dst.x)
            error = error - src.b - dst.b if self.bias == "both" else error

            def moved(own: Reader, other: Reader) -> dict[str, Expression]:
                down, new = self.lam * own.x - error * other.x, {}
                if self.rates == "twin":
                    square, later = down * down, where(graph.superstep > 0, 1.0, 0.0)
                    rate, rest = self.alpha / sqrt(own.g), later * self.alpha / sqrt(own.h)
                    new["g"] = own.g + total(graph.first * square) / SLOW
                    new["h"] = own.h + later * graph.others * total((1.0 - graph.first) * square)
                    each: Expression = graph.first * rate + (1.0 - graph.first) * rest
                elif self.rates == "adagrad":
                    new["g"] = own.g + mean(down * down)
                    each = rate = self.alpha / sqrt(new["g"])
                else:
                    each = rate = self.alpha / (1.0 + self.beta * graph.superstep**1.5)
                if self.bias == "both":
                    new["b"] = own.b + rate * (error - self.lam * own.b)
                return {"x": own.x - each * down, **new}

            return {"src": moved(src, dst), "dst": moved(dst, src)}

        p.repeat(self.epochs)
        for name in ("x", "b") if self.bias == "both" else ("x",):
            p.output(name, bound=2e-5, floor=0.1)

    def prepare_graph(self, graph: Graph) -> Graph:
        """Return the training ratings, each once, from rows to columns."""
        graph = rated(self, graph)
        held = held_out(graph, self.holdout, self.seed)
        graph = training(graph, held) if held.any() else graph
        return double_cover(graph) if self.sides == "double" else graph

    def inputs(self, graph: Graph, features: int) -> Inputs:
        offset, scale = normalisation(self.normalise, ratings(graph))
        draws = np.random.default_rng(self.seed).random((graph.num_vertices, features), np.float32)
        initial = (draws - np.float32(0.5 if self.normalise == "centre" else 0.0)) / np.float32(np.sqrt(features))
        rating = (ratings(graph) - np.float32(offset)) / np.float32(scale)
        parts = twin_parts(features) if self.rates == "twin" else {}
        return Inputs({"rating": rating, "initial": initial, **parts}, self.parameter_values())

    def metrics(self, graph: Graph, values: Values) -> dict[str, float]:
        """Return ``rmse`` of the predictions on the held-out ratings and ``train_rmse`` on the others."""
        graph = rated(self, graph)
        given, held = ratings(graph), held_out(graph, self.holdout, self.seed)
        rows, columns = graph.csr.row_of_edge.astype(np.int64), graph.csr.neighbours.astype(np.int64)
        columns += graph.num_vertices if self.sides == "double" else 0
        fitted = row_products(values["x"], rows, columns)
        if self.bias == "both":
            bias = np.asarray(values["b"], np.float64)
            fitted += bias[rows] + bias[columns]
        offset, scale = normalisation(self.normalise, given[~held])
        return root_mean_squares(given - (offset + scale * fitted), held)


def normalisation(kind: str, given: NDArray[Any]) -> tuple[float, float]:
    """Return offset and scale: a rating is offset + scale times what the program fits."""
    if kind == "centre":
        return float(given.mean(dtype=np.float64)) if len(given) else 0.0, 1.0
    if kind == "deviation":
        return 0.0, float(given.std(dtype=np.float64)) if len(given) else 1.0
    return 0.0, float(np.abs(given).max(initial=0.0)) or 1.0


def twin_parts(features: int) -> dict[str, NDArray[np.float32]]:
    """Return the inputs of rates=twin: 1 for the first SLOW features, [k], and one over the number of the others.

    LIBMF pads rows to a multiple of SLOW features; the padding counts, and stays zero.
    """
    first = (np.arange(features) < SLOW).astype(np.float32)
    others = -(-features // SLOW) * SLOW - SLOW
    return {"first": first, "others": np.asarray(1.0 / others if others else 0.0, np.float32)}


def rated(algorithm: SGDMatrixFactorisation, graph: Graph) -> Graph:
    """Return the graph with the ratings of the options, each once. Raises InvalidInput."""
    double = algorithm.sides == "double"
    if not double and graph.bipartite is None:
        raise InvalidInput(
            f"sides=ratings: graph {graph.name!r} is not bipartite; use a ratings graph, or sides=double"
        )
    graph = drawn_ratings(graph, algorithm.seed) if algorithm.ratings == "drawn" else graph
    return graph if double else left_to_right(graph)
