"""Diffusion of features over a fixed number of hops."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from harness.language import Algorithm, Expression, Inputs, InvalidInput, K, ProgramBuilder, Reader

if TYPE_CHECKING:
    from harness.graph import Graph


class FeatureDiffusion(Algorithm):
    """X <- S X for a fixed number of ``hops``, with S = D^-1/2 A D^-1/2: the precomputation of simplified graph
    convolutions.

    It is the operator of SGC without self-loops (Wu et al. 2019, eq. 8) and of SIGN (Frasca et al. 2020, sec. 3). D
    holds the strengths of the vertices, the sums of their weights: of in-edges at the destination, of out-edges at the
    source. X is drawn with ``seed``, uniformly from [0, 1).

    One superstep is one product of a sparse matrix and a dense one of k columns, and nothing else. So times compare the
    products of engines, not the rest of an algorithm.

    The bound: all terms are positive, so rounding adds at most a few units in the last place of float32 per hop.
    """

    name: ClassVar[str] = "feature_diffusion"

    hops: int = 4
    seed: int = 0

    def build(self, p: ProgramBuilder) -> None:
        p.edge("coefficient")
        p.vertex("given", K)
        p.vertex("x", K, start="given")

        @p.over_edges(into="diffused", reduce="sum")
        def spread(src: Reader, edge: Reader) -> Expression:
            return edge.coefficient * src.x

        @p.over_vertices
        def replace(v: Reader) -> dict[str, Expression]:
            return {"x": v.diffused}

        p.repeat(self.hops)
        p.output("x", bound=1e-6 * self.hops)

    def inputs(self, graph: Graph, features: int) -> Inputs:
        weights = np.ones(graph.num_edges, np.float32) if graph.weights is None else graph.weights
        if len(weights) and float(weights.min()) < 0:
            raise InvalidInput(f"feature diffusion needs weights >= 0; graph {graph.name!r} has negative ones")
        sources, destinations = graph.csr.row_of_edge, graph.csr.neighbours
        count = graph.num_vertices
        out = np.bincount(sources, weights, count)[sources]
        into = np.bincount(destinations, weights, count)[destinations]
        strengths = np.sqrt(out * into)
        coefficient = np.divide(weights, strengths, out=np.zeros(graph.num_edges), where=strengths > 0)
        given = np.random.default_rng(self.seed).random((count, features), np.float32)
        return Inputs({"given": given, "coefficient": coefficient.astype(np.float32)}, self.parameter_values())
