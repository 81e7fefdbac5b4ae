from __future__ import annotations

import numpy as np
import pytest

from harness.algorithms.als import ALS
from harness.algorithms.ratings import drawn_ratings
from harness.graph import Graph, load_graph
from harness.graph.generators import random_ratings
from harness.language import InvalidInput, trace
from harness.language.reference import ReferenceRun
from harness.language.residual import residual
from harness.language.warm import kept_properties
from tests.algorithms.answers import answer, data


@pytest.fixture(scope="module")
def small():
    return random_ratings(users=30, items=20, num_ratings=200, rank=3, seed=2)


def plain_als(graph, algorithm, features, supersteps):
    """Solve every vertex's normal equations in a loop over lists of ratings."""
    prepared = algorithm.prepare_graph(graph)
    x = algorithm.inputs(prepared, features).properties["initial"].astype(np.float64)
    u, v = prepared.csr.row_of_edge, prepared.csr.neighbours
    mean = graph.select_edges(~kept_out(graph, algorithm)).weights.astype(np.float64).mean()
    rating = (prepared.weights - np.float32(mean)).astype(np.float64)
    left = graph.bipartite[0]
    for step in range(supersteps):
        sides = {
            "all": range(graph.num_vertices),
            "alternate": (range(left), range(left, graph.num_vertices))[step % 2],
        }
        fresh = x.copy()
        for w in sides[algorithm.sides]:
            rated = x[u[v == w]]
            ridge = algorithm.lam * (max(len(rated), 1) if algorithm.weighted else 1)
            fresh[w] = np.linalg.solve(rated.T @ rated + ridge * np.eye(features), rated.T @ rating[v == w])
        x = fresh
    return x


def kept_out(graph, algorithm):
    """Return the edges that the prepared graph lacks."""
    there = set(zip(*(ends.tolist() for ends in ends_of(algorithm.prepare_graph(graph))), strict=True))
    return np.array([(u, v) not in there for u, v in zip(*(e.tolist() for e in ends_of(graph)), strict=True)])


def ends_of(graph):
    return graph.csr.row_of_edge, graph.csr.neighbours


def test_an_answer_at_rest_on_one_side_only_has_not_settled():
    graph = random_ratings(users=30, items=20, num_ratings=300, seed=2)
    algorithm = ALS()
    program, inputs = trace(algorithm), algorithm.inputs(graph, 3)
    run = ReferenceRun(program, graph, 3)
    run.reset(inputs)
    run.run(200)
    state = {name: np.array(run.values(name)) for name in kept_properties(program)}
    assert residual(program, graph, 3, inputs, state).ok
    [factors] = (name for name, values in state.items() if values.ndim == 2)
    state[factors][30:] += 0.1  # items; the next superstep computes users from them
    run.reset(inputs, state)
    run.run(1)
    half = {name: np.array(run.values(name)) for name in state}
    assert not residual(program, graph, 3, inputs, half).ok


@pytest.mark.parametrize("sides", ["alternate", "all"])
@pytest.mark.parametrize("options", [{}, {"weighted": False, "lam": 0.5}, {"holdout": 0.3}])
def test_factors_solve_the_normal_equations_of_every_vertex(small, sides, options):
    algorithm = ALS(sides=sides, **options)
    factors, _ = answer(algorithm, small, 4, 5)
    np.testing.assert_allclose(factors, plain_als(small, algorithm, 4, 5), rtol=1e-6, atol=1e-9)


def test_held_out_ratings_are_predicted_on_movielens():
    graph = load_graph(data("ml-latest-small/ratings.csv"))
    algorithm = ALS(lam=0.1, holdout=0.1, supersteps=30)
    factors, _ = answer(algorithm, graph, 8)
    met = algorithm.metrics(graph, {"lf": factors})
    assert 0.85 < met["rmse"] < 0.89
    assert met["train_rmse"] < 0.65
    held = kept_out(graph, algorithm)
    assert 0.09 < held.mean() < 0.11
    mean = graph.weights[~held].mean(dtype=np.float64)
    u, v = ends_of(graph)
    error = [graph.weights[e] - mean - factors[u[e]] @ factors[v[e]] for e in np.flatnonzero(held)]
    assert met["rmse"] == pytest.approx(np.sqrt(np.mean(np.square(error))), rel=1e-9)
    assert met["rmse"] < graph.weights[held].std()  # better than predicting the mean


def test_the_two_edges_of_a_rating_are_held_out_together():
    rng = np.random.default_rng(0)
    one_way = Graph.from_edges(np.arange(99), np.arange(1, 100), weights=rng.random(99), name="path")
    for graph in (one_way, one_way.with_reverse_edges()):
        prepared = ALS(sides="all", holdout=0.5).prepare_graph(graph)
        assert prepared.has_reverse_edges
        assert 50 < prepared.num_edges < 150


def test_a_training_graph_is_not_taken_for_the_ratings_to_predict(small):
    algorithm = ALS(holdout=0.2)
    prepared = algorithm.prepare_graph(small)
    with pytest.raises(InvalidInput, match="give the graph from before prepare_graph"):
        algorithm.metrics(prepared, {"lf": np.ones((50, 2))})


def test_draws_depend_only_on_the_seed(small):
    first, again, other = (ALS(seed=s, holdout=0.2) for s in (1, 1, 2))
    assert first.prepare_graph(small).content_hash == again.prepare_graph(small).content_hash
    assert first.prepare_graph(small).content_hash != other.prepare_graph(small).content_hash
    initial = [a.inputs(small, 4).properties["initial"] for a in (first, again, other)]
    assert np.array_equal(initial[0], initial[1])
    assert not np.array_equal(initial[0], initial[2])


def test_a_vertex_without_ratings_gets_zero_factors_and_all_sides_are_not_rated(small):
    graph = Graph.from_edges([0, 0, 1], [3, 4, 3], weights=[1, 2, 5], num_vertices=6, name="few", bipartite=(3, 3))
    factors, _ = answer(ALS(), graph, 2, 2)
    assert not factors[[2, 5]].any()
    assert factors[[0, 1, 3, 4]].any(axis=1).all()
    assert ALS(sides="all").metrics(small, {"lf": np.ones((50, 2))}) == {}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"lam": 0.0}, r"lam=0.0: give a number in \(0, inf\)"),
        ({"lam": -1.0}, "lam=-1.0"),
        ({"holdout": 1.0}, r"holdout=1.0: give a number in \[0, 1\)"),
        ({"holdout": -0.1}, "holdout=-0.1"),
        ({"sides": "both"}, "sides='both': give one of alternate, all"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(small, options, words):
    with pytest.raises(InvalidInput, match=words):
        answer(ALS(**options), small, 2, 1)


def test_graphs_that_give_no_factors_are_refused():
    with pytest.raises(InvalidInput, match="'ring' is not bipartite; use a ratings graph, or sides=all"):
        ALS().prepare_graph(Graph.from_edges([0, 1, 2], [1, 2, 0], weights=[1, 2, 3], name="ring"))
    for weights in (None, [2, 2]):
        same = Graph.from_edges([0, 0], [1, 2], weights=weights, name="same", bipartite=(1, 2))
        with pytest.raises(InvalidInput, match="'same' has no ratings that differ"):
            answer(ALS(), same, 2, 1)
    two = Graph.from_edges([0, 0], [1, 2], weights=[1, 2], name="two", bipartite=(1, 2))
    with pytest.raises(InvalidInput, match="leaves no rating of graph 'two'"):
        ALS(holdout=0.999999).prepare_graph(two)


def test_drawn_ratings_are_the_same_both_ways_and_need_none_of_the_graph():
    generator = np.random.default_rng(5)
    graph = Graph.from_edges(
        generator.integers(0, 60, 900), generator.integers(0, 60, 900), num_vertices=60, name="plain", duplicates="sum",
        symmetrize=True,
    )  # fmt: skip
    drawn = drawn_ratings(graph, 0).weights
    assert set(np.unique(drawn)) == {1.0, 2.0, 3.0, 4.0, 5.0}
    np.testing.assert_array_equal(drawn, drawn[graph.reverse_edges])
    counts = np.bincount(drawn.astype(int))[1:]
    assert counts.max() < 1.5 * counts.min()
    other = drawn_ratings(graph, 1).weights
    assert 0.1 < (other == drawn).mean() < 0.3  # a fifth, if they were independent
    rating = ALS(sides="all", ratings="drawn").inputs(graph, 3).properties["rating"]
    np.testing.assert_allclose(rating, drawn - drawn.mean(), atol=1e-5)
    algorithm = ALS(sides="all", ratings="drawn")
    found, _ = answer(algorithm, graph, 3)
    assert np.isfinite(found).all()
    assert algorithm.metrics(graph, {"lf": found}) == {}


def test_ratings_of_another_kind_are_refused(small):
    with pytest.raises(InvalidInput, match="ratings='guessed': give one of given, drawn"):
        ALS(ratings="guessed").prepare_graph(small)
