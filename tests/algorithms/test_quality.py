"""Metrics, seeds and pictures on graphs of a few vertices, with the numbers of a calculation by hand."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from PIL import Image

from harness.algorithms import components
from harness.algorithms.bfs import BFS
from harness.algorithms.components import Components, vertex_labels
from harness.algorithms.kcore import KCore
from harness.algorithms.label_propagation import LabelPropagation
from harness.algorithms.mst import MST
from harness.algorithms.multimodal import Multimodal
from harness.algorithms.pictures import write_segmentation
from harness.algorithms.potentials import truncated_linear
from harness.algorithms.ratings import (
    HELD_OUT,
    double_cover,
    held_out,
    left_to_right,
    prediction_errors,
    ratings,
    root_mean_squares,
    training,
)
from harness.algorithms.seeding import choose_seeds, label_accuracy, number_of_labels, resolve_seeding
from harness.algorithms.sgd_mf import SGDMatrixFactorisation, normalisation, twin_parts
from harness.algorithms.sssp import SSSP
from harness.graph import Graph
from harness.language import Inputs, InvalidInput, trace
from harness.language.reference import ReferenceRun

LABELS = [0, 0, 0, 0, 1, 1, 2, -1]


def labelled(labels=LABELS, **more):
    v = np.arange(len(labels))
    return Graph.from_edges(v, (v + 1) % len(v), name="ring", labels=labels, **more)


def test_natural_numbers_of_features():
    graph = labelled()
    for algorithm in (BFS(), SSSP(), Components(), KCore(), MST()):
        assert algorithm.default_features(graph) == 1
    assert LabelPropagation().default_features(graph) == Multimodal().default_features(graph) == 3
    assert LabelPropagation().default_features(labelled([-1, -1])) is None


@pytest.mark.parametrize(("labels", "count"), [(LABELS, 3), ([0], 1), ([-1, -1], None), (None, None), ([-1, 4], 5)])
def test_labels_are_counted_from_zero(labels, count):
    graph = Graph.from_edges([], [], num_vertices=len(labels or [1]), name="g", labels=labels)
    assert number_of_labels(graph) == count


COLOURED = {"vertex_data": {"colour": np.linspace(0, 1, 8)}}


@pytest.mark.parametrize(
    ("seeding", "features", "more", "found"),
    [
        ("auto", 3, {}, "labels"),
        ("auto", 3, COLOURED, "labels"),
        ("auto", 2, COLOURED, "colour"),
        ("auto", 2, {}, "random"),
        ("labels", 3, COLOURED, "labels"),
        ("colour", 3, COLOURED, "colour"),
        ("random", 3, COLOURED, "random"),
        ("every", 3, {}, "seeds='every' is not known; it is one of auto, labels, colour, random"),
        ("labels", 2, {}, "seeds=labels: graph 'ring' has 3 labels but features=2; set features=3"),
        ("colour", 3, {}, "seeds=colour: graph 'ring' has no colours; use a pixel graph or seeds=random"),
    ],
)
def test_how_a_graph_is_seeded(seeding, features, more, found):
    if ";" not in found:
        assert resolve_seeding(seeding, labelled(**more), features) == found
        return
    with pytest.raises(InvalidInput) as met:
        resolve_seeding(seeding, labelled(**more), features)
    assert str(met.value) == found


def test_a_graph_without_labels_has_no_true_seeds():
    graph = Graph.from_edges([0], [1], name="pair")
    with pytest.raises(InvalidInput, match="graph 'pair' has no true labels; use seeds=random or seeds=colour"):
        resolve_seeding("labels", graph, 2)


@pytest.mark.parametrize(
    ("fraction", "counts"),
    [(0.5, [2, 1, 1]), (0.01, [1, 1, 1]), (1.0, [4, 2, 1]), (0.74, [3, 1, 1]), (0.76, [3, 2, 1])],
)
def test_a_share_of_every_class_is_seeded(fraction, counts):
    graph = labelled()
    chosen = choose_seeds("labels", graph, 3, fraction, 0)
    known = chosen >= 0
    assert np.bincount(chosen[known], minlength=3).tolist() == counts
    assert (chosen[known] == np.array(LABELS)[known]).all()


@pytest.mark.parametrize("fraction", [0.0, -0.1, 1.01, math.nan])
def test_a_share_of_seeds_lies_in_an_interval(fraction):
    with pytest.raises(
        InvalidInput, match=re.escape(f"fraction={fraction}: the share of seed vertices lies in (0, 1]")
    ):
        choose_seeds("random", labelled(), 2, fraction, 0)


@pytest.mark.parametrize(("features", "fraction", "count"), [(3, 0.01, 3), (3, 0.5, 4), (3, 1.0, 8), (20, 0.5, 8)])
@pytest.mark.parametrize("seeding", ["random", "colour"])
def test_a_share_of_all_vertices_is_seeded(seeding, features, fraction, count):
    chosen = choose_seeds(seeding, labelled(**COLOURED), features, fraction, 7)
    assert np.count_nonzero(chosen >= 0) == count
    assert chosen.max() < features
    if seeding == "random":
        assert set(range(min(features, count))) <= set(chosen.tolist())


def test_accuracy_counts_vertices_of_known_labels_that_were_no_seeds():
    graph = labelled()
    seeds = choose_seeds("labels", graph, 3, 0.5, 1)
    scores = np.eye(3)[np.maximum(LABELS, 0)]
    assert label_accuracy(scores, "labels", graph, 0.5, 1) == {"accuracy": 1.0}
    rated = np.flatnonzero((seeds < 0) & (np.array(LABELS) >= 0))
    scores[rated[0]] = 0
    scores[rated[1]] = np.roll(scores[rated[1]], 1)
    assert label_accuracy(scores, "labels", graph, 0.5, 1) == {"accuracy": (len(rated) - 2) / len(rated)}
    assert label_accuracy(scores, "auto", graph, 1.0, 1) == {}, "all are seeds"
    assert label_accuracy(np.zeros((8, 2)), "auto", graph, 0.5, 1) == {}, "seeds are no true labels"
    zero = np.zeros((8, 3))
    assert label_accuracy(zero, "labels", graph, 0.5, 1) == {"accuracy": 0.0}, "no score is no label"


def test_labels_of_vertices_are_different_float32_numbers(monkeypatch):
    assert vertex_labels(3).tolist() == [0, 1, 2]
    assert vertex_labels(2**24)[-1] == 2**24 - 1, "the largest graph with its own numbers"
    monkeypatch.setattr(components, "EXACT", 4)
    assert vertex_labels(4).tolist() == [0, 1, 2, 3]
    many = vertex_labels(5)
    assert (many[0], many.dtype) == (1.0, np.float32)
    assert many.tolist() == [np.nextafter(np.float32(1), np.float32(2)) * 0 + 1 + i * 2.0**-23 for i in range(5)]
    with pytest.raises(InvalidInput, match=rf"{2**30 + 1} vertices: float32 has different labels for 2\^30"):
        vertex_labels(2**30 + 1)


def test_sizes_of_components_and_cores():
    graph = Graph.from_edges([0, 1, 3], [1, 2, 4], num_vertices=6, name="g")
    label = np.array([0, 0, 0, 3, 3, 5.0])
    assert Components().metrics(graph, {"label": label}) == {"components": 3.0, "largest": 0.5}
    assert KCore().metrics(graph, {"alive": np.array([1, 1, 0, 0, 0, 1.0])}) == {"in_core": 3.0, "share": 0.5}
    empty = Graph.from_edges([], [], num_vertices=0, name="empty")
    assert Components().metrics(empty, {"label": np.zeros(0)}) == {"components": 0.0, "largest": 0.0}
    assert KCore().metrics(empty, {"alive": np.zeros(0)}) == {"in_core": 0.0, "share": 0.0}


def test_reached_vertices_and_the_farthest():
    level = np.array([[0, 2.0], [1, np.inf], [np.inf, 0]])
    graph = Graph.from_edges([0], [1], num_vertices=3, name="g")
    for algorithm, name in ((BFS(), "level"), (SSSP(), "distance")):
        assert algorithm.metrics(graph, {name: level}) == {"reached": 4 / 6, "farthest": 2.0}
        assert algorithm.metrics(graph, {name: np.full((3, 1), np.inf)}) == {"reached": 0.0, "farthest": 0.0}


def test_the_weight_of_a_forest():
    graph = Graph.from_edges([0, 1], [1, 2], num_vertices=4, name="g", weights=[1, 2])
    values = {"lower": np.array([0, np.inf, 1, np.inf]), "cost": np.array([1.5, 9.0, 2.0, 9.0], np.float32)}
    assert MST().metrics(graph, values) == {"weight": 3.5, "edges": 2.0, "trees": 2.0}


def test_a_core_is_of_the_simple_graph_of_neighbours():
    graph = Graph.from_edges([0, 0, 0, 1, 2], [0, 1, 1, 2, 1], num_vertices=3, name="g", duplicates="keep")
    simple = KCore().prepare_graph(graph)
    assert simple.csr.row_of_edge.tolist() == [0, 1, 1, 2]
    assert simple.csr.neighbours.tolist() == [1, 0, 2, 1]
    parallel = Graph.from_edges([0, 0], [1, 1], name="p", duplicates="keep")
    assert KCore().prepare_graph(parallel).num_edges == 2
    looped = Graph.from_edges([0, 1], [1, 1], name="l")
    assert KCore().prepare_graph(looped).num_edges == 2
    plain = Graph.from_edges([0], [1], name="plain", weights=[3.0])
    assert KCore().prepare_graph(plain).weights.tolist() == [3.0, 3.0]


def test_a_forest_is_of_the_lightest_edge_in_either_direction():
    graph = Graph.from_edges([0, 1, 1, 2], [1, 0, 2, 1], weights=[3, 2, 5, 5], name="g")
    made = MST().prepare_graph(graph)
    assert made.weights.tolist() == [2, 2, 5, 5]
    same = Graph.from_edges([0, 1], [1, 0], weights=[3, 3], name="g")
    assert MST().prepare_graph(same) is same


def test_a_segment_has_its_mean_colour(tmp_path):
    graph = Graph.from_edges(
        [0], [1], num_vertices=6, name="g", meta={"height": 2, "width": 3},
        vertex_data={"colour": np.array([[0, 0, 0], [1, 0, 0.5], [0, 1, 0], [1, 1, 1], [0, 0, 0], [1, 0.5, 0]])},
    )  # fmt: skip
    write_segmentation(graph, np.array([0, 0, 2, 2, 0, 4]), tmp_path / "a.png")
    with Image.open(tmp_path / "a.png") as picture:
        assert picture.size == (3, 2)
        first, second = (85, 0, 42), (127, 255, 127)
        assert [picture.getpixel((x, y)) for y in range(2) for x in range(3)] == [
            first, first, second, second, first, (255, 127, 0)
        ]  # fmt: skip
    grey = Graph.from_edges([0], [1], name="g", meta={"height": 1, "width": 2}, vertex_data={"colour": [0.5, 1.0]})
    LabelPropagation().artefacts(grey, {"lp": np.array([[1, 0], [0, 1.0]])}, tmp_path)
    with Image.open(tmp_path / "segmentation.png") as picture:
        assert [picture.getpixel((x, 0)) for x in range(2)] == [(127, 127, 127), (255, 255, 255)]
    wide = Graph.from_edges(
        [0], [1], num_vertices=4, name="g", meta={"height": 1, "width": 4}, vertex_data={"colour": [0.2, 1.0, 0.6, 0.0]}
    )
    labels = np.array([[0.6, 0.3, 0.1], [0.2, 0.3, 0.5], [0.9, 0.1, 0.0], [0.1, 0.8, 0.1]])
    LabelPropagation().artefacts(wide, {"lp": labels}, tmp_path)
    with Image.open(tmp_path / "segmentation.png") as picture:
        assert [picture.getpixel((x, 0))[0] for x in range(4)] == [102, 255, 102, 0]


def test_other_graphs_leave_no_picture(tmp_path):
    for meta in ({}, {"height": 1}, {"width": 2}):
        graph = Graph.from_edges([0], [1], name="g", meta=meta, vertex_data={"colour": [0.5, 1.0]})
        LabelPropagation().artefacts(graph, {"lp": np.eye(2)}, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_truncated_linear_potentials():
    found = truncated_linear(4, 0.5, 2.0)
    away = np.minimum(np.abs(np.subtract.outer(range(4), range(4))), 2.0)
    np.testing.assert_allclose(found, np.exp(-0.5 * away), rtol=1e-6)
    assert found.dtype == np.float32
    assert (truncated_linear(3, 1000.0, 1.0) > 0).all()
    assert truncated_linear(2, 0.0, 1.0).tolist() == [[1, 1], [1, 1]]
    for smoothness, truncation in ((-0.1, 1.0), (1.0, 0.0), (1.0, -1.0)):
        message = f"smoothness={smoothness}, truncation={truncation}: smoothness must be >= 0 and truncation positive"
        with pytest.raises(InvalidInput, match=re.escape(message)):
            truncated_linear(2, smoothness, truncation)


RATED = Graph.from_edges(
    [0, 0, 1, 1], [2, 3, 2, 4], weights=[4, 2, 5, 1], name="rated", bipartite=(2, 3), symmetrize=True
)


def test_ratings_once_and_in_both_directions():
    once = left_to_right(RATED)
    assert once.weights.tolist() == [4, 2, 5, 1]
    assert left_to_right(once) is once
    assert ratings(once) is once.weights
    assert ratings(Graph.from_edges([], [], num_vertices=2, name="none")).tolist() == []
    for weights in (None, [3, 3]):
        with pytest.raises(InvalidInput, match="graph 'g' has no ratings that differ"):
            ratings(Graph.from_edges([0, 1], [1, 0], weights=weights, name="g"))


def test_both_directions_of_a_rating_are_held_out_together():
    held = held_out(RATED, 0.5, 3)
    assert 0 < held.sum() < RATED.num_edges
    assert (held == held[RATED.reverse_edges]).all()
    assert (held == held_out(RATED, 0.5, 3)).all()
    kept = training(RATED, held)
    assert (kept.num_edges, kept.meta[HELD_OUT]) == (8 - held.sum(), held.sum())
    assert not held_out(RATED, 0.0, 3).any()
    with pytest.raises(InvalidInput, match="graph 'rated' has its held-out ratings removed already"):
        held_out(kept, 0.5, 3)
    for share in (-0.1, 1.0):
        with pytest.raises(
            InvalidInput, match=re.escape(f"holdout={share}: the share of held-out ratings lies in [0, 1)")
        ):
            held_out(RATED, share, 3)
    with pytest.raises(
        InvalidInput, match=r"holdout=0\.999999 leaves no rating of graph 'rated' for training; lower it"
    ):
        held_out(RATED, 0.999999, 3)


def test_a_double_cover_has_a_column_for_every_vertex():
    cover = double_cover(Graph.from_edges([0, 1, 1], [1, 0, 1], weights=[1, 2, 3], name="g", meta={"a": 1}))
    assert (cover.name, cover.bipartite, cover.num_vertices, cover.meta) == ("g, double cover", (2, 2), 4, {"a": 1})
    assert cover.csr.row_of_edge.tolist() == [0, 1, 1]
    assert cover.csr.neighbours.tolist() == [3, 2, 3]
    assert cover.weights.tolist() == [1, 2, 3]
    cover.validate()


def test_errors_of_predictions_by_hand(monkeypatch):
    monkeypatch.setattr("harness.algorithms.ratings.PAIRS", 3)
    held = np.array([False, True, False, False])
    once = left_to_right(RATED)
    factors = np.array([[1, 2], [0, 1], [1, 0], [2, 1], [1, 1.0]])
    mean = (4 + 5 + 1) / 3
    product = np.array([1, 4, 0, 1.0])
    off = np.array([4, 2, 5, 1]) - (mean + product)
    expected = {"train_rmse": math.sqrt((off[~held] ** 2).mean()), "rmse": abs(off[1])}
    assert prediction_errors(once, factors, held) == pytest.approx(expected)
    bias = np.array([0.5, -0.5, 1, 0, 2])
    off -= bias[[0, 0, 1, 1]] + bias[[2, 3, 2, 4]]
    expected = {"train_rmse": math.sqrt((off[~held] ** 2).mean()), "rmse": abs(off[1])}
    assert prediction_errors(once, factors, held, bias) == pytest.approx(expected)
    assert root_mean_squares(np.array([3.0, 4.0]), np.array([False, False])) == {"train_rmse": math.sqrt(12.5)}
    assert root_mean_squares(np.array([3.0]), np.array([True])) == {"rmse": 3.0}


@pytest.mark.parametrize(
    ("kind", "given", "offset", "scale"),
    [
        ("centre", [1, 2, 6], 3.0, 1.0),
        ("centre", [], 0.0, 1.0),
        ("largest", [1, -6, 2], 0.0, 6.0),
        ("largest", [], 0.0, 1.0),
        ("largest", [0, 0], 0.0, 1.0),
        ("deviation", [1, 5], 0.0, 2.0),
        ("deviation", [], 0.0, 1.0),
    ],
)
def test_ratings_are_offset_plus_scale_times_what_is_fitted(kind, given, offset, scale):
    assert normalisation(kind, np.array(given, np.float32)) == pytest.approx((offset, scale))


@pytest.mark.parametrize(
    ("features", "first", "others"), [(3, 3, 0.0), (8, 8, 0.0), (9, 8, 1 / 8), (16, 8, 1 / 8), (17, 8, 1 / 16)]
)
def test_the_first_features_have_their_own_rate(features, first, others):
    parts = twin_parts(features)
    assert parts["first"].tolist() == [1.0] * first + [0.0] * (features - first)
    assert parts["others"] == pytest.approx(others)
    assert {one.dtype for one in parts.values()} == {np.dtype(np.float32)}


@pytest.mark.parametrize("rates", ["power", "adagrad", "twin"])
@pytest.mark.parametrize("bias", ["none", "both"])
def test_two_sweeps_over_one_rating_are_the_formulas(rates, bias):
    k, alpha, beta, lam, rating = 10, 0.1, 0.5, 0.05, 1.5
    made = SGDMatrixFactorisation(rates=rates, bias=bias, alpha=alpha, beta=beta, lam=lam, epochs=2, sides="double")
    graph = Graph.from_edges([0], [1], num_vertices=2, weights=[2.0], name="one", bipartite=(1, 1))
    initial = np.random.default_rng(2).random((2, k), np.float32)
    parts = twin_parts(k) if rates == "twin" else {}
    given = {"rating": np.array([rating], np.float32), "initial": initial, **parts}
    inputs = Inputs(given, made.parameter_values())
    run = ReferenceRun(trace(made), graph, k)
    run.reset(inputs)
    run.run(2)

    x = [row.astype(np.float64) for row in initial]
    b, g, h = [0.0, 0.0], [1.0, 1.0], [1.0, 1.0]
    first = np.arange(k) < 8
    for sweep in range(2):
        error = rating - x[0] @ x[1] - (b[0] + b[1] if bias == "both" else 0.0)
        down = [lam * x[0] - error * x[1], lam * x[1] - error * x[0]]
        for end in (0, 1):
            square = down[end] ** 2
            if rates == "power":
                rate = each = alpha / (1 + beta * sweep**1.5)
            elif rates == "adagrad":
                g[end] += square.mean()
                rate = each = alpha / math.sqrt(g[end])
            else:
                rate = alpha / math.sqrt(g[end])
                each = np.where(first, rate, alpha / math.sqrt(h[end]) if sweep else 0.0)
                g[end] += square[first].sum() / 8
                h[end] += square[~first].sum() / 8 if sweep else 0.0
            x[end] = x[end] - each * down[end]
            b[end] += rate * (error - lam * b[end])
    np.testing.assert_allclose(run.values("x"), x, rtol=1e-6)
    if bias == "both":
        np.testing.assert_allclose(run.values("b"), b, rtol=1e-6)
