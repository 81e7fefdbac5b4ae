from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.algorithms.multimodal import Multimodal
from harness.algorithms.seeding import choose_seeds
from harness.algorithms.views import affinities, joined_views
from harness.graph import Graph
from harness.graph.catalogue import digits
from harness.graph.generators import rmat
from harness.language import InvalidInput, trace
from harness.language.analysis import change_driven
from tests.algorithms.answers import answer
from tests.algorithms.multigraphs import adjacency_of, multigraphs


@pytest.fixture(scope="module")
def ten_digits():
    return digits(neighbours=10)


def normalised(affinity):
    """Normalise by the square roots of both ends' totals; rows receive from columns."""
    rows, columns = affinity.sum(axis=1), affinity.sum(axis=0)
    size = np.sqrt(np.outer(rows, columns))
    return np.divide(affinity, size, out=np.zeros_like(affinity), where=size > 0)


def solved(alphas, matrices, known):
    """Solve (I - sum_m alpha_m S_m) mmode = (1 - sum_m alpha_m) mmode0 by a dense solve."""
    system = np.eye(len(known)) - sum(a * normalised(m) for a, m in zip(alphas, matrices, strict=True))
    return np.linalg.solve(system, (1 - sum(alphas)) * known)


def drawn_matrices(algorithm, graph):
    return [adjacency_of(graph, column).T for column in affinities(graph, algorithm.views, algorithm.seed).T]


@given(multigraphs(), st.sampled_from([1, 2, 5]), st.sampled_from([("", (1, 1, 1)), ("2 0 1", (2, 0, 1))]))
@settings(max_examples=60)
def test_the_answer_solves_the_linear_system(graph, features, shares):
    algorithm = Multimodal(alpha=0.8, tolerance=1e-9, supersteps=5000, shares=shares[0], fraction=0.3)
    found, settled = answer(algorithm, graph, features)
    assert settled
    known = algorithm.inputs(graph, features).properties["known"].astype(np.float64)
    alphas = 0.8 * np.array(shares[1]) / sum(shares[1])
    np.testing.assert_allclose(found, solved(alphas, drawn_matrices(algorithm, graph), known), rtol=1e-5, atol=1e-9)


def near(points, neighbours=10):
    """Return ``[V, V]``: affinities of the nearest images in either direction, found one image after the other."""
    distance = np.full((len(points), len(points)), np.inf)
    for i, point in enumerate(points):
        length = np.linalg.norm(points - point, axis=1)
        length[i] = np.inf
        chosen = np.argsort(length, kind="stable")[:neighbours]
        distance[i, chosen] = length[chosen]
    sigma = distance[np.isfinite(distance)].mean()
    one_way = np.exp(-((distance / sigma) ** 2))
    return np.maximum(one_way, one_way.T)


@pytest.mark.parametrize(("count", "side", "neighbours"), [(7, 2, 1), (40, 3, 6), (1100, 2, 3)])
def test_images_are_joined_with_their_nearest_in_every_view(count, side, neighbours):
    pixels = np.random.default_rng(count).random((count, side * side))
    image = pixels.reshape(-1, side, side)
    downwards, sideways = image[:, 1:] - image[:, :-1], image[:, :, 1:] - image[:, :, :-1]
    projections = pixels @ np.random.default_rng(5).standard_normal((side * side, side * side // 2))
    expected = {
        "pixels": near(pixels, neighbours), "projections": near(projections, neighbours),
        "gradients": near(np.hstack([downwards.reshape(count, -1), sideways.reshape(count, -1)]), neighbours),
    }  # fmt: skip
    plain = Graph.from_edges([0], [1], num_vertices=count, name="images", vertex_data={"pixels": pixels})
    for names in ("gradients", "projections pixels", "auto")[2 * (count > 1000) :]:  # two blocks of images
        graph = joined_views(plain, names, neighbours, 5)
        views = [expected[name] for name in (expected if names == "auto" else names.split())]
        drawn = affinities(graph, names, 5)
        assert np.array_equal(adjacency_of(graph), sum(views) > 0)
        for view, values in zip(views, drawn.T, strict=True):
            np.testing.assert_allclose(adjacency_of(graph, values), view, rtol=1e-5, atol=1e-30)
    assert np.array_equal(affinities(graph, "auto", 5, np.array([2, 0, 2])), drawn[:, [2, 0, 2]])


@pytest.mark.parametrize(("neighbours", "most"), [(0, 3), (4, 3), (-1, 3)])
def test_an_image_has_as_many_neighbours_as_there_are_others(neighbours, most):
    plain = Graph.from_edges([0], [1], num_vertices=4, name="images", vertex_data={"pixels": np.eye(4)})
    with pytest.raises(InvalidInput, match=f"neighbours={neighbours}; it must be 1 to {most}"):
        joined_views(plain, "pixels", neighbours, 0)
    assert joined_views(plain, "pixels", 3, 0).num_edges == 12


def test_digits_are_recognised_from_three_views(ten_digits):
    algorithm = Multimodal(tolerance=1e-8)
    found, settled = answer(algorithm, ten_digits, algorithm.default_features(ten_digits))
    assert settled
    accuracy = algorithm.metrics(ten_digits, {"mmode": found})["accuracy"]
    assert accuracy > 0.96

    pixels = np.asarray(ten_digits.vertex_data["pixels"], np.float64)
    image = pixels.reshape(-1, 8, 8)
    sideways, downwards = image[:, :, 1:] - image[:, :, :-1], image[:, 1:] - image[:, :-1]
    gradients = np.concatenate([downwards.reshape(-1, 56), sideways.reshape(-1, 56)], axis=1)
    projections = pixels @ np.random.default_rng(0).standard_normal((64, 32))
    seeds = choose_seeds("labels", ten_digits, 10, 0.1, 0)
    known = np.where(seeds[:, None] >= 0, np.eye(10)[seeds], 0.0)
    expected = solved([0.3] * 3, [near(view) for view in (pixels, projections, gradients)], known)
    unlabelled = seeds < 0
    assert accuracy == pytest.approx((expected.argmax(axis=1) == ten_digits.labels)[unlabelled].mean(), abs=0.002)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * expected.max(axis=1).min())


def test_one_view_is_one_modality(ten_digits):
    algorithm = Multimodal(views="gradients")
    prepared = algorithm.prepare_graph(ten_digits)
    assert prepared.edge_data["affinity"].shape == (prepared.num_edges, 1)
    assert prepared.has_reverse_edges
    assert prepared.num_edges < Multimodal().prepare_graph(ten_digits).num_edges
    assert trace(algorithm).properties["affinity"].shape == (1,)


def test_seeds_and_drawn_affinities_depend_only_on_the_seed():
    graph = rmat(scale=7, edge_factor=6, max_weight=4)
    first, again, other = (Multimodal(seed=s).inputs(graph, 4).properties for s in (1, 1, 2))
    assert set(first) == {"known", "affinity"}
    for name in first:
        assert np.array_equal(first[name], again[name])
        assert not np.array_equal(first[name], other[name])


def test_drawn_affinities_are_those_of_the_two_ends():
    """They do not depend on other edges, are uniform from 0.5 to 1.5 times the weight, and differ between views."""
    graph = rmat(scale=9, edge_factor=8, max_weight=4, parallel_edges=True)
    drawn = affinities(graph, "auto", 3)
    factor = drawn / graph.weights[:, None]
    assert factor.min() >= 0.5
    assert factor.max() <= 1.5
    assert np.abs(np.histogram(factor, 10, (0.5, 1.5))[0] / factor.size - 0.1).max() < 0.01
    assert np.abs(np.corrcoef(factor.T) - np.eye(3)).max() < 0.06
    kept = np.arange(graph.num_edges) % 3 > 0
    assert np.array_equal(affinities(graph.select_edges(kept), "auto", 3), drawn[kept])
    both = graph.with_reverse_edges()
    np.testing.assert_allclose(
        affinities(both, "auto", 3) / both.weights[:, None],
        (affinities(both, "auto", 3) / both.weights[:, None])[both.reverse_edges], rtol=1e-6,
    )  # fmt: skip


def test_the_sum_over_all_modalities_is_linear():
    (delta,) = change_driven(trace(Multimodal()))
    assert delta.kind == "linear"


RING = Graph.from_edges([0, 1, 2], [1, 2, 0], name="ring")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"shares": "1 2"}, "shares='1 2'; give 3 numbers >= 0, one for each view, or nothing"),
        ({"shares": "1 2 x"}, "shares='1 2 x'"),
        ({"shares": "1 -2 3"}, "shares='1 -2 3'"),
        ({"shares": "0 0 0"}, "shares='0 0 0'"),
        ({"shares": "1 inf 1"}, "shares='1 inf 1'"),
        ({"alpha": 0.0}, r"alpha=0.0: give a number in \(0, 1\)"),
        ({"views": "pixel"}, "view 'pixel' is not known"),
    ],
)
def test_invalid_combinations_are_refused(options, words):
    with pytest.raises(InvalidInput, match=words):
        answer(Multimodal(**options), RING, 2)


def test_gradients_need_square_images():
    graph = Graph.from_edges([0, 1], [1, 0], name="strips", vertex_data={"pixels": np.eye(2, 6)})
    with pytest.raises(InvalidInput, match="graph 'strips': gradients need square images; these have 6 pixels"):
        Multimodal(neighbours=1).prepare_graph(graph)
