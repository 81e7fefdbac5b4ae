"""The minimum spanning forest."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from harness.algorithms.spanning_forest import KRUSKAL, boruvka_rounds, forest_edges
from harness.contract import option
from harness.graph import Graph
from harness.language import (
    Algorithm,
    Answer,
    Expression,
    Inputs,
    InvalidInput,
    ProgramBuilder,
    Reader,
    VertexReader,
    maximum,
    minimum,
    where,
)
from harness.language.named_vertices import too_many_vertices

if TYPE_CHECKING:
    from harness.language.algorithm import Values

NONE = float("inf")  # names no vertex


class MST(Algorithm):
    """The minimum spanning forest by Boruvka's method (1926), with pointer jumping: one answer for any number of
    features.

    All vertices of a tree have the same ``root``, a vertex of the tree. In a round every tree chooses its least edge to
    another tree: by weight, then by the smaller end, then by the larger end. So no two edges are equal, the forest is
    unique, and only two trees that choose the same edge choose each other. Each root joins the tree that its edge leads
    to; of two that choose each other the smaller stays a root. Paths of roots are then halved, ``jumps`` times in every
    superstep, until all vertices of a tree have one root again, and the next round begins. The run ends when no tree
    has an edge to another one.

    Every vertex but the last root of its tree has joined another one once. Its outputs are the edge of the forest by
    which it did: ``cost``, the weight, and the ends ``lower`` < ``upper``. Roots that have not joined have cost 0 and
    both ends infinite. So each edge of the forest is the output of exactly one vertex. ``root`` is the last root.

    On a directed graph an edge in either direction connects its ends, with the least weight of all edges between them.
    Parallel edges and self-loops are allowed, and so are negative weights; without weights every edge has weight 1.
    Vertices are named by float32 numbers: graphs of more than 2^24 vertices are refused.

    The bound is 0: weights and numbers are compared and copied without arithmetic.
    """

    name: ClassVar[str] = "mst"
    rated_when_settled: ClassVar[bool] = True

    jumps: int = option(4, "pointer jumps of every vertex in a superstep", within="[1, 32]")
    supersteps: int = option(1_000_000, "the most supersteps of a run", within="[1, inf)")

    def build(self, p: ProgramBuilder) -> None:
        p.edge("weight")
        p.vertex("number")
        p.vertex("root", start="number")
        p.vertex("cost", start=0.0)
        p.vertex("lower", start=NONE)
        p.vertex("upper", start=NONE)
        self._jump(p)
        self._choose(p)
        self._join(p)
        p.until_settled(at_most=self.supersteps)
        for name in ("root", "cost", "lower", "upper"):
            p.output(name, bound=0.0)

    def _jump(self, p: ProgramBuilder) -> None:
        """Halve the paths of roots: ``above`` is the vertex that a vertex has reached, ``climbing`` 1 before all have
        reached their root."""
        reached = ["root", *(f"root_{jump}" for jump in range(1, self.jumps)), "below", "above"]
        for old, new in itertools.pairwise(reached):
            self._jumped(p, old, new)

        @p.over_graph(into="climbing", reduce="max")
        def climb(v: Reader) -> Expression:
            return where(v.above != v.below, 1.0, 0.0)

    @staticmethod
    def _jumped(p: ProgramBuilder, old: str, new: str) -> None:
        @p.over_vertices
        def jump(v: VertexReader) -> dict[str, Expression]:
            return {new: getattr(v.at(getattr(v, old)), old)}

    @staticmethod
    def _choose(p: ProgramBuilder) -> None:
        """Find the least edge of every tree to another one; at its root: ``least_cost``, ``least_lower``,
        ``least_upper``.

        The order of the edges of one vertex by their ends is the order of their other ends.
        """

        @p.over_edges(into="lightest", reduce="min")
        def weigh(src: Reader, dst: Reader, edge: Reader) -> Expression:
            return where(src.above != dst.above, edge.weight, NONE)

        @p.over_edges(into="nearest", reduce="min")
        def find(src: Reader, dst: Reader, edge: Reader) -> Expression:
            return where((src.above != dst.above) & (edge.weight == dst.lightest), src.number, NONE)

        @p.over_vertices(into="least_cost", reduce="min", at=lambda v: v.above)
        def offer(v: Reader) -> Expression:
            return v.lightest

        @p.over_vertices
        def end_of_cheapest(v: VertexReader) -> dict[str, Expression]:
            best = v.lightest == v.at(v.above).least_cost
            return {"end": where(best & (v.lightest < NONE), minimum(v.number, v.nearest), NONE)}

        @p.over_vertices(into="least_lower", reduce="min", at=lambda v: v.above)
        def offer_lower(v: Reader) -> Expression:
            return v.end

        @p.over_vertices
        def other_end_of_cheapest(v: VertexReader) -> dict[str, Expression]:
            best = v.end == v.at(v.above).least_lower
            return {"other_end": where(best & (v.end < NONE), maximum(v.number, v.nearest), NONE)}

        @p.over_vertices(into="least_upper", reduce="min", at=lambda v: v.above)
        def offer_upper(v: Reader) -> Expression:
            return v.other_end

    @staticmethod
    def _join(p: ProgramBuilder) -> None:
        """Let every root with an edge to another tree join that tree, if no vertex is still climbing."""

        @p.over_vertices
        def aim(v: VertexReader, graph: Reader) -> dict[str, Expression]:
            lower, upper = v.at(v.least_lower).above, v.at(v.least_upper).above
            joins = (graph.climbing == 0.0) & (v.above == v.number) & (v.least_cost < NONE)
            return {"aim": where(joins, where(lower == v.number, upper, lower), v.above)}

        @p.over_vertices
        def join(v: VertexReader) -> dict[str, Expression]:
            stays = (v.at(v.aim).aim == v.number) & (v.number < v.aim)
            joins = (v.above == v.number) & (v.aim != v.number) & ~stays
            return {
                "root": where(joins, v.aim, v.above),
                "cost": where(joins, v.least_cost, v.cost),
                "lower": where(joins, v.least_lower, v.lower),
                "upper": where(joins, v.least_upper, v.upper),
            }

    def prepare_graph(self, graph: Graph) -> Graph:
        """Return the undirected graph: every edge in both directions, with the same weight."""
        both = graph.with_reverse_edges()
        if both.weights is None or np.array_equal(both.weights, both.weights[both.reverse_edges]):
            return both
        return Graph.from_edges(
            both.csr.row_of_edge, both.csr.neighbours, weights=both.weights, num_vertices=graph.num_vertices,
            name=graph.name, duplicates="min", symmetrize=True, meta=graph.meta,
        )  # fmt: skip

    def inputs(self, graph: Graph, features: int) -> Inputs:
        problem = too_many_vertices(graph.num_vertices)
        if problem:
            raise InvalidInput(f"mst names vertices by values, and {problem}: graph {graph.name!r}")
        return Inputs({"number": np.arange(graph.num_vertices, dtype=np.float32)}, self.parameter_values())

    def default_features(self, graph: Graph) -> int | None:
        return 1

    def settled_answer(self, graph: Graph, features: int) -> Answer:
        """Compute the forest in SciPy, and the vertices that its edges belong to by rounds over its edges only."""
        lower, upper, cost = forest_edges(graph)
        chosen, root, rounds = boruvka_rounds(graph.num_vertices, lower, upper, cost)
        has = chosen >= 0
        values = {"root": root.astype(np.float64)}
        for name, given, none in (("cost", cost, 0.0), ("lower", lower, NONE), ("upper", upper, NONE)):
            values[name] = np.full(graph.num_vertices, none)
            values[name][has] = given[chosen[has]]
        return Answer(values, KRUSKAL, least_supersteps=rounds)

    def metrics(self, graph: Graph, values: Values) -> dict[str, float]:
        """Return ``weight``, the sum of the weights of the forest, ``edges``, their number, and ``trees``."""
        joined = np.isfinite(values["lower"])
        edges = int(np.count_nonzero(joined))
        weight = float(np.asarray(values["cost"], np.float64)[joined].sum())
        return {"weight": weight, "edges": float(edges), "trees": float(graph.num_vertices - edges)}
