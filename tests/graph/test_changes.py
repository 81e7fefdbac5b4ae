"""Graphs that changed slightly, and which edges of two graphs are the same."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.graph import Graph, GraphError, changes
from harness.graph.changes import HEAVIER, LIGHTER, change_graph, correspondence
from harness.graph.generators import random_ratings, rmat
from tests.algorithms.multigraphs import multigraphs

KINDS = ("insert", "delete", "heavier", "lighter", "weights", "mixed")


def pairs(graph):
    return sorted(zip(graph.csr.row_of_edge.tolist(), graph.csr.neighbours.tolist(), strict=True))


@pytest.mark.parametrize(("kind", "ends"), [("heavier", HEAVIER), ("lighter", LIGHTER)])
def test_a_self_loop_changes_once(kind, ends):
    loops = np.arange(20)
    graph = Graph.from_edges(loops, loops, weights=np.ones(20), name="loops", directed=False)
    weights = change_graph(graph, 1.0, kind=kind, seed=3).weights
    assert graph.has_reverse_edges
    assert (np.clip(weights, *ends) == weights).all()
    assert (weights != 1).all()


@given(multigraphs(), st.sampled_from(KINDS), st.booleans(), st.integers(0, 99))
@settings(max_examples=60)
def test_changes_are_of_the_requested_kind(graph, kind, both_ways, seed):
    graph = graph.with_reverse_edges() if both_ways else graph
    if not graph.num_edges:
        with pytest.raises(GraphError, match="no edges"):
            change_graph(graph, 0.1, kind=kind)
        return
    try:
        changed = change_graph(graph, 0.2, kind=kind, seed=seed)
    except GraphError:  # every pair of vertices is connected already
        assert len(set(pairs(graph.with_reverse_edges()))) >= graph.num_vertices * (graph.num_vertices - 1) / 4
        assert kind in ("insert", "mixed")
        return
    changed.validate()
    found = correspondence(graph, changed)
    assert len(found.old) == len(found.new)
    assert np.array_equal(graph.csr.row_of_edge[found.old], changed.csr.row_of_edge[found.new])
    assert np.array_equal(graph.csr.neighbours[found.old], changed.csr.neighbours[found.new])
    assert len(found.removed) + len(found.old) == graph.num_edges
    assert len(found.added) + len(found.new) == changed.num_edges
    was, now = graph.weights[found.old], changed.weights[found.new]
    if kind == "delete":
        assert len(found.removed) > 0
        assert pairs(changed) == sorted(set_minus(pairs(graph), pairs(graph.select_edges(removed_mask(graph, found)))))
    if kind not in ("delete", "mixed"):
        assert len(found.removed) == 0
    if kind == "insert":
        assert len(found.added) > 0
        assert not set(pairs(graph)) & {pairs_of(changed, e) for e in found.added}
    if kind not in ("insert", "mixed"):
        assert len(found.added) == 0
    if kind in ("insert", "heavier"):
        assert (now >= was).all()
    if kind == "lighter":
        assert (now <= was).all()
    if graph.has_reverse_edges:
        assert changed.has_reverse_edges


def removed_mask(graph, found):
    mask = np.zeros(graph.num_edges, np.bool_)
    mask[found.removed] = True
    return mask


def set_minus(some, others):
    rest = list(some)
    for pair in others:
        rest.remove(pair)
    return rest


def pairs_of(graph, e):
    return int(graph.csr.row_of_edge[e]), int(graph.csr.neighbours[e])


def test_the_same_seed_makes_the_same_changes():
    graph = rmat(scale=8, edge_factor=8, max_weight=4)
    one, same, other = (change_graph(graph, 0.01, seed=seed) for seed in (3, 3, 4))
    assert one.content_hash == same.content_hash != other.content_hash
    assert 0 < len(correspondence(graph, one).removed) < 0.02 * graph.num_edges


def test_sides_are_kept_apart():
    graph = random_ratings(users=30, items=20, num_ratings=200).with_reverse_edges()
    changed = change_graph(graph, 0.1, kind="insert")
    left = changed.csr.row_of_edge < changed.bipartite[0]
    assert (left != (changed.csr.neighbours < changed.bipartite[0])).all()
    reverse = changed.reverse_edges
    assert np.array_equal(changed.weights, changed.weights[reverse])


def test_data_of_new_edges_are_those_of_an_existing_one_its_reverse_transposed():
    tables = np.random.default_rng(1).random((3, 2, 2))
    both = np.concatenate([tables, tables.transpose(0, 2, 1)])
    graph = Graph.from_edges(
        [0, 1, 2, 1, 2, 3],
        [1, 2, 3, 0, 1, 2],
        num_vertices=6,
        name="path",
        edge_data={"pairwise": both},
        directed=False,
    )
    changed = change_graph(graph, 1.0, kind="insert", seed=2)
    made = changed.edge_data["pairwise"]
    assert changed.num_edges == 12
    assert np.array_equal(made[changed.reverse_edges], made.transpose(0, 2, 1))


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"kind": "grow"}, "grow"),
        ({"share": 0.0}, "share"),
        ({"share": 1.5}, "share"),
        ({"kind": "heavier"}, "weights"),
    ],
)
def test_invalid_settings_are_refused(options, word):
    graph = Graph.from_edges([0, 1], [1, 2], name="plain")
    with pytest.raises(GraphError, match=word):
        change_graph(graph, options.pop("share", 0.5), **options)


def test_graphs_of_other_vertices_do_not_correspond():
    with pytest.raises(GraphError, match="vertices"):
        correspondence(rmat(scale=4), rmat(scale=5))


@pytest.mark.parametrize(
    ("kind", "weighted", "shares"),
    [
        ("mixed", True, {"insert": 1 / 3, "delete": 1 / 3, "heavier": 1 / 6, "lighter": 1 / 6}),
        ("mixed", False, {"insert": 1 / 2, "delete": 1 / 2}),
        ("weights", True, {"heavier": 1 / 2, "lighter": 1 / 2}),
        ("insert", True, {"insert": 1}),
        ("delete", False, {"delete": 1}),
        ("heavier", True, {"heavier": 1}),
        ("lighter", True, {"lighter": 1}),
    ],
)
def test_a_kind_of_change_is_made_of_simple_ones_in_proportion(kind, weighted, shares):
    count = 4000
    v = np.arange(2 * count)
    ring = Graph.from_edges(v, (v + 1) % len(v), weights=np.ones(len(v)) if weighted else None, name="ring")
    changed = change_graph(ring, 0.5, kind=kind, seed=5)
    found = correspondence(ring, changed)
    now = changed.weights[found.new] if weighted else np.ones(len(found.new))
    made = {
        "insert": len(found.added), "delete": len(found.removed), "heavier": (now > 1).sum(), "lighter": (now < 1).sum()
    }  # fmt: skip
    assert sum(made.values()) == count
    for name, number in made.items():
        expected = count * shares.get(name, 0)
        assert abs(number - expected) <= 5 * np.sqrt(expected), name
    if weighted:
        heavier, lighter = now[now > 1], now[now < 1]
        assert (np.clip(heavier, *HEAVIER) == heavier).all()
        assert (np.clip(lighter, *LIGHTER) == lighter).all()
    for values, ends in ((now[now > 1], HEAVIER), (now[now < 1], LIGHTER)):
        if len(values):
            assert abs(values.mean() - sum(ends) / 2) < 0.05 * (ends[1] - ends[0]), "uniform between the ends"


def test_a_graph_with_all_edges_takes_no_more():
    u, v = np.divmod(np.arange(9), 3)
    whole = Graph.from_edges(u[u != v], v[u != v], name="K3")
    with pytest.raises(GraphError, match="graph 'K3' has no pair of vertices left that an edge could join"):
        change_graph(whole, 0.5, kind="insert")
    missing = Graph.from_edges([0, 0, 1, 1, 2], [1, 2, 0, 2, 0], name="K3 but one")
    assert pairs(change_graph(missing, 1.0, kind="insert")) == [*pairs(missing), (2, 1)]


def test_at_least_one_edge_changes_and_shares_are_rounded():
    path = Graph.from_edges(range(10), range(1, 11), name="path")
    for share, deleted in ((0.01, 1), (0.14, 1), (0.16, 2), (1.0, 10)):
        assert change_graph(path, share, kind="delete").num_edges == 10 - deleted


def test_data_stays_with_the_vertices_and_edges():
    graph = Graph.from_edges(
        [0, 1, 2], [1, 2, 3], name="path", labels=[0, 1, 0, -1], vertex_data={"x": [1, 2, 3, 4]},
        edge_data={"kind": [5, 6, 7]}, meta={"origin": "here"},
    )  # fmt: skip
    changed = change_graph(graph, 0.3, kind="delete", seed=1)
    kept = correspondence(graph, changed)
    assert changed.edge_data["kind"].tolist() == graph.edge_data["kind"][kept.old].tolist()
    assert (changed.name, changed.meta, changed.directed) == ("path", {"origin": "here"}, True)
    assert changed.labels.tolist() == [0, 1, 0, -1]
    assert changed.vertex_data["x"].tolist() == [1, 2, 3, 4]


def test_parallel_edges_correspond_in_their_order():
    old = Graph.from_edges([0, 0, 1, 0], [1, 1, 0, 2], name="old", duplicates="keep")
    new = Graph.from_edges([0, 0, 0, 2], [1, 1, 1, 0], num_vertices=3, name="new", duplicates="keep")
    found = correspondence(old, new)
    assert (found.old.tolist(), found.new.tolist()) == ([0, 1], [0, 1])
    assert (found.removed.tolist(), found.added.tolist()) == ([2, 3], [2, 3])
    empty = Graph.from_edges([], [], num_vertices=3, name="empty")
    assert correspondence(old, empty).removed.tolist() == [0, 1, 2, 3]
    assert correspondence(empty, old).added.tolist() == [0, 1, 2, 3]


def test_keys_of_edges_must_fit_into_64_bits(monkeypatch):
    graph = Graph.from_edges([0, 0], [1, 1], num_vertices=4, name="two", duplicates="keep")
    monkeypatch.setattr(changes, "LARGEST", 32)
    assert correspondence(graph, graph).old.tolist() == [0, 1]
    monkeypatch.setattr(changes, "LARGEST", 31)
    with pytest.raises(GraphError, match="graph 'two' is too large to be matched: 4 vertices, 2 parallel"):
        correspondence(graph, graph)


def test_a_graph_of_both_directions_does_not_change():
    graph = Graph.from_edges([0, 1], [1, 2], name="path").both_directions()
    with pytest.raises(GraphError, match="stores every edge in both directions, .*; changes of its edges are not"):
        change_graph(graph, 0.5)
