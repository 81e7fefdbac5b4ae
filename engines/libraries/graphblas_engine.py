"""SuiteSparse:GraphBLAS as an engine, through python-graphblas: the algorithms of LAGraph, written with its products.

python-graphblas has products and no algorithms, so those of LAGraph are written here. Breadth-first search uses masked
products (any_pair), and Bellman-Ford the improved vertices as the frontier (min_plus). Components are found by FastSV
(min_second), and a core by peeling. PageRank is that of the GAP benchmark suite.
Products are computed when they are waited for, so every solver reads its result before it returns.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from engines.libraries.library_engine import Case, LibraryEngine, least_labels, matrix_of
from engines.libraries.solving import Array, Reader
from harness.api import Device, EngineFailure, Graph

MOST_SUPERSTEPS = 100_000


class GraphblasEngine(LibraryEngine):
    """GraphBLAS's products; the sources of paths are the rows of one matrix, or go one by one."""

    library = "GraphBLAS"
    bytes_per_edge = 32
    network: Any

    def load(self, device: Device) -> None:
        """Import python-graphblas and set its threads."""
        import graphblas

        graphblas.ss.config["nthreads"] = device.threads
        self.gb = graphblas

    def convert(self, graph: Graph, kind: str) -> None:
        """Make the adjacency matrix; for PageRank the transposed one, with the shares of the out-degrees."""
        adjacency = matrix_of(graph, kind)
        if kind == "pagerank":
            adjacency.data /= graph.out_degrees[np.repeat(np.arange(graph.num_vertices), np.diff(adjacency.indptr))]
            adjacency = adjacency.T.tocsr()
        self.network = self.gb.Matrix.from_csr(
            adjacency.indptr, adjacency.indices, adjacency.data.astype(np.float32),
            nrows=graph.num_vertices, ncols=graph.num_vertices,
        )  # fmt: skip

    def together(self, case: Case) -> Reader:
        """Search from all sources at once: a row of the frontier for each."""
        return self._searched(case, [case.sources])

    def one_by_one(self, case: Case) -> Reader:
        """Search from one source after the other."""
        return self._searched(case, [case.sources[place : place + 1] for place in range(case.features)])

    def _searched(self, case: Case, groups: list[Array]) -> Reader:
        search = self._distances if case.kind == "sssp" else self._levels
        found = [search(sources) for sources in groups]
        return lambda: np.concatenate([one.to_dense(np.inf, dtype="FP64") for one in found]).T

    def _levels(self, sources: Array) -> Any:
        """Return the levels from each source, int32[sources, V], sparse where unreached."""
        gb, shape = self.gb, (len(sources), self.graph.num_vertices)
        level = gb.Matrix("INT32", *shape)
        front = gb.Matrix.from_coo(np.arange(len(sources)), sources, True, nrows=shape[0], ncols=shape[1])
        step = gb.semiring.any_pair["BOOL"]
        depth = 0
        while front.nvals:
            level(front.S) << depth
            front(~level.S, replace=True) << step(front @ self.network)
            depth += 1
        level.wait()
        return level

    def _distances(self, sources: Array) -> Any:
        """Return the distances from each source, float32[sources, V], sparse where unreached."""
        gb, shape = self.gb, (len(sources), self.graph.num_vertices)
        front = gb.Matrix.from_coo(
            np.arange(len(sources)), sources, np.float32(0), nrows=shape[0], ncols=shape[1], dtype="FP32"
        )
        distance = front.dup()
        while front.nvals:
            reached = gb.semiring.min_plus(front @ self.network).new()
            better = gb.binary.lt(reached & distance).new()
            front = gb.Matrix("FP32", *shape)
            front(~distance.S) << reached
            front(better.V) << reached
            distance(gb.binary.min) << front
        distance.wait()
        return distance

    def fast_sv(self, case: Case) -> Reader:
        """Run FastSV (Zhang, Azad, Hu 2020): hook the trees of parents to the least neighbouring grandparents."""
        gb, count = self.gb, self.graph.num_vertices
        parent = np.arange(count)
        grandparent = parent.copy()
        while True:
            values = gb.Vector.from_dense(grandparent)
            near = gb.semiring.min_second["INT64"](self.network @ values).new().to_dense(count, dtype="INT64")
            least = np.minimum(near, grandparent)
            fresh = np.minimum(parent, least)
            np.minimum.at(fresh, parent, least)
            parent, before = fresh, grandparent
            grandparent = parent[parent]
            if np.array_equal(grandparent, before):
                return lambda: least_labels(grandparent, case.own)

    def peeled(self, case: Case) -> Reader:
        """Remove vertices of too few neighbours, and subtract them from the numbers of their neighbours."""
        gb = self.gb
        alive = gb.Vector.from_dense(self.graph.out_degrees.astype(np.int64))
        gone = gb.select.valuelt(alive, case.core).new()
        while gone.nvals:
            alive(~gone.S, replace=True) << alive.dup()
            lost = gb.semiring.plus_pair["INT64"](self.network @ gone).new(mask=alive.S)
            alive(gb.binary.minus) << lost
            gone = gb.select.valuelt(alive, case.core).new()
        alive.wait()
        return lambda: np.isin(np.arange(self.graph.num_vertices), alive.to_coo(values=False)[0])

    def pagerank(self, case: Case) -> Reader:
        """Iterate from the teleport vectors until no column moves by more than the tolerance in the L1 norm."""
        gb, alpha = self.gb, case.alpha
        sinks = self.graph.out_degrees == 0
        teleport = case.teleport.astype(np.float32)
        rank = teleport
        step = gb.semiring.plus_times["FP32"]
        for _ in range(MOST_SUPERSTEPS):
            lost = rank[sinks].sum(axis=0, dtype=np.float64)
            fresh = gb.Matrix.from_dense(((1 - alpha + alpha * lost) * teleport).astype(np.float32))
            scaled = gb.Matrix.from_dense((alpha * rank).astype(np.float32))
            fresh(gb.binary.plus) << step(self.network @ scaled)
            before, rank = rank, fresh.to_dense()
            if (np.abs(rank - before).sum(axis=0, dtype=np.float64) <= case.tolerance).all():
                return lambda: rank * case.totals
        raise EngineFailure(f"GraphBLAS: no convergence in {MOST_SUPERSTEPS} iterations")

    ways: ClassVar = {
        "bfs": {"together": together, "one_by_one": one_by_one},
        "sssp": {"together": together, "one_by_one": one_by_one},
        "components": {"fast_sv": fast_sv},
        "kcore": {"peeling": peeled},
        "pagerank": {"power": pagerank},
    }
