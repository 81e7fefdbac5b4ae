"""The k-core."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from harness.algorithms.exact_solvers import PEELING, core_members
from harness.contract import option
from harness.graph import Graph
from harness.language import Algorithm, Answer, Expression, Inputs, InvalidInput, ProgramBuilder, Reader, where

if TYPE_CHECKING:
    from harness.language.algorithm import Values


class KCore(Algorithm):
    """The k-core: the largest subgraph in which every vertex has at least ``core`` neighbours (Seidman 1983).

    Peeling, as in the SIMD-X paper (whose ``core`` is 16): all vertices start alive (1). In every superstep those with
    fewer than ``core`` alive neighbours are removed (0), until none is. (The paper deletes vertices with "less than k"
    and ends with "more than k"; the first is Seidman's definition, and leaves k or more.) The core is the set of
    vertices that stay alive; it does not depend on the order of peeling. In the harness k is the number of features, so
    this k is called ``core``. There is one answer per vertex for any number of features.

    The core is defined on simple undirected graphs: parallel edges count once, self-loops are ignored, and on a
    directed graph an edge in either direction makes neighbours.

    The bound is 0: degrees are integers, which float32 represents exactly up to 2^24, also as sums of changes. Vertices
    with more neighbours are refused.
    """

    name: ClassVar[str] = "kcore"
    rated_when_settled: ClassVar[bool] = True

    core: int = option(16, "least number of neighbours in the core", within="[1, inf)")
    supersteps: int = option(1_000_000, "the most supersteps of a run", within="[1, inf)")

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
        """Return the simple undirected graph: parallel edges merged, no self-loops, every edge in both directions."""
        source, destination = graph.csr.row_of_edge, graph.csr.neighbours
        loops = source == destination
        parallel = (source[1:] == source[:-1]) & (destination[1:] == destination[:-1])  # rows are sorted
        if not loops.any() and not parallel.any():
            return graph.with_reverse_edges()
        return Graph.from_edges(
            source[~loops], destination[~loops], num_vertices=graph.num_vertices, name=graph.name, duplicates="min",
            symmetrize=True, meta=graph.meta,
        )  # fmt: skip

    def inputs(self, graph: Graph, features: int) -> Inputs:
        most = int(graph.in_degrees.max(initial=0))
        if most > 2**24:
            raise InvalidInput(f"a vertex of graph {graph.name!r} has {most} neighbours; float32 counts up to 2^24")
        return Inputs({}, self.parameter_values())

    def default_features(self, graph: Graph) -> int | None:
        return 1

    def settled_answer(self, graph: Graph, features: int) -> Answer:
        """Compute the core by peeling, visiting the edges of every removed vertex once."""
        alive, rounds = core_members(graph, self.core)
        return Answer({"alive": alive.astype(np.float64)}, PEELING, least_supersteps=rounds)

    def metrics(self, graph: Graph, values: Values) -> dict[str, float]:
        """Return ``in_core``, the number of vertices in the core, and ``share``, their share of all vertices."""
        alive = int(np.count_nonzero(values["alive"]))
        return {"in_core": float(alive), "share": alive / max(graph.num_vertices, 1)}
