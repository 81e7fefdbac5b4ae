from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.algorithms.manifold_ranking import ManifoldRanking
from harness.graph import Graph
from harness.graph.catalogue import digits
from harness.graph.generators import grid
from harness.language import Inputs, InvalidInput, trace
from harness.language.analysis import change_driven
from harness.language.reference import ReferenceRun
from tests.algorithms.answers import answer
from tests.algorithms.multigraphs import adjacency_of, multigraphs


@pytest.fixture(scope="module")
def ten_digits():
    return digits(neighbours=10)


def solved(algorithm, graph, features):
    """Return ``[V, k]``: the dense solution of (I - alpha P) mm = (1 - alpha) mm0 for each manifold."""
    inputs = algorithm.inputs(graph, features).properties
    scores = np.empty(inputs["query"].shape)
    manifolds, manifold = np.unique(inputs["affinity"], axis=1, return_inverse=True)
    for number, affinity in enumerate(manifolds.T):
        heard = adjacency_of(graph, affinity).T  # row v: the in-edges of v
        total = heard.sum(axis=1, keepdims=True)
        walk = np.divide(heard, total, out=np.zeros_like(heard), where=total > 0)
        system = np.eye(len(walk)) - algorithm.alpha * walk
        columns = manifold.reshape(-1) == number
        query = inputs["query"][:, columns].astype(np.float64)
        scores[:, columns] = np.linalg.solve(system, (1 - algorithm.alpha) * query)
    return scores


@given(multigraphs(), st.sampled_from([1, 2, 4, 7]), st.sampled_from([0.5, 0.9]))
@settings(max_examples=60)
def test_scores_solve_the_linear_system(graph, features, alpha):
    algorithm = ManifoldRanking(alpha=alpha, tolerance=1e-9, supersteps=5000)
    scores, settled = answer(algorithm, graph, features)
    assert settled
    np.testing.assert_allclose(scores, solved(algorithm, graph, features), rtol=1e-5, atol=1e-12)


def test_queries_find_images_of_their_digit(ten_digits):
    algorithm, features = ManifoldRanking(tolerance=5e-8, supersteps=5000), 6
    assert algorithm.default_features(ten_digits) == 30
    scores, settled = answer(algorithm, ten_digits, features)
    assert settled
    prepared = algorithm.prepare_graph(ten_digits)
    expected = solved(algorithm, prepared, features)
    np.testing.assert_allclose(scores, expected, rtol=1e-5)
    met = algorithm.metrics(ten_digits, {"mm": scores})["precision"]
    assert met > 0.9

    queries = algorithm.inputs(prepared, features).properties["query"].argmax(axis=0)
    assert (queries[0::3] == queries[1::3]).all()
    assert (queries[0::3] == queries[2::3]).all()
    found = []
    for number, query in enumerate(queries[::3]):
        views = scores[:, 3 * number : 3 * number + 3]
        order = [v for v in np.argsort(-(views / views.sum(axis=0)).sum(axis=1), kind="stable") if v != query]
        found.append(np.mean(ten_digits.labels[order[:50]] == ten_digits.labels[query]))
    assert met == pytest.approx(np.mean(found))


def test_fewer_features_than_views_ask_one_query(ten_digits):
    algorithm = ManifoldRanking(queries="5", views="pixels gradients")
    prepared = algorithm.prepare_graph(ten_digits)
    inputs = algorithm.inputs(prepared, 2).properties
    assert inputs["query"].argmax(axis=0).tolist() == [5, 5]
    assert inputs["affinity"].shape == (prepared.num_edges, 2)
    perfect = (ten_digits.labels == ten_digits.labels[5]).astype(np.float64)
    assert algorithm.metrics(ten_digits, {"mm": np.stack([perfect, perfect], axis=1)}) == {"precision": 1.0}


def test_a_vertex_that_no_edge_enters_keeps_its_own_score():
    graph = Graph.from_edges([0], [1], num_vertices=3, name="edge")
    scores, _ = answer(ManifoldRanking(alpha=0.5, queries="0", tolerance=1e-9), graph, 1)
    np.testing.assert_allclose(scores[:, 0], [0.5, 0.25, 0.0])
    assert ManifoldRanking(queries="0").metrics(graph, {"mm": scores}) == {}
    assert ManifoldRanking().default_features(graph) is None


def test_both_sums_have_a_change_driven_form():
    spread, weigh = change_driven(trace(ManifoldRanking()))
    assert (spread.kind, spread.sources) == ("linear", ("mm",))
    assert weigh.sources == ()


def test_queries_depend_only_on_the_seed():
    graph = grid(rows=9, columns=9)
    first, again, other = (ManifoldRanking(seed=s).inputs(graph, 9).properties for s in (1, 1, 2))
    assert all(np.array_equal(first[name], again[name]) for name in first)
    assert not np.array_equal(first["query"], other["query"])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"queries": "81"}, "vertex 81 is out of range"),
        ({"queries": "1 2 3"}, "the number of vertices given is 3, and these features need 1"),
        ({"queries": ""}, "the number of vertices given is 0, and these features need 1"),
        ({"alpha": 1.0}, r"alpha=1.0: give a number in \(0, 1\)"),
        ({"views": "colours"}, "view 'colours' is not known; views is auto, or some of pixels"),
        ({"views": ""}, "view '' is not known"),
        ({"at": 0}, r"at=0: give a number in \[1, inf\)"),
    ],
)
def test_invalid_combinations_are_refused(options, words):
    with pytest.raises(InvalidInput, match=words):
        ManifoldRanking(**options).inputs(grid(rows=9, columns=9), 3)


def test_views_of_a_graph_without_images_are_refused(ten_digits):
    with pytest.raises(InvalidInput, match="has no images"):
        ManifoldRanking(views="pixels").prepare_graph(grid(rows=3, columns=3))
    with pytest.raises(InvalidInput, match=r"neighbours=0: give a number in \[1, inf\)"):
        ManifoldRanking(neighbours=0).prepare_graph(ten_digits)
    with pytest.raises(InvalidInput, match="affinities are >= 0; graph 'signed' has negative weights"):
        ManifoldRanking().inputs(Graph.from_edges([0, 1], [1, 0], weights=[1, -1], name="signed"), 3)


def test_a_query_vector_of_the_wrong_length_is_refused():
    graph = grid(rows=4, columns=4)
    inputs = ManifoldRanking().inputs(graph, 3).properties
    short = Inputs({**inputs, "query": inputs["query"][:-1]})
    with pytest.raises(InvalidInput, match=r"input 'query' has shape \(15, 3\); the program needs \(16, 3\)"):
        ReferenceRun(trace(ManifoldRanking()), graph, 3).reset(short)
