"""The jobs that are sparse products: personalised PageRank and label propagation.

Label propagation with clamped seeds (Zhu & Ghahramani 2002) is in none of the libraries, whose functions of that name
take majority votes; there SciPy's sparse products are put together by hand. NetworKit has no personalised PageRank. Of
scikit-network's solvers for it only RH gives the answer: piteration, the default, lets the rank of vertices without
out-arcs leak, bicgstab stops at a relative residual of 1e-5 whatever is asked for, and the threads of diteration race
(with two of them its vectors were off by 0.5 on an R-MAT graph of 128 vertices, with one by 6e-7).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import networkx as nx
import numpy as np
from numpy.typing import NDArray
from sknetwork.ranking import PageRank as SknetworkPageRank

from harness.algorithms.label_propagation import LabelPropagation
from harness.algorithms.pagerank import PageRank
from harness.graph import Graph
from tests.benchmarks.peer_forms import incoming, matrix_of, pairs_of, walk_of
from tests.benchmarks.peer_jobs import MOST_ARCS_OF_NETWORKX, Job, Peer

Array = NDArray[Any]
RANK_MOVED = 1e-6  # a PageRank vector moves by less than this in the L1 norm in the last of the supersteps
RANK_ERROR = 1e-5  # so it is off by less than this: RANK_MOVED / (1 - 0.85), and rounding


def pagerank(graph: Graph, features: int) -> Job:
    """As many supersteps for Onyx and SciPy as move every vector by less than RANK_MOVED; other solvers find the same
    vectors in their own ways, each with a tolerance of its own that leaves at most RANK_ERROR."""
    algorithm = PageRank(tolerance=1e-6)
    inputs = algorithm.inputs(graph, features)
    teleport = inputs.properties["teleport"]
    walk, sinks = walk_of(graph), graph.out_degrees == 0
    supersteps = sum(1 for _ in _powers(walk, teleport, sinks, np.float64, RANK_MOVED))
    # Each form is made beforehand, as an engine's is.
    forms = {dtype: (walk.astype(dtype), teleport.astype(dtype)) for dtype in (np.float32, np.float64)}

    def power(dtype: type) -> Array:
        *_, x = itertools.islice(_powers(*forms[dtype], sinks, dtype, None), supersteps)
        return np.asarray(x)

    def truth() -> Array:
        *_, x = _powers(*forms[np.float64], sinks, np.float64, 1e-12)
        return x

    adjacency, source = matrix_of(graph, weighted=False), teleport.argmax(axis=0)

    def sknetwork(solver: str, tolerance: float) -> Array:
        def one(vertex: int) -> Array:
            ranking = SknetworkPageRank(damping_factor=0.85, solver=solver, n_iter=500, tol=tolerance)
            return np.asarray(ranking.fit_predict(adjacency, weights={int(vertex): 1.0}))

        return np.stack([one(vertex) for vertex in source], axis=1)

    peers = [
        Peer(f"scipy: csr @ {features} columns, float32", lambda: power(np.float32)),
        Peer(f"scipy: csr @ {features} columns, float64", lambda: power(np.float64)),
        Peer("scikit-network PageRank, RH", lambda: sknetwork("RH", 1e-6)),
        *([_networkx_pagerank(graph, source)] if graph.num_edges <= MOST_ARCS_OF_NETWORKX else []),
    ]
    return Job(
        f"PageRank, {features} personalised vectors, {supersteps} supersteps", algorithm, graph, inputs, features,
        "rank", truth, lambda a, b: float(np.abs(a - b).sum(axis=0).max()), RANK_ERROR, peers, supersteps=supersteps,
    )  # fmt: skip


def _powers(walk: Any, teleport: Array, sinks: Array, dtype: type, until: float | None) -> Iterator[Array]:
    """The vectors of the power method, superstep by superstep, until one moves them by less than ``until``."""
    x, moved = teleport, np.inf
    while until is None or moved >= until:
        new = dtype(0.85) * (walk @ x + teleport * x[sinks].sum(axis=0)) + dtype(0.15) * teleport
        if until is not None:
            moved = float(np.abs(new - x).sum(axis=0).max())
        x = new
        yield np.asarray(x)


def _networkx_pagerank(graph: Graph, source: Array) -> Peer:
    network = nx.DiGraph(pairs_of(graph))
    network.add_nodes_from(range(graph.num_vertices))

    def solve() -> Array:
        found = [nx.pagerank(network, personalization={int(v): 1.0}, max_iter=500, tol=1e-12) for v in source]
        return np.array([[ranks[v] for ranks in found] for v in range(graph.num_vertices)])

    return Peer("networkx pagerank", solve)


def label_propagation(graph: Graph, features: int) -> Job:
    algorithm = LabelPropagation(seeds="random")
    inputs = algorithm.inputs(graph, features)
    arcs = incoming(graph, graph.weights)
    known = inputs.properties["labelled"]

    def normalised(x: Array) -> Array:
        total = x.sum(axis=1, keepdims=True)
        return np.divide(x, total, out=np.zeros_like(x), where=total > 0)

    forms = {d: (arcs.astype(d), inputs.properties["seed"].astype(d)) for d in (np.float32, np.float64)}

    def iterate(dtype: type) -> Array:
        matrix, seed = forms[dtype]
        x = seed
        for _ in range(algorithm.supersteps):
            new = normalised(dtype(algorithm.alpha) * normalised(matrix @ x) + dtype(1 - algorithm.alpha) * x)
            new[known] = seed[known]
            moved = np.abs(new - x).max()
            x = new
            if moved <= algorithm.tolerance:
                break
        return np.asarray(x)

    peers = [Peer(f"scipy: csr @ {features} columns, float32, by hand", lambda: iterate(np.float32))]
    return Job(
        f"label propagation, {features} labels", algorithm, graph, inputs, features, "lp",
        lambda: iterate(np.float64), lambda a, b: float(np.abs(a - b).max()), 200 * algorithm.tolerance, peers,
    )  # fmt: skip
