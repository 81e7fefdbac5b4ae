"""Shortest paths."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from harness.algorithms.exact_solvers import DIJKSTRA, hops, length_allowances, path_lengths
from harness.algorithms.starting_vertices import reached, starting_vertices, zero_at
from harness.contract import option
from harness.language import (
    Algorithm,
    Allowance,
    Answer,
    Expression,
    Inputs,
    InvalidInput,
    K,
    ProgramBuilder,
    Reader,
    minimum,
)

if TYPE_CHECKING:
    from harness.graph import Graph
    from harness.language.algorithm import Values


class SSSP(Algorithm):
    """Shortest paths from k sources as k features, by relaxing the out-edges of moved vertices (Bellman 1958, Ford
    1956).

    distance_v = min(distance_v, min_u distance_u + w(u, v)) over the edges u -> v, until nothing moves. Edges are
    followed in their direction; without weights every edge has length 1. Negative weights are refused. An unreachable
    vertex stays at infinity.

    ``sources``: the vertices, such as "3 17", or *drawn* with ``seed`` from those with out-edges
    (:func:`harness.algorithms.starting_vertices.starting_vertices`).

    The bound: a distance is a sum of lengths >= 0 along its path, so each of its h float32 additions adds a relative
    error of up to 6e-8. A path that is shortest only up to rounding has no larger error. Roundings have either sign:
    paths of 1,800 edges on the world's highways gave 3e-6 at most, of 2,700 edges on a grid 2e-6.
    """

    name: ClassVar[str] = "sssp"
    rated_when_settled: ClassVar[bool] = True

    sources: str = option("drawn", 'k vertices, such as "3 17", or by name "id:30 id:55", or drawn')
    seed: int = option(0, "seed of drawn sources")
    supersteps: int = option(1_000_000, "the most supersteps of a run", within="[1, inf)")

    def build(self, p: ProgramBuilder) -> None:
        p.edge("weight")
        p.vertex("source", K)
        p.vertex("distance", K, start="source")

        @p.over_edges(into="nearest", reduce="min")
        def relax(src: Reader, edge: Reader) -> Expression:
            return src.distance + edge.weight

        @p.over_vertices
        def settle(v: Reader) -> dict[str, Expression]:
            return {"distance": minimum(v.distance, v.nearest)}

        p.until_settled(at_most=self.supersteps)
        p.output("distance", bound=1e-5)

    def inputs(self, graph: Graph, features: int) -> Inputs:
        if graph.least_weight < 0:
            raise InvalidInput(
                f"shortest paths need lengths >= 0; graph {graph.name!r} has negative weights, down to "
                f"{graph.least_weight:g}"
            )
        source = starting_vertices(self.sources, graph, features, self.seed)
        return Inputs({"source": zero_at(source, graph)}, self.parameter_values())

    def default_features(self, graph: Graph) -> int | None:
        return 1

    def settled_answer(self, graph: Graph, features: int) -> Answer:
        """Compute the distances by Dijkstra's method, in SciPy."""
        sources = starting_vertices(self.sources, graph, features, self.seed)
        distance = path_lengths(graph, sources, weighted=True)
        allowance = length_allowances(graph, sources, distance)
        farthest = max((hops(graph, sources[f : f + 1]) for f in range(features)), default=0)
        return Answer({"distance": distance}, DIJKSTRA, {"distance": Allowance(allowance)}, farthest)

    def metrics(self, graph: Graph, values: Values) -> dict[str, float]:
        """Return ``reached``, the share of (vertex, source) pairs with a path, and ``farthest``, the largest
        distance."""
        return reached(values["distance"])
