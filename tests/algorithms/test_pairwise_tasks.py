"""Belief propagation on real graphs: disparities, clean pictures, marginals of published networks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from harness.algorithms import exact_marginals as exact
from harness.algorithms.belief_propagation import BeliefPropagation
from harness.algorithms.denoising import clean_levels, noisy_levels
from harness.algorithms.exact_marginals import exact_marginals
from harness.algorithms.stereo import bad_pixels, disparities, matching
from harness.graph import Graph, load_graph, open_graph
from harness.graph.catalogue import motorcycle
from harness.graph.formats.uai import MarkovNetwork
from harness.graph.generators.grid import lattice_edges
from harness.language import InvalidInput
from tests.algorithms.answers import answer, data
from tests.algorithms.networks import enumerated, joint, network, networks


# exact marginals ------------------------------------------------------------------------------------------------------
@given(networks(trees=False))
@settings(max_examples=80)
def test_exact_marginals_are_those_of_enumeration(graph):
    expected = enumerated(graph)
    if expected is not None:
        np.testing.assert_allclose(exact_marginals(MarkovNetwork.from_graph(graph)), expected, atol=1e-9)


def test_networks_of_large_tables_have_no_affordable_marginals():
    u, v = np.triu_indices(30, 1)
    clique = network(np.ones((30, 2)), {(int(a), int(b)): np.ones((2, 2)) for a, b in zip(u, v, strict=True)})
    assert exact_marginals(MarkovNetwork.from_graph(clique)) is None
    many = network(np.ones((2001, 1)), {})
    assert exact_marginals(MarkovNetwork.from_graph(many)) is None
    algorithm = BeliefPropagation(potentials="edge")
    assert algorithm.metrics(clique, {"belief": np.full((30, 2), 0.5)}) == {}


@pytest.mark.parametrize(("more", "affordable"), [(1, True), (-1, False)])
def test_all_tables_together_are_limited(more, affordable, monkeypatch):
    """Each variable of a chain has a table with the next one, and the last variable one for itself."""
    count, k = 12, 3
    chain = network(np.ones((count, k)), {(v, v + 1): np.ones((k, k)) for v in range(count - 1)})
    monkeypatch.setattr(exact, "MOST_ENTRIES", (count - 1) * k * k + k + more)
    assert (exact_marginals(MarkovNetwork.from_graph(chain)) is not None) == affordable


def test_protein_side_chains_get_nearly_exact_marginals():
    """The variables have 2 to 81 states."""
    graph = load_graph(data("uai") / "pdb2fdn.uai")
    algorithm = BeliefPropagation(potentials="edge")
    k = algorithm.default_features(graph)
    belief, settled = answer(algorithm, graph, k)
    assert (k, settled) == (81, True)
    quality = algorithm.metrics(graph, {"belief": belief})
    assert quality["marginal_error"] < 1e-3
    assert quality["mean_marginal_error"] < 1e-5


def test_evidence_counts_in_belief_and_metric():
    graph = network([[1, 2], [2, 1]], {(0, 1): np.array([[1.0, 2.0], [3.0, 1.0]])}, evidence=[1, -1])
    algorithm = BeliefPropagation(potentials="edge")
    belief, _ = answer(algorithm, graph, 2)
    np.testing.assert_allclose(belief, [[0, 1], [6 / 7, 1 / 7]], atol=1e-6)
    assert algorithm.metrics(graph, {"belief": belief})["marginal_error"] < 1e-6


def test_a_network_may_say_nothing_of_cardinalities_and_evidence():
    """An archive of arrays may lack both."""
    paired = network([[1, 2], [2, 1]], {(0, 1): np.array([[1.0, 2.0], [3.0, 1.0]])})
    silent = Graph(paired.csr, name="silent", directed=False, vertex_data={"unary": paired.vertex_data["unary"]},
                   edge_data=paired.edge_data)  # fmt: skip
    algorithm = BeliefPropagation(potentials="edge")
    belief, _ = answer(algorithm, silent, algorithm.default_features(silent))
    np.testing.assert_allclose(belief, enumerated(paired), atol=1e-6)
    assert algorithm.metrics(silent, {"belief": belief}) == algorithm.metrics(paired, {"belief": belief})


def test_variables_without_marginals_are_counted_and_not_rated():
    """0 and 1 must be equal and are observed to differ; 2 is unconstrained."""
    graph = network(np.ones((3, 2)), {(0, 1): np.eye(2)}, evidence=[0, 1, -1])
    algorithm = BeliefPropagation(potentials="edge")
    belief, _ = answer(algorithm, graph, 2)
    rated = algorithm.metrics(graph, {"belief": belief})
    assert rated == {"marginal_error": 0.0, "mean_marginal_error": 0.0, "contradicted": 2.0}
    alone = network(np.ones((2, 2)), {(0, 1): np.eye(2)}, evidence=[0, 1])
    assert algorithm.metrics(alone, {"belief": belief[:2]}) == {"contradicted": 2.0}


def test_the_score_of_likeliest_states_is_the_logarithm_of_their_weight():
    rng = np.random.default_rng(2)
    graph = network(rng.uniform(0.1, 1, (4, 2)), {(v, v + 1): rng.uniform(0.1, 1, (2, 2)) for v in range(3)})
    algorithm = BeliefPropagation(potentials="edge", rule="max")
    belief, _ = answer(algorithm, graph, 2)
    best = max(weight for _, weight in joint(graph))
    assert algorithm.metrics(graph, {"belief": belief}) == pytest.approx({"log_score": np.log(best), "zeros": 0.0})


def test_potentials_of_zero_that_an_answer_meets_are_counted():
    graph = network([[0, 1], [1, 0]], {(0, 1): np.eye(2)})
    quality = BeliefPropagation(potentials="edge", rule="max").metrics(graph, {"belief": np.array([[0, 1], [1, 0]])})
    assert quality == {"log_score": 0.0, "zeros": 1.0}


# stereo ---------------------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def pair():
    return motorcycle(shrink=8)


@pytest.mark.parametrize(("rule", "most"), [("sum", 0.19), ("max", 0.18)])
def test_messages_correct_most_wrong_matches_of_single_pixels(pair, rule, most):
    algorithm = BeliefPropagation(rule=rule)
    k = algorithm.default_features(pair)
    assert k == 8
    alone = algorithm.inputs(pair, k).properties["phi"]
    belief, _ = answer(algorithm, pair, k, 40)
    assert algorithm.metrics(pair, {"belief": alone})["bad_pixels"] > 0.35
    assert algorithm.metrics(pair, {"belief": belief})["bad_pixels"] < most


def shifted_pair(disparity, width=40, height=6):
    """Return a random picture and the same one shifted ``disparity`` pixels to the left."""
    left = np.random.default_rng(0).random((height, width, 3)).astype(np.float32)
    right = np.roll(left, -disparity, axis=1)
    u, v = lattice_edges(height, width, diagonals=False)
    return Graph.from_edges(
        u, v, num_vertices=height * width, name="shifted", symmetrize=True,
        vertex_data={"left": left.reshape(-1, 3), "right": right.reshape(-1, 3),
                     "disparity": np.full(height * width, disparity, np.float32)},
        meta={"height": height, "width": width, "range": 8},
    )  # fmt: skip


def test_the_disparity_of_a_shifted_picture_is_found():
    graph = shifted_pair(5)
    fits = matching(graph, 8).reshape(6, 40, 8)
    assert (fits.argmax(axis=2)[:, 8:] == 5).all()
    assert fits[:, 8:, 5].min() == 1
    np.testing.assert_allclose(fits[:, 2, 3:], np.exp(-0.07 * 15))  # they would lie outside the right picture
    belief, _ = answer(BeliefPropagation(), graph, 8, 20)
    assert belief.reshape(6, 40, 8).argmax(axis=2)[:, 8:].tolist() == [[5] * 32] * 6


def test_labels_between_pixels_are_interpolated():
    graph = shifted_pair(5)
    np.testing.assert_allclose(disparities(graph, 16), np.arange(16) / 2)
    half, whole = matching(graph, 16).reshape(6, 40, 16), matching(graph, 8).reshape(6, 40, 8)
    np.testing.assert_allclose(half[:, :, ::2], whole)
    right = 255.0 * graph.vertex_data["right"].reshape(6, 40, 3).astype(np.float64)
    left = 255.0 * graph.vertex_data["left"].reshape(6, 40, 3).astype(np.float64)
    between = np.abs(left[:, 20] - (right[:, 17] + right[:, 18]) / 2).mean(axis=1)
    np.testing.assert_allclose(half[:, 20, 5], np.exp(-0.07 * np.minimum(between, 15)))


def test_bad_pixels_are_those_off_by_more_than_a_pixel_or_a_step():
    graph = shifted_pair(5)
    for label, bad in ((5, 0.0), (6, 0.0), (7, 1.0), (3, 1.0)):
        assert bad_pixels(graph, np.eye(8)[np.full(240, label)]) == {"bad_pixels": bad}
    assert bad_pixels(graph, np.eye(4)[np.full(240, 3)]) == {"bad_pixels": 0.0}  # 6, in steps of 2
    unknown = Graph(
        graph.csr, name="u", vertex_data={**graph.vertex_data, "disparity": np.full(240, np.nan)}, meta=graph.meta
    )
    assert bad_pixels(unknown, np.eye(8)[np.zeros(240, int)]) == {}


# pictures -------------------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def coins():
    """Return a part of the coins image as a pixel graph."""
    whole = open_graph("harness.graph.catalogue:photo", {"image": "coins"})
    height, width = whole.meta["height"], whole.meta["width"]
    colour = whole.vertex_data["colour"].reshape(height, width, 3)[60:130, 20:120].reshape(-1, 3)
    u, v = lattice_edges(70, 100, diagonals=False)
    meta = {"height": 70, "width": 100}
    return Graph.from_edges(
        u, v, num_vertices=7000, name="coins", symmetrize=True, vertex_data={"colour": colour}, meta=meta
    )


@pytest.mark.parametrize(("k", "before", "after"), [(2, 0.72, 0.93), (4, 0.55, 0.83)])
@pytest.mark.parametrize("rule", ["sum", "max"])
def test_neighbours_take_out_most_of_the_noise(coins, rule, k, before, after):
    algorithm = BeliefPropagation(rule=rule, truncation=1.0)
    belief, _ = answer(algorithm, coins, k, 20)
    quality = algorithm.metrics(coins, {"belief": belief})
    assert quality["noisy_agreement"] < before
    assert quality["agreement"] > after
    clean, noisy = clean_levels(coins, k), noisy_levels(coins, k, algorithm.noise, algorithm.seed)
    nearest = np.abs(noisy[:, None] - np.arange(k)).argmin(axis=1)
    assert quality["noisy_agreement"] == pytest.approx(np.mean(nearest == clean))
    assert quality["agreement"] == pytest.approx(np.mean(belief.argmax(axis=1) == clean))


def test_noise_depends_only_on_its_seed_and_size(coins):
    one, again, other = (noisy_levels(coins, 4, 0.5, seed) for seed in (1, 1, 2))
    assert np.array_equal(one, again)
    assert not np.array_equal(one, other)
    assert np.std(one - clean_levels(coins, 4)) == pytest.approx(0.5, rel=0.05)
    with pytest.raises(InvalidInput, match="noise=0.0: the noise put on the picture"):
        BeliefPropagation(noise=0.0).inputs(coins, 4)


def test_faint_noise_leaves_every_pixel_a_likeliest_level(coins):
    phi = BeliefPropagation(noise=0.01).inputs(coins, 8).properties["phi"]
    assert (phi.max(axis=1) == 1).all()
    assert np.array_equal(phi.argmax(axis=1), clean_levels(coins, 8))


@pytest.mark.parametrize("graph_name", ["pair", "coins"])
def test_the_answer_is_drawn(graph_name, request, tmp_path):
    from PIL import Image

    graph = request.getfixturevalue(graph_name)
    belief = np.eye(3)[np.arange(graph.num_vertices) % 3]
    BeliefPropagation().artefacts(graph, {"belief": belief}, tmp_path)
    with Image.open(tmp_path / "labels.png") as image:
        drawn = np.asarray(image)
    assert drawn.shape == (graph.meta["height"], graph.meta["width"])
    assert drawn.ravel()[:4].tolist() == [0, 127, 255, 0]


def test_a_network_leaves_no_picture(tmp_path):
    BeliefPropagation(potentials="edge").artefacts(network(np.ones((1, 2)), {}), {"belief": np.ones((1, 2))}, tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("shrink", "features"), [(1, 16), (4, 16), (8, 8)])
def test_the_natural_number_of_labels(shrink, features):
    meta = {"height": 1, "width": 1, "range": 64 // shrink}
    one = Graph.from_edges(
        [0], [0], name="p", vertex_data={"left": np.ones((1, 3)), "right": np.ones((1, 3))}, meta=meta
    )
    assert BeliefPropagation().default_features(one) == features


def test_a_picture_has_eight_levels_when_nothing_is_said(coins):
    assert BeliefPropagation().default_features(coins) == 8


# any graph ------------------------------------------------------------------------------------------------------------
def test_potentials_are_drawn_for_a_graph_without_any():
    u, v = lattice_edges(5, 6, diagonals=False)
    graph = Graph.from_edges(u, v, num_vertices=30, name="bare", symmetrize=True)
    with pytest.raises(InvalidInput, match="has neither potentials"):
        BeliefPropagation().default_features(graph)
    algorithm = BeliefPropagation(vertices="drawn")
    k = algorithm.default_features(graph)
    phi = algorithm.inputs(graph, k).properties["phi"]
    assert phi.shape == (30, 4)
    np.testing.assert_array_equal(phi.max(axis=1), 1)
    assert phi.min() >= 0.1
    np.testing.assert_array_equal(phi, algorithm.inputs(graph, k).properties["phi"])
    assert (phi != BeliefPropagation(vertices="drawn", seed=1).inputs(graph, k).properties["phi"]).any()
    belief, settled = answer(algorithm, graph, k)
    assert settled
    np.testing.assert_allclose(belief.sum(axis=1), 1, atol=1e-5)
    assert algorithm.metrics(graph, {"belief": belief}) == {}
