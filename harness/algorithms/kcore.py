"""The k-core."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from harness.algorithms.whole_answers import PEELING, core_members
from harness.graph import Graph
from harness.language import Algorithm, Answer, Expression, Inputs, InvalidInput, ProgramBuilder, Reader, where

if TYPE_CHECKING:
    from harness.language.algorithm import Values


class KCore(Algorithm):
    """The k-core: the largest subgraph in which every vertex has ``core`` neighbours or more (Seidman 1983).

    Peeling, as in the SIMD-X paper (whose ``core`` is 16): all vertices are alive (1) at first; in every superstep
    those with fewer than ``core`` alive neighbours die (0), until none does. (The paper deletes what has "less than k"
    and ends with "more than k"; the first is Seidman's, and leaves k or more.) The core is what stays alive; it is the
    same whatever the order of peeling. The k of the harness being the number of features, this one is called ``core``;
    there is one answer a vertex, whatever the number of features.

    The core is defined on simple undirected graphs: parallel arcs count once, self-loops not at all, and on a directed
    graph an arc either way makes neighbours.

    The bound is 0: degrees are whole numbers, which float32 holds exactly up to 2^24 (vertices with more neighbours are
    refused), also as sums of changes.
    """

    name: ClassVar[str] = "kcore"
    rated_when_settled: ClassVar[bool] = True

    core: int = 16
    supersteps: int = 1_000_000

    def build(self, p: ProgramBuilder) -> None:
        p.vertex("alive", start=1.0)

        @p.over_edges(into="neighbours", reduce="sum")
        def count(src: Reader) -> Expression:
            return src.alive

        @p.over_vertices
        def peel(v: Reader) -> dict[str, Expression]:
            return {"alive": where(v.neighbours >= float(self.core), v.alive, 0.0)}

        p.until_settled(at_most=self.supersteps)
        p.output("alive", bound=0.0)

    def prepare_graph(self, graph: Graph) -> Graph:
        """The simple undirected graph: parallel arcs merged, no self-loops, every arc in both directions."""
        source, destination = graph.csr.row_of_arc, graph.csr.neighbours
        loops = source == destination
        parallel = (source[1:] == source[:-1]) & (destination[1:] == destination[:-1])  # rows are sorted
        if not loops.any() and not parallel.any():
            return graph.with_reverse_arcs()
        return Graph.from_edges(
            source[~loops], destination[~loops], num_vertices=graph.num_vertices, name=graph.name, duplicates="min",
            symmetrize=True, meta=graph.meta,
        )  # fmt: skip

    def inputs(self, graph: Graph, features: int) -> Inputs:
        if self.core < 1:
            raise InvalidInput(f"core={self.core}: a core's number of neighbours is at least 1")
        most = int(graph.in_degrees.max(initial=0))
        if most > 2**24:
            raise InvalidInput(f"a vertex of graph {graph.name!r} has {most} neighbours; float32 counts up to 2^24")
        return Inputs({}, self.parameter_values())

    def default_features(self, graph: Graph) -> int | None:
        return 1

    def settled_answer(self, graph: Graph, features: int) -> Answer:
        """By visiting the arcs of every vertex once, when it is taken away."""
        alive, rounds = core_members(graph, self.core)
        return Answer({"alive": alive.astype(np.float64)}, PEELING, least_supersteps=rounds)

    def metrics(self, graph: Graph, values: Values) -> dict[str, float]:
        """``in_core``: how many vertices are in the core; ``share``: of all of them."""
        alive = int(np.count_nonzero(values["alive"]))
        return {"in_core": float(alive), "share": alive / max(graph.num_vertices, 1)}
