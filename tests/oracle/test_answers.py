"""The oracle itself: other libraries, exhaustive sums and closed forms agree with it, and it refuses wrong answers."""

from __future__ import annotations

import itertools
from dataclasses import replace

import networkx as nx
import numpy as np
import pytest

from harness.algorithms.als import ALS
from harness.algorithms.belief_propagation import BeliefPropagation
from harness.algorithms.bfs import BFS
from harness.algorithms.components import Components
from harness.algorithms.kcore import KCore
from harness.algorithms.label_propagation import LabelPropagation
from harness.algorithms.manifold_ranking import ManifoldRanking
from harness.algorithms.multimodal import Multimodal
from harness.algorithms.pagerank import PageRank
from harness.algorithms.sssp import SSSP
from harness.graph import Graph
from tests.oracle import linear
from tests.oracle.answers import Answers
from tests.oracle.error_model import Expected
from tests.oracle.graphs import hub_and_ring, two_sides


def answers(algorithm, given, features):
    graph = algorithm.prepare_graph(given)
    inputs = algorithm.inputs(graph, features)
    return graph, inputs, Answers(algorithm, graph, inputs)


def networkx_graph(graph, kind=nx.DiGraph):
    made = kind()
    made.add_nodes_from(range(graph.num_vertices))
    weights = np.ones(graph.num_edges) if graph.weights is None else graph.weights
    for u, v, w in zip(graph.csr.row_of_edge, graph.csr.neighbours, weights, strict=True):
        known = made.get_edge_data(int(u), int(v), {"weight": np.inf, "count": 0})
        made.add_edge(int(u), int(v), weight=min(float(w), known["weight"]), count=known["count"] + 1)
    return made


def test_pagerank_is_that_of_networkx():
    graph, inputs, oracle = answers(PageRank(), hub_and_ring(), 2)
    for column in range(2):
        teleport = dict(enumerate(inputs.properties["teleport"][:, column].astype(float)))
        ranks = nx.pagerank(
            networkx_graph(graph), 0.85, teleport, max_iter=1000, tol=1e-16, weight="count", dangling=teleport
        )
        np.testing.assert_allclose(
            oracle.fixed(False).value[:, column], [ranks[v] for v in range(350)], rtol=1e-9, atol=1e-15
        )


@pytest.mark.parametrize("algorithm", [PageRank(), LabelPropagation(), ManifoldRanking(), Multimodal()])
def test_iterates_reach_the_fixed_point_from_within_its_bound(algorithm, monkeypatch):
    graph, inputs, oracle = answers(algorithm, hub_and_ring(), 2)
    fixed = oracle.fixed(False)
    np.testing.assert_allclose(oracle.after(3000, False).value, fixed.value, rtol=1e-9, atol=1e-12)
    assert fixed.ratio(oracle.after(3000, False).value) < 1e-3
    assert fixed.ratio(oracle.after(20, False).value) > 1
    monkeypatch.setattr(linear, "DIRECT", 0)
    summed = Answers(algorithm, graph, inputs).fixed(False)
    np.testing.assert_allclose(summed.value, fixed.value, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(summed.allowed, fixed.allowed, rtol=1e-6, atol=1e-15)


@pytest.mark.parametrize("algorithm", [LabelPropagation(), ManifoldRanking(), Multimodal()])
def test_an_answer_from_ten_times_the_tolerance_is_refused(algorithm):
    given = path(60) if isinstance(algorithm, LabelPropagation) else two_triangles()
    _, _, oracle = answers(algorithm, given, 2)
    far = ten_times_too_early(oracle.oracle, algorithm)
    assert oracle.fixed(False).ratio(far) > 1


def test_a_tolerance_on_columns_allows_errors_of_that_sum_and_ten_times_it_is_refused():
    """Rank that starts in one of two cliques connected by one edge moves to the other slowly and in one direction."""
    pairs = np.array(list(itertools.combinations(range(8), 2)))
    ends = np.concatenate([pairs, pairs + 8, [[7, 8]]])
    graph = Graph.from_edges(*ends.T, num_vertices=16, name="two cliques", symmetrize=True)
    algorithm = PageRank(tolerance=1e-4, personalise="vertices")
    oracle = Answers(algorithm, graph, algorithm.inputs(graph, 1), "sum")
    iterates = {n: oracle.after(n, False).value for n in range(1, 120)}
    moved = {n: np.abs(iterates[n] - iterates[n - 1]).sum() for n in range(2, 120)}
    settled, early = (min(n for n in moved if moved[n] <= limit) for limit in (1e-4, 1e-3))
    assert oracle.fixed(False).ratio(iterates[settled]) < 1 < oracle.fixed(False).ratio(iterates[early])


def path(count):
    ends = np.arange(count - 1)
    return Graph.from_edges(ends, ends + 1, num_vertices=count, name="path", symmetrize=True)


def two_triangles():
    """Return two triangles joined by an edge of small weight, which carries the slowest movement."""
    source, destination = [0, 1, 2, 3, 4, 5, 2], [1, 2, 0, 4, 5, 3, 3]
    return Graph.from_edges(
        source, destination, num_vertices=6, weights=[1.0] * 6 + [0.01], name="two triangles", symmetrize=True
    )


def ten_times_too_early(problem, algorithm):
    """Return an iterate after which no entry moves by more than ten times the tolerance, searched in steps of a
    twentieth."""
    relative, number = not isinstance(algorithm, LabelPropagation), 20
    while True:
        number += number // 20
        before, after = (problem.after(n, False).value for n in (number, number + 1))
        if (np.abs(after - before) <= 10 * algorithm.tolerance * (np.abs(after) if relative else 1.0)).all():
            return after


def test_levels_distances_components_and_cores_are_those_of_networkx():
    given = hub_and_ring()
    _, inputs, oracle = answers(BFS(), given, 3)
    directed = networkx_graph(given)
    starts = inputs.properties["source"].argmin(axis=0)
    for column, start in enumerate(starts):
        levels = nx.single_source_shortest_path_length(directed, int(start))
        assert oracle.fixed(False).value[:, column].tolist() == [levels.get(v, np.inf) for v in range(350)]
    _, _, oracle = answers(SSSP(), given, 3)
    for column, start in enumerate(starts):
        lengths = nx.single_source_dijkstra_path_length(directed, int(start))
        want = [lengths.get(v, np.inf) for v in range(350)]
        np.testing.assert_allclose(oracle.fixed(False).value[:, column], want, rtol=1e-14)
    _, _, oracle = answers(Components(), given, 1)
    least = {v: min(part) for part in nx.weakly_connected_components(directed) for v in part}
    assert oracle.fixed(False).value[:, 0].tolist() == [least[v] for v in range(350)]
    simple = networkx_graph(given, nx.Graph)
    simple.remove_edges_from(list(nx.selfloop_edges(simple)))
    for core in (1, 2, 3):
        _, _, oracle = answers(KCore(core=core), given, 1)
        inside = set(nx.k_core(simple, core))
        assert oracle.fixed(False).value[:, 0].tolist() == [float(v in inside) for v in range(350)]


def test_edges_of_length_zero_are_followed():
    graph = Graph.from_edges([0, 1, 0], [1, 2, 2], weights=[0.0, 0.5, 0.75], num_vertices=3, name="zero")
    _, _, oracle = answers(SSSP(sources="0"), graph, 1)
    assert oracle.fixed(False).value[:, 0].tolist() == [0.0, 0.0, 0.5]


@pytest.mark.parametrize("rule", ["sum", "max"])
def test_beliefs_on_a_tree_are_the_marginals_of_all_joint_states(rule):
    tree = Graph.from_edges([0, 1, 1, 3], [1, 2, 3, 4], num_vertices=5, name="tree", symmetrize=True)
    _, inputs, oracle = answers(BeliefPropagation(rule=rule, vertices="drawn"), tree, 3)
    phi, psi = (np.asarray(inputs.properties[name], float) for name in ("phi", "psi"))
    combined = np.zeros((5, 3))
    for state in itertools.product(range(3), repeat=5):
        weight = np.prod([phi[v, x] for v, x in enumerate(state)])
        weight *= np.prod([psi[state[u], state[v]] for u, v in [(0, 1), (1, 2), (1, 3), (3, 4)]])
        for v, x in enumerate(state):
            combined[v, x] = combined[v, x] + weight if rule == "sum" else max(combined[v, x], weight)
    got = oracle.after(8, left_out=False)
    np.testing.assert_allclose(got.value, combined / combined.sum(axis=1, keepdims=True), rtol=1e-12)
    assert got.allowed.max() < 1e-4


def test_alternating_least_squares_solves_each_row():
    algorithm = ALS(supersteps=2)
    graph, inputs, oracle = answers(algorithm, two_sides(), 3)
    before, after = oracle.after(1, left_out=False).value, oracle.after(2, left_out=False).value
    rating, row = np.asarray(inputs.properties["rating"], float), graph.csr.row_of_edge
    for v in (60, 84):  # the right side, in the second superstep
        edges = np.flatnonzero(graph.csr.neighbours == v)
        known = before[row[edges]]
        stacked = np.vstack([known, np.sqrt(algorithm.lam * len(edges)) * np.eye(3)])
        want = np.linalg.lstsq(stacked, np.concatenate([rating[edges], np.zeros(3)]), rcond=None)[0]
        np.testing.assert_allclose(after[v], want, rtol=1e-8)
    assert (after[:60] == before[:60]).all()


def test_affinities_of_multimodal_learning_have_a_spectral_norm_of_one():
    graph, inputs, _ = answers(Multimodal(), hub_and_ring(), 2)
    matrix = linear.in_matrix(
        graph.num_vertices, graph.csr.row_of_edge, graph.csr.neighbours, inputs.properties["affinity"][:, 0]
    )
    assert np.linalg.norm(matrix.toarray(), 2) == pytest.approx(1.0, abs=1e-5)


def test_errors_are_compared_by_entries_and_columns():
    value = np.array([[1.0, np.inf], [0.5, 0.0]])
    expected = Expected(value, np.full((2, 2), 1e-3), np.array([1.5e-3, 1e-3]), "made up")
    assert expected.ratio(value) == 0
    for error, ratio in (
        ([[1e-3, 0], [0, 0]], 1.0),
        ([[0, 0], [2e-3, 0]], 2.0),
        ([[9e-4, 0], [9e-4, 0]], 1.2),  # by the sum of the column
        ([[0, 0], [np.nan, 0]], np.inf),
    ):
        assert expected.ratio(np.add(value, error)) == pytest.approx(ratio)
    assert expected.ratio(np.array([[1.0, 3.0], [0.5, 0.0]])) == np.inf
    assert replace(expected, allowed=np.zeros((2, 2))).ratio(np.add(value, [[0, 0], [0, 1e-30]])) == np.inf
    assert "[1, 0]" in expected.place(np.add(value, [[0, 0], [2e-3, 0]]))
