"""Breadth-first search."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from harness.algorithms.exact_solvers import DIJKSTRA, path_lengths
from harness.algorithms.starting_vertices import reached, starting_vertices, zero_at
from harness.contract import option
from harness.language import Algorithm, Answer, Expression, Inputs, K, ProgramBuilder, Reader, minimum

if TYPE_CHECKING:
    from harness.graph import Graph
    from harness.language.algorithm import Values


class BFS(Algorithm):
    """Breadth-first search from k sources as k features (Moore 1959): the number of edges on a shortest path from each.

    level_v = min(level_v, min_u level_u + 1) over the edges u -> v; superstep i settles level i. Edges are followed in
    their direction; weights are not used. An unreachable vertex stays at infinity.

    ``sources``: the vertices, such as "3 17", or *drawn* with ``seed`` from those with out-edges
    (:func:`harness.algorithms.starting_vertices.starting_vertices`).

    The bound is 0: levels are integers, which float32 represents exactly up to 2^24.
    """

    name: ClassVar[str] = "bfs"
    rated_when_settled: ClassVar[bool] = True

    sources: str = option("drawn", 'k vertices, such as "3 17", or by name "id:30 id:55", or drawn')
    seed: int = option(0, "seed of drawn sources")
    supersteps: int = option(1_000_000, "the most supersteps of a run", within="[1, inf)")

    def build(self, p: ProgramBuilder) -> None:
        p.vertex("source", K)
        p.vertex("level", K, start="source")

        @p.over_edges(into="nearest", reduce="min")
        def visit(src: Reader) -> Expression:
            return src.level + 1.0

        @p.over_vertices
        def settle(v: Reader) -> dict[str, Expression]:
            return {"level": minimum(v.level, v.nearest)}

        p.until_settled(at_most=self.supersteps)
        p.output("level", bound=0.0)

    def inputs(self, graph: Graph, features: int) -> Inputs:
        source = starting_vertices(self.sources, graph, features, self.seed)
        return Inputs({"source": zero_at(source, graph)}, self.parameter_values())

    def default_features(self, graph: Graph) -> int | None:
        return 1

    def settled_answer(self, graph: Graph, features: int) -> Answer:
        """Compute the levels by Dijkstra's method, in SciPy."""
        sources = starting_vertices(self.sources, graph, features, self.seed)
        level = path_lengths(graph, sources, weighted=False)
        return Answer({"level": level}, DIJKSTRA, least_supersteps=int(level[np.isfinite(level)].max(initial=0)))

    def metrics(self, graph: Graph, values: Values) -> dict[str, float]:
        """Return ``reached``, the share of (vertex, source) pairs with a path, and ``farthest``, the largest level
        among them."""
        return reached(values["level"])
