"""The jobs with a small matrix for every vertex or arc: alternating least squares and belief propagation.

They are in none of the libraries; here NumPy's and SciPy's products, solvers and reductions are put together by hand.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import scipy.sparse

from harness.algorithms.als import ALS
from harness.algorithms.belief_propagation import BeliefPropagation
from harness.graph import Graph
from tests.benchmarks.peer_forms import incoming
from tests.benchmarks.peer_jobs import Array, Job, Peer

DTYPES = (np.float32, np.float64)


def als(graph: Graph, features: int) -> Job:
    """Every vertex from its neighbours' factors of before, on ratings that are drawn; all runs end as ours does, when
    no factor moves by more than the tolerance."""
    algorithm = ALS(sides="all", ratings="drawn")
    graph = algorithm.prepare_graph(graph)
    inputs = algorithm.inputs(graph, features)
    rating, initial = inputs.properties["rating"], inputs.properties["initial"]
    rows, columns = np.triu_indices(features)
    ridge = algorithm.lam * np.maximum(graph.out_degrees, 1)
    given = (incoming(graph), incoming(graph, rating), ridge)
    forms = {dtype: [array.astype(dtype) for array in given] for dtype in DTYPES}

    def iterate(dtype: type) -> Array:
        arcs, ratings, ridge = forms[dtype]
        x = initial.astype(dtype)
        gram = np.empty((graph.num_vertices, features, features), dtype)
        for _ in range(algorithm.supersteps):
            gram[:, rows, columns] = arcs @ (x[:, rows] * x[:, columns])
            gram[:, columns, rows] = gram[:, rows, columns]
            gram[:, range(features), range(features)] += ridge[:, None]
            new = np.linalg.solve(gram, (ratings @ x)[:, :, None])[:, :, 0]
            moved, x = np.abs(new - x).max(), new
            if moved <= algorithm.tolerance:
                break
        return x

    bound = (5e-5 + 10 * algorithm.tolerance) / algorithm.lam  # of a factor of size 1, as the program has it
    return Job(
        f"ALS, {features} factors, sides=all", algorithm, graph, inputs, features, "lf",
        functools.cache(lambda: iterate(np.float64)), lambda a, b: float(np.abs(a - b).max()), bound, _by_hand(iterate),
    )  # fmt: skip


def belief_propagation(graph: Graph, features: int) -> Job:
    """Potentials that are drawn, one table for all arcs; messages are kept as logarithms, as hubs demand, in the order
    of the arcs into a vertex. All runs end as ours does, when no message moves by more than the tolerance."""
    algorithm = BeliefPropagation(vertices="drawn")
    graph = algorithm.prepare_graph(graph)
    inputs = algorithm.inputs(graph, features)
    phi, psi = inputs.properties["phi"], inputs.properties["psi"]
    # Arc i enters vertex into[i]; answers[i] is the arc the other way, which leaves it.
    arc_of = graph.csc.edge_ids
    place = np.empty(graph.num_edges, np.int64)
    place[arc_of] = np.arange(graph.num_edges)
    answers = place[graph.reverse_edges[arc_of]]
    source = graph.csc.neighbours.astype(np.int64)
    incidence = (np.ones(graph.num_edges), np.arange(graph.num_edges), graph.csc.offsets)
    entering = scipy.sparse.csr_array(incidence, shape=(graph.num_vertices, graph.num_edges))
    forms = {dtype: (entering.astype(dtype), np.log(phi.astype(dtype)), psi.astype(dtype)) for dtype in DTYPES}

    def iterate(dtype: type) -> Array:
        entering, log_phi, psi = forms[dtype]
        msg = np.full((graph.num_edges, features), 1 / features, dtype)
        log_msg = np.log(msg)
        for _ in range(algorithm.supersteps):
            aggr = log_phi + entering @ log_msg
            others = aggr[source] - log_msg[answers]
            others -= others.max(axis=1, keepdims=True)
            said = np.exp(others, out=others) @ psi
            said /= said.sum(axis=1, keepdims=True)
            moved, msg = np.abs(said - msg).max(), said
            log_msg = np.log(msg)
            if moved <= algorithm.tolerance:
                break
        return _belief(log_phi + entering @ log_msg)

    bound = 1e-4 + 10 * algorithm.tolerance  # the program's own
    return Job(
        f"belief propagation, {features} states", algorithm, graph, inputs, features, "belief",
        functools.cache(lambda: iterate(np.float64)), lambda a, b: float(np.abs(a - b).max()), bound, _by_hand(iterate),
    )  # fmt: skip


def _belief(aggr: Array) -> Array:
    belief = np.exp(aggr - aggr.max(axis=1, keepdims=True))
    return belief / belief.sum(axis=1, keepdims=True)


def _by_hand(iterate: Callable[[type], Array]) -> list[Peer]:
    return [
        Peer(f"NumPy and SciPy, {np.dtype(dtype).name}, by hand", lambda dtype=dtype: iterate(dtype))
        for dtype in DTYPES
    ]
