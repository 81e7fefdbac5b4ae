from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from harness.algorithms.pagerank import PageRank
from harness.graph import Graph
from harness.graph.generators import rmat
from harness.language import InvalidInput, trace
from tests.algorithms.answers import answer


@pytest.fixture(scope="module")
def web():
    graph = rmat(scale=8, edge_factor=4, seed=3)
    assert (graph.out_degrees == 0).any()  # dangling vertices, whose rank must not be lost
    assert ((graph.out_degrees == 0) & (graph.in_degrees > 0)).any()
    return graph


def networkx_ranks(graph, alpha, teleport):
    twin = nx.MultiDiGraph()
    twin.add_nodes_from(range(graph.num_vertices))
    twin.add_edges_from(zip(graph.csr.row_of_edge.tolist(), graph.csr.neighbours.tolist(), strict=True))
    to = {v: float(teleport[v]) for v in range(graph.num_vertices)}
    ranks = nx.pagerank(twin, alpha, to, max_iter=10_000, tol=1e-16, weight=None)
    return np.array([ranks[v] for v in range(graph.num_vertices)])


@pytest.mark.parametrize("alpha", [0.5, 0.85, 0.95])
@pytest.mark.parametrize(("personalise", "features"), [("uniform", 1), ("uniform", 2), ("vertices", 3), ("auto", 1)])
def test_every_rank_is_that_of_networkx(web, alpha, personalise, features):
    algorithm = PageRank(alpha=alpha, personalise=personalise, tolerance=1e-12)
    ranks, settled = answer(algorithm, web, features, 2000)
    assert settled
    np.testing.assert_allclose(ranks.sum(axis=0), 1.0, rtol=1e-6)
    teleport = algorithm.inputs(web, features).properties["teleport"]
    for f in range(features):
        expected = networkx_ranks(web, alpha, teleport[:, f])
        np.testing.assert_allclose(ranks[:, f], expected, rtol=1e-5, atol=1e-15)


def test_parallel_edges_count_each_and_self_loops_keep_rank():
    graph = Graph.from_edges([0, 0, 0, 1, 2], [1, 1, 2, 0, 2], name="multi", duplicates="keep")
    ranks, _ = answer(PageRank(tolerance=1e-12), graph, 1, 2000)
    np.testing.assert_allclose(ranks[:, 0], networkx_ranks(graph, 0.85, np.full(3, 1 / 3)), rtol=1e-5)


def test_personalised_vertices_are_drawn_once_and_the_same_every_time(web):
    first, again = (PageRank(seed=5).inputs(web, 8).properties["teleport"] for _ in range(2))
    assert np.array_equal(first, again)
    assert first.sum(axis=0).tolist() == [1.0] * 8
    assert first.max(axis=1).sum() == 8  # eight different vertices ...
    assert (web.out_degrees[first.any(axis=1)] > 0).all()  # ... none of them dangling
    assert not np.array_equal(first, PageRank(seed=6).inputs(web, 8).properties["teleport"])


def test_more_features_than_vertices_repeat_some():
    pair = Graph.from_edges([0], [1], name="pair")
    assert PageRank().inputs(pair, 3).properties["teleport"].tolist() == [[1, 1, 1], [0, 0, 0]]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"alpha": 0.0}, r"alpha=0.0: give a number in \(0, 1\)"),
        ({"alpha": 1.0}, "alpha=1.0"),
        ({"personalise": "all"}, "give one of auto, uniform, vertices"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(web, options, words):
    with pytest.raises(InvalidInput, match=words):
        PageRank(**options).inputs(web, 1)


def test_the_bound_grows_with_alpha_and_tolerance():
    assert 5e-4 < trace(PageRank()).bound < 5e-3
    assert trace(PageRank(alpha=0.99)).bound > 3 * trace(PageRank()).bound
    assert trace(PageRank(tolerance=1e-6)).bound < 5e-5


def test_the_default_tolerance_leaves_an_error_within_the_bound(web):
    for features in (1, 3):
        found, settled = answer(PageRank(), web, features)
        exact, _ = answer(PageRank(tolerance=1e-12), web, features, 2000)
        assert settled
        error = np.abs(found - exact).sum(axis=0)
        assert (error < 0.85 / 0.15 * 1e-4).all()
        assert (error > 1e-7).all()  # it stops at the first test
