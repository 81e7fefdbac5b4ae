from __future__ import annotations

import numpy as np
import pytest

from harness.algorithms.label_propagation import LabelPropagation
from harness.algorithms.seeding import choose_seeds
from harness.graph import Graph, load_graph
from harness.graph.catalogue import digits
from harness.graph.generators import rmat
from harness.language import InvalidInput
from tests.algorithms.answers import answer, data


@pytest.fixture(scope="module")
def ten_digits():
    return digits(neighbours=10)


def plain_propagation(graph, algorithm, features, supersteps):
    """Propagate labels in a loop over vertices."""
    inputs = algorithm.inputs(graph, features).properties
    seed, known = inputs["seed"].astype(np.float64), inputs["labelled"]
    edges_into = [np.flatnonzero(graph.csr.neighbours == v) for v in range(graph.num_vertices)]
    weights = graph.weights.astype(np.float64) if graph.weights is not None else np.ones(graph.num_edges)
    source = graph.csr.row_of_edge
    belief = seed.copy()
    for _ in range(supersteps):
        fresh = belief.copy()
        for v, into in enumerate(edges_into):
            heard = weights[into] @ belief[source[into]]
            mean = heard / heard.sum() if heard.sum() else heard
            mixed = algorithm.alpha * mean + (1 - algorithm.alpha) * belief[v]
            fresh[v] = mixed / mixed.sum() if mixed.sum() else mixed
            if algorithm.clamp and known[v]:
                fresh[v] = seed[v]
        belief = fresh
    return belief


@pytest.mark.parametrize("options", [{}, {"clamp": False}, {"alpha": 1.0, "seed": 3}, {"seeds": "random"}])
def test_distributions_are_those_of_a_plain_loop(options):
    graph = rmat(scale=7, edge_factor=4, seed=1, max_weight=9)  # with vertices that no label reaches
    algorithm = LabelPropagation(**options)
    met, _ = answer(algorithm, graph, 5, 12)
    np.testing.assert_allclose(met, plain_propagation(graph, algorithm, 5, 12), rtol=1e-9, atol=1e-12)


def test_digits_are_recognised_from_a_tenth_of_the_labels(ten_digits):
    algorithm = LabelPropagation()
    belief, settled = answer(algorithm, ten_digits, algorithm.default_features(ten_digits))
    accuracy = algorithm.metrics(ten_digits, {"lp": belief})["accuracy"]
    assert settled
    assert accuracy >= 0.96
    seeds = choose_seeds("labels", ten_digits, 10, 0.1, 0)
    unlabelled = seeds < 0
    assert accuracy == pytest.approx(np.mean(belief.argmax(axis=1)[unlabelled] == ten_digits.labels[unlabelled]))
    assert np.array_equal(belief[~unlabelled], np.eye(10)[ten_digits.labels[~unlabelled]])

    pull = np.zeros((ten_digits.num_vertices,) * 2)  # row v: the in-edges of v
    pull[ten_digits.csr.neighbours, ten_digits.csr.row_of_edge] = ten_digits.weights
    pull /= pull.sum(axis=1, keepdims=True)
    seeded = np.where(unlabelled[:, None], 0.0, np.eye(10)[ten_digits.labels])
    expected = seeded
    for _ in range(200):
        mixed = 0.85 * normalised(pull @ expected) + 0.15 * expected
        expected = np.where(unlabelled[:, None], normalised(mixed), seeded)
    np.testing.assert_allclose(belief, expected, atol=1e-3)  # the run settled a few supersteps earlier


def normalised(rows):
    size = rows.sum(axis=1, keepdims=True)
    return rows / np.where(size == 0, 1, size)


def test_without_clamping_labels_drift_to_a_consensus(ten_digits):
    algorithm = LabelPropagation(clamp=False)
    belief, _ = answer(algorithm, ten_digits, 10)
    assert algorithm.metrics(ten_digits, {"lp": belief})["accuracy"] < 0.9


def test_the_published_neighbour_graph_is_recognised_as_well():
    graph = load_graph(data("digits-knn10.npz"))  # weights are distances; similarity decreases with them
    near = graph.with_weights(np.exp(-np.square(graph.weights / graph.weights.mean()))).with_reverse_edges()
    algorithm = LabelPropagation()
    belief, _ = answer(algorithm, near, 10)
    assert algorithm.metrics(near, {"lp": belief})["accuracy"] >= 0.96


def labelled(labels, **options):
    count = len(labels)
    ring = np.arange(count)
    return Graph.from_edges(ring, (ring + 1) % count, labels=np.array(labels), name="ring", **options)


def test_a_vertex_that_no_label_reaches_is_not_counted_as_class_0():
    graph = labelled([0, 0, 0, 1])
    nothing, certain = np.zeros((4, 2)), np.eye(2)[[0, 0, 0, 1]]
    algorithm = LabelPropagation(fraction=0.01)  # one seed per class leaves two vertices of class 0
    assert algorithm.metrics(graph, {"lp": nothing}) == {"accuracy": 0.0}
    assert algorithm.metrics(graph, {"lp": certain}) == {"accuracy": 1.0}


def test_accuracy_is_only_reported_for_true_labels():
    graph = labelled([0, 1, 0, 1])
    assert LabelPropagation(seeds="random").metrics(graph, {"lp": np.ones((4, 2))}) == {}
    assert LabelPropagation().metrics(graph, {"lp": np.ones((4, 3))}) == {}


def test_every_class_is_seeded_in_proportion(ten_digits):
    seeds = choose_seeds("labels", ten_digits, 10, 0.1, 7)
    for label in range(10):
        chosen = np.flatnonzero(seeds == label)
        assert (ten_digits.labels[chosen] == label).all()
        assert len(chosen) == round(0.1 * np.count_nonzero(ten_digits.labels == label))


@pytest.mark.parametrize("kind", ["labels", "random", "colour"])
def test_seeds_depend_only_on_the_seed(ten_digits, kind):
    graph = ten_digits if kind != "colour" else coloured(400)
    features = 10 if kind != "colour" else 3
    first, again, other = (choose_seeds(kind, graph, features, 0.2, s) for s in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    assert first.min() == -1
    assert set(first[first >= 0]) == set(range(features))


def coloured(count):
    """Return vertices of three well-separated colours."""
    colour = np.repeat(np.eye(3), count // 3 + 1, axis=0)[:count]
    noise = np.random.default_rng(0).normal(0, 0.02, colour.shape)
    ring = np.arange(count)
    return Graph.from_edges(ring, (ring + 1) % count, name="colours", vertex_data={"colour": colour + noise})


def test_seeds_of_one_colour_get_one_label():
    graph = coloured(300)
    seeds = choose_seeds("auto", graph, 3, 0.3, 0)
    kind = np.asarray(graph.vertex_data["colour"]).argmax(axis=1)
    pairs = {(int(a), int(b)) for a, b in zip(seeds, kind, strict=True) if a >= 0}
    assert len(pairs) == 3


def test_fewer_colours_than_labels_leave_labels_unused():
    ring = np.arange(8)
    graph = Graph.from_edges(ring, (ring + 1) % 8, name="grey", vertex_data={"colour": np.zeros((8, 3))})
    assert set(choose_seeds("colour", graph, 4, 1.0, 0)) == {0}


@pytest.mark.parametrize("vertices", [1, 3, 50])
def test_every_label_has_a_random_seed_while_there_are_vertices(vertices):
    graph = Graph.from_edges([0], [0], num_vertices=vertices, name="few")
    seeds = choose_seeds("random", graph, 5, 0.01, 0)
    assert set(seeds[seeds >= 0]) == set(range(min(5, vertices)))


plain = Graph.from_edges([0, 1], [1, 0], name="plain")


@pytest.mark.parametrize(
    ("graph", "options", "words"),
    [
        (plain, {"seeds": "labels"}, "'plain' has no true labels; use seeds=random"),
        (labelled([0, 1, 2, 1]), {"seeds": "labels"}, "has 3 labels but features=2; set features=3"),
        (plain, {"seeds": "colour"}, "'plain' has no colours"),
        (plain, {"seeds": "colours"}, "give one of auto, labels, colour, random"),
        (plain, {"fraction": 0.0}, r"fraction=0.0: give a number in \(0, 1\]"),
        (plain, {"fraction": 1.5}, "fraction=1.5"),
        (plain, {"alpha": 0.0}, "alpha=0.0"),
        (plain, {"alpha": 1.1}, "alpha=1.1"),
        (plain.with_weights([1, -1]), {}, "needs weights >= 0; graph 'plain' has negative ones"),
    ],
)
def test_programs_that_cannot_be_propagated_are_refused(graph, options, words):
    with pytest.raises(InvalidInput, match=words):
        LabelPropagation(**options).inputs(graph, 2)
