"""HITS against networkx on the whole graph, and SciPy's singular vectors on focused subgraphs."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.linalg import svds

from harness.algorithms.hits import HITS
from harness.graph import Graph
from harness.graph.generators import rmat
from harness.language import Inputs, InvalidInput, trace
from harness.language.initial_state import check_inputs
from harness.language.reference import ReferenceRun


def scores(algorithm, graph, features):
    """Return hubs and authorities, [V, k] in float64, and the inputs of the run."""
    program, both = trace(algorithm), algorithm.prepare_graph(graph)
    inputs = algorithm.inputs(both, features)
    run = ReferenceRun(program, both, features)
    run.reset(inputs)
    assert run.run(program.max_supersteps).settled
    return run.values("hub"), run.values("authority"), inputs.properties["base"]


def test_scores_are_those_of_networkx():
    graph = rmat(scale=6, edge_factor=5, seed=3, max_weight=4)
    twin = nx.DiGraph()
    twin.add_nodes_from(range(graph.num_vertices))
    ends = graph.csr.row_of_edge.tolist(), graph.csr.neighbours.tolist(), graph.weights.tolist()
    twin.add_weighted_edges_from(zip(*ends, strict=True))
    hub, authority, _ = scores(HITS(tolerance=1e-9, supersteps=500), graph, 1)
    for found, expected in zip((hub, authority), nx.hits(twin), strict=True):
        np.testing.assert_allclose(found[:, 0], [expected[v] for v in range(graph.num_vertices)], rtol=0, atol=1e-7)


def test_every_feature_is_the_singular_pair_of_its_subgraph():
    graph, k = rmat(scale=7, edge_factor=2, seed=5, max_weight=4), 3
    hub, authority, base = scores(HITS(tolerance=1e-10, supersteps=5000), graph, k)
    matrix = csr_array((graph.weights, graph.csr.neighbours, graph.csr.offsets), shape=(graph.num_vertices,) * 2)
    assert base.min() == 0
    assert len(np.unique(base, axis=1).T) == k
    for f in range(k):
        own = np.flatnonzero(base[:, f])
        left, _, right = svds(matrix[own][:, own].astype(np.float64), k=1, random_state=0)
        for found, vector in ((hub, left[:, 0]), (authority, right[0])):
            np.testing.assert_allclose(found[own, f], np.abs(vector) / np.abs(vector).sum(), rtol=0, atol=1e-6)
        assert not hub[base[:, f] == 0, f].any()


def test_a_base_set_has_both_neighbours_of_the_vertex_and_their_own():
    # 0 -> 1 <- 2 -> 3 -> 4 -> 5; only 3 steps apart: 0 and 3.
    path = Graph.from_edges([0, 2, 2, 3, 4], [1, 1, 3, 4, 5], name="path").both_directions()
    base = HITS(focus="vertices", seed=0).inputs(path, 200).properties["base"]
    sets = {tuple(np.flatnonzero(column).tolist()) for column in base.T}
    assert sets == {(0, 1, 2), (0, 1, 2, 3), (0, 1, 2, 3, 4), (1, 2, 3, 4, 5), (2, 3, 4, 5), (3, 4, 5)}


def test_a_graph_without_edges_has_no_hubs():
    hub, authority, _ = scores(HITS(), Graph.from_edges([], [], num_vertices=3, name="empty"), 1)
    assert not authority.any()
    assert not hub.any()


def test_negative_weights_are_refused():
    graph = HITS().prepare_graph(Graph.from_edges([0], [1], weights=[-1], name="negative"))
    with pytest.raises(InvalidInput, match="'weight' must be nonnegative"):
        check_inputs(trace(HITS()), graph, 1, HITS().inputs(graph, 1))


def test_a_base_set_below_zero_is_refused():
    graph = HITS().prepare_graph(Graph.from_edges([0, 1], [1, 2], name="path"))
    base = np.array([[1], [-1], [0]], np.float32)
    with pytest.raises(InvalidInput, match="'base' must be nonnegative; 1 of"):
        check_inputs(trace(HITS()), graph, 1, Inputs({"base": base}, HITS().parameter_values()))
