"""Diffusion of features over a fixed number of hops."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from harness.algorithms.edge_blocks import over_roots_of_totals
from harness.contract import option
from harness.language import Algorithm, Expression, Inputs, InvalidInput, K, ProgramBuilder, Reader

if TYPE_CHECKING:
    from harness.graph import Graph


class FeatureDiffusion(Algorithm):
    """X <- S X for a fixed number of ``hops``, with S = D^-1/2 A D^-1/2: the precomputation of simplified graph
    convolutions.

    It is the propagation of SGC (Wu et al., Simplifying graph convolutional networks, ICML 2019) without self-loops. D
    contains the sum of the weights of each vertex: of its in-edges at the destination, of its out-edges at the source.
    X is drawn with ``seed``, uniformly from [0, 1).

    One superstep is one product of a sparse matrix and a dense matrix of k columns, and nothing else. Its times compare
    the products of engines.

    The bound: no term is negative, so rounding adds a few units in the last place of float32 per hop.
    """

    name: ClassVar[str] = "feature_diffusion"

    hops: int = option(4, "number of supersteps, each one product with S", within="[1, inf)")
    seed: int = option(0, "seed of the features")

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
        coefficient = over_roots_of_totals(graph, weights)
        given = np.random.default_rng(self.seed).random((graph.num_vertices, features), np.float32)
        return Inputs({"given": given, "coefficient": coefficient}, self.parameter_values())
