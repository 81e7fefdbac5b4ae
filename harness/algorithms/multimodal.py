"""Multimodal learning."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from harness.algorithms.edge_blocks import over_roots_of_totals
from harness.algorithms.seeding import SEEDINGS, choose_seeds, label_accuracy, number_of_labels
from harness.algorithms.views import VIEWS_HELP, affinities, joined_views, number_of_views
from harness.contract import option
from harness.language import Algorithm, Expression, Inputs, InvalidInput, K, ProgramBuilder, Reader, outer, stack

if TYPE_CHECKING:
    from harness.graph import Graph
    from harness.language.algorithm import FixedPoints, Values


class Multimodal(Algorithm):
    """Graph-based multi-modality learning (Tong et al. 2005), linear fusion, as in fig. 2.1(e) of Vaz 2021.

    Every edge has one affinity for each of M modalities, a vector w(u, v), and alpha is a vector of shares:

        AGGR(v) = sum_u w(u, v)^T . mmode(u)                      (M x k)
        mmode(v) = alpha . AGGR(v) + (1 - alpha . 1) mmode0(v)

    alpha . AGGR is sum_m alpha_m sum_u w_m(u, v) mmode(u), so the fixed point is that of Tong et al.'s linear fusion,
    (I - sum_m alpha_m S_m) mmode = (1 - sum_m alpha_m) mmode0. S_m, the matrix of the w_m, is theirs: affinities
    divided by the square roots of both ends' totals, w_m(u, v) = a_m(u, v) / sqrt(sum_v' a_m(u, v') sum_u' a_m(u', v)),
    on directed graphs too. Each S_m has a spectral norm of at most 1, so the system has one solution for sum_m alpha_m
    < 1 and the supersteps converge to it. (The sequential fusion is one such run per modality, each starting from the
    previous answer; the figure does not cover it.)

    The sum of all alpha_m is ``alpha``. ``shares``, such as "2 1 1", divides it among the modalities, evenly if empty.
    Modalities are the ``views`` of :func:`harness.algorithms.views.joined_views`. mmode0 is 1 at the label of a seed
    and 0 elsewhere; seeds (``seeds``, ``fraction``, ``seed``) are those of
    :func:`harness.algorithms.seeding.choose_seeds`.

    The bound: a relative error of ``tolerance`` at every source causes tolerance / (1 - alpha) in the answer, once from
    settling and once from values not propagated. Rounding errors occur in every step of a random walk from its seed.
    """

    name: ClassVar[str] = "multimodal"

    alpha: float = option(
        0.9, "share of a value that is taken from the neighbours, over all modalities", within="(0, 1)"
    )
    tolerance: float = option(1e-6, "largest relative change of a value in a settled run", within="[0, inf)")
    supersteps: int = option(500, "the most supersteps of a run", within="[1, inf)")
    views: str = option("auto", VIEWS_HELP)
    shares: str = option("", 'shares of the modalities, such as "2 1 1"; empty: equal')
    neighbours: int = option(10, "neighbours of an image on a derived view", within="[1, inf)")
    seeds: str = option("auto", "how seeds get labels; auto: true labels, else colours, else random", values=SEEDINGS)
    fraction: float = option(0.1, "share of the vertices that are seeds", within="(0, 1]")
    seed: int = option(0, "seed of the choice of seeds and of random views")

    def build(self, p: ProgramBuilder) -> None:
        p.edge("affinity", number_of_views(self.views))
        p.vertex("known", K)
        p.vertex("mmode", K, start="known")

        @p.over_edges(into="aggr", reduce="sum")
        def spread(src: Reader, edge: Reader) -> Expression:
            return outer(edge.affinity, src.mmode)

        @p.over_vertices
        def fuse(v: Reader) -> dict[str, Expression]:
            alphas = stack(*(self.alpha * share for share in self._shares()))
            return {"mmode": alphas @ v.aggr + (1 - self.alpha) * v.known}

        p.until_settled(self.tolerance, relative=True, at_most=self.supersteps)
        p.output("mmode", bound=2 * self.tolerance / (1 - self.alpha) + 2.5e-7 * self.supersteps)

    def _shares(self) -> list[float]:
        """Return the share of alpha of each modality; the shares sum to 1. Raises InvalidInput."""
        count = number_of_views(self.views)
        try:
            shares = [float(word) for word in self.shares.split()] or [1.0] * count
        except ValueError:
            shares = []
        if len(shares) != count or not all(0 <= share < math.inf for share in shares) or not any(shares):
            raise InvalidInput(f"shares={self.shares!r}; give {count} numbers >= 0, one for each view, or nothing")
        return [share / sum(shares) for share in shares]

    def fixed_points(self) -> FixedPoints:
        return "one"

    def prepare_graph(self, graph: Graph) -> Graph:
        """Return the graph of the edges of all views."""
        return joined_views(graph, self.views, self.neighbours, self.seed)

    def inputs(self, graph: Graph, features: int) -> Inputs:
        affinity = affinities(graph, self.views, self.seed)
        for view in affinity.T:
            view[:] = over_roots_of_totals(graph, view.astype(np.float64))
        label = choose_seeds(self.seeds, graph, features, self.fraction, self.seed)
        known = np.zeros((graph.num_vertices, features), np.float32)
        known[label >= 0, label[label >= 0]] = 1.0
        return Inputs({"known": known, "affinity": affinity}, self.parameter_values())

    def default_features(self, graph: Graph) -> int | None:
        return number_of_labels(graph)

    def metrics(self, graph: Graph, values: Values) -> dict[str, float]:
        """Return ``accuracy``, the share of vertices with a true label, except seeds, that got it; a zero vector is
        wrong."""
        return label_accuracy(values["mmode"], self.seeds, graph, self.fraction, self.seed)
