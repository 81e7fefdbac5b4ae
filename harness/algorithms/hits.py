"""Hubs and authorities."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from harness.algorithms.starting_vertices import DRAWN, starting_vertices
from harness.contract import option
from harness.language import Algorithm, Expression, Inputs, K, ProgramBuilder, Reader, where

if TYPE_CHECKING:
    from harness.graph import Graph


class HITS(Algorithm):
    """Hubs and authorities (Kleinberg 1999), k focused subgraphs as k features.

    An authority is pointed at by good hubs, and a good hub points at authorities: with the weights W of the edges

        pointed = W^T pointing / |pointing|_1,    pointing = W pointed / |pointed|_1.

    ``hub`` is pointing and ``authority`` is pointed, scaled to a sum of 1. Both converge to the singular vectors
    of W for its largest singular value. If several are that large, the limit is their part in the start, which is the
    same at every vertex. (Edges read what is summed over the graph, unscaled, so that change-driven engines can
    keep both sums current.)

    ``focus``: *all*: every feature covers the whole graph; *vertices*: feature f covers one vertex with edges,
    drawn with ``seed``, the vertices within two edges of it in either direction, and the edges between these: the base
    set of a query (Kleinberg 1999, section 2; his step from the results to their neighbours is one edge). *auto*: all
    if k = 1, otherwise vertices. Weights must be nonnegative.

    A run is settled when a superstep moves no feature's hubs and authorities by more than ``tolerance`` in the L1 norm.
    The distance to the limit depends on the ratio r of the two largest singular values: about tolerance r^2 / (1 -
    r^2). An engine and the reference go the same way from the same start, so the bound does not cover that distance.
    It covers the difference of two runs that stop a few supersteps apart or do not send small changes. It is stated for
    the larger entries: below a hundredth of the largest, errors are relative to that.
    """

    name: ClassVar[str] = "hits"

    tolerance: float = option(1e-5, "L1 norm of the change of the scores in a settled run", within="[0, inf)")
    supersteps: int = option(200, "the most supersteps of a run", within="[1, inf)")
    focus: str = option(
        "auto", "the whole graph, or one subgraph per feature; auto: all if k = 1", values=("auto", "all", "vertices")
    )
    seed: int = option(0, "seed of the vertices in focus")

    def build(self, p: ProgramBuilder) -> None:
        p.edge("weight", nonnegative=True)
        p.vertex("base", K, nonnegative=True)
        for score in ("pointing", "hub", "pointed", "authority"):
            p.vertex(score, K, start="base")

        @p.over_edges(into="pointed_at", reduce="sum")
        def pointed_at(src: Reader, edge: Reader) -> Expression:
            return edge.weight * src.pointing

        @p.over_graph(into="hubs", reduce="sum")
        def hubs(v: Reader) -> Expression:
            return v.pointing

        @p.over_vertices
        def hub(v: Reader, graph: Reader) -> dict[str, Expression]:
            scale = where(graph.hubs > 0, 1 / graph.hubs, 0.0)
            return {"hub": v.pointing * scale, "pointed": v.base * v.pointed_at * scale}

        @p.over_edges(into="pointing_at", reduce="sum", along="out")
        def pointing_at(dst: Reader, edge: Reader) -> Expression:
            return edge.weight * dst.pointed

        @p.over_graph(into="authorities", reduce="sum")
        def authorities(v: Reader) -> Expression:
            return v.pointed

        @p.over_vertices
        def authority(v: Reader, graph: Reader) -> dict[str, Expression]:
            scale = where(graph.authorities > 0, 1 / graph.authorities, 0.0)
            return {"authority": v.pointed * scale, "pointing": v.base * v.pointing_at * scale}

        p.until_settled(self.tolerance, relative=True, norm="sum", at_most=self.supersteps)
        for score in ("hub", "authority"):
            p.output(score, bound=100 * self.tolerance + 6e-7 * self.supersteps, floor=0.01)

    def prepare_graph(self, graph: Graph) -> Graph:
        return graph.both_directions()

    def inputs(self, graph: Graph, features: int) -> Inputs:
        """Return base[V, k]: 1 for vertices that a feature covers, otherwise 0."""
        kind = ("all" if features == 1 else "vertices") if self.focus == "auto" else self.focus
        base = np.ones((graph.num_vertices, features), np.float32)
        if kind == "vertices":
            chosen = starting_vertices(DRAWN, graph, features, self.seed)
            base = (np.arange(graph.num_vertices)[:, None] == chosen).astype(np.float32)
            for _ in range(2):
                base = _with_neighbours(graph, base)
        return Inputs({"base": base}, self.parameter_values())


def _with_neighbours(graph: Graph, base: np.ndarray) -> np.ndarray:
    """Return the sets ``base`` [V, k] and their neighbours along the edges of ``graph``, which has both directions."""
    from scipy.sparse import csr_array

    ones = np.ones(graph.num_edges, np.float32)
    edges = csr_array((ones, graph.csr.neighbours.astype(np.int64), graph.csr.offsets), shape=(graph.num_vertices,) * 2)
    return np.asarray((base + edges @ base) > 0, np.float32)
