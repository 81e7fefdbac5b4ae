"""PageRank."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from harness.algorithms.starting_vertices import DRAWN, starting_vertices
from harness.contract import option
from harness.language import Algorithm, Expression, Inputs, K, ProgramBuilder, Reader, where

if TYPE_CHECKING:
    from harness.graph import Graph
    from harness.language.algorithm import FixedPoints


class PageRank(Algorithm):
    """PageRank (Page et al. 1999), k personalised vectors as k features; fig. 2.1(f) of Vaz 2021.

    Fig. 2.1(f) omits vertices without out-edges, whose rank would be lost. As usual it is distributed like the teleport
    (Langville & Meyer 2006, sec. 4.1). ``personalise``: *vertices*: feature f teleports to one vertex, drawn with
    ``seed`` from those with out-edges; *uniform*: every feature teleports to all vertices; *auto*: uniform if k = 1,
    otherwise vertices. Weights are not used.

    A run is settled when a superstep moves the ranks of every feature by no more than ``tolerance`` in the L1 norm,
    relative to their sum, which is 1. The default is that of the GAP benchmark suite (Beamer et al. 2015) and of
    LAGraph. It exceeds the movement that rounding causes in every superstep: 2e-7 to 8e-7 if the ranks of a graph with
    hubs of 10^3 to 10^4 in-edges are summed sequentially in any order, 3e-5 at a star of 10^5 equal leaves.

    The bound: L1 errors of ``tolerance`` at the sources cause tolerance / (1 - alpha) in the ranks, once from settling
    and once from values not propagated. Rounding: s steps after the start of a random walk its
    share is alpha^s. So the rounding of alpha to float32, up to 6e-8, counts once per superstep (5e-6 after 200 on a
    path of 400 vertices).
    """

    name: ClassVar[str] = "pagerank"

    alpha: float = option(0.85, "damping factor", within="(0, 1)")
    tolerance: float = option(1e-4, "L1 norm of the change of the ranks in a settled run", within="[0, inf)")
    supersteps: int = option(200, "the most supersteps of a run", within="[1, inf)")
    personalise: str = option(
        "auto",
        "teleport to all vertices, or to one per feature; auto: uniform if k = 1",
        values=("auto", "uniform", "vertices"),
    )
    seed: int = option(0, "seed of the vertices that are teleported to")

    def build(self, p: ProgramBuilder) -> None:
        p.vertex("teleport", K)
        p.vertex("rank", K, start="teleport")

        @p.over_graph(into="dangling", reduce="sum")
        def dangling(v: Reader) -> Expression:
            return where(v.out_degree > 0, 0.0, v.rank)

        @p.over_edges(into="aggr", reduce="sum")
        def share(src: Reader) -> Expression:
            return src.rank / src.out_degree

        @p.over_vertices
        def rank(v: Reader, graph: Reader) -> dict[str, Expression]:
            return {"rank": (1 - self.alpha + self.alpha * graph.dangling) * v.teleport + self.alpha * v.aggr}

        p.until_settled(self.tolerance, relative=True, norm="sum", at_most=self.supersteps)
        p.output("rank", bound=2 * self.tolerance / (1 - self.alpha) + 6e-8 * self.supersteps)

    def fixed_points(self) -> FixedPoints:
        return "one"

    def inputs(self, graph: Graph, features: int) -> Inputs:
        kind = ("uniform" if features == 1 else "vertices") if self.personalise == "auto" else self.personalise
        count = graph.num_vertices
        if kind == "uniform":
            teleport = np.full((count, features), 1.0 / max(count, 1), np.float32)
        else:
            teleport = np.zeros((count, features), np.float32)
            teleport[starting_vertices(DRAWN, graph, features, self.seed), np.arange(features)] = 1.0
        return Inputs({"teleport": teleport}, self.parameter_values())
