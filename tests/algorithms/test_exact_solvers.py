"""The methods that settled runs are compared with agree with the program's reference on graphs of every kind."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.algorithms.als import ALS
from harness.algorithms.bfs import BFS
from harness.algorithms.components import Components
from harness.algorithms.exact_solvers import core_members, hops
from harness.algorithms.kcore import KCore
from harness.algorithms.mst import MST
from harness.algorithms.pagerank import PageRank
from harness.algorithms.sssp import SSSP
from harness.algorithms.starting_vertices import starting_vertices
from harness.graph import Graph
from harness.graph.generators import rmat
from tests.algorithms.answers import answer
from tests.algorithms.multigraphs import multigraphs

ALGORITHMS = [BFS(seed=1), SSSP(seed=2), Components(), KCore(core=1), KCore(core=2), KCore(core=3)]


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=str)
@given(graph=multigraphs(), features=st.integers(1, 3))
@settings(max_examples=40)
def test_they_give_the_references_settled_answer(algorithm, graph, features):
    values, settled = answer(algorithm, graph, features)
    assert settled
    found = algorithm.settled_answer(algorithm.prepare_graph(graph), features)
    ((_, solved),) = found.values.items()
    assert solved.dtype == np.float64
    assert np.array_equal(solved, values)  # multiples of 1/8 add up exactly


def test_without_weights_every_edge_has_length_one():
    graph = rmat(8, edge_factor=4)
    assert graph.weights is None
    by_length, by_edges = (kind(seed=3).settled_answer(graph, 2).values for kind in (SSSP, BFS))
    assert np.array_equal(by_length["distance"], by_edges["level"])


@pytest.mark.parametrize("core", [1, 2, 4, 8, 16])
def test_cores_are_those_of_networkx(core):
    graph = KCore(core=core).prepare_graph(rmat(9, edge_factor=8))
    network = nx.Graph(zip(graph.csr.row_of_edge.tolist(), graph.csr.neighbours.tolist(), strict=True))
    network.add_nodes_from(range(graph.num_vertices))
    numbers = nx.core_number(network)
    assert core_members(graph, core)[0].tolist() == [numbers[v] >= core for v in range(graph.num_vertices)]


def test_no_edges_and_no_vertices():
    for vertices in (0, 3):
        graph = Graph.from_edges([], [], num_vertices=vertices, name="bare")
        assert Components().settled_answer(graph, 1).values["label"].tolist() == list(range(vertices))
        assert KCore(core=1).settled_answer(graph, 1).values["alive"].tolist() == [0.0] * vertices


@pytest.mark.parametrize("algorithm", [PageRank(), ALS()], ids=lambda a: a.name)
def test_the_others_have_none(algorithm):
    assert algorithm.settled_answer(Graph.from_edges([0, 1], [1, 0], name="pair"), 2) is None


def network_of(graph):
    network = nx.Graph()
    network.add_nodes_from(range(graph.num_vertices))
    network.add_edges_from(zip(graph.csr.row_of_edge.tolist(), graph.csr.neighbours.tolist(), strict=True))
    network.remove_edges_from(list(nx.selfloop_edges(network)))
    return network


def rounds_of_peeling(network, core):
    rounds = 0
    while few := [v for v in network if network.degree(v) < core]:
        network.remove_nodes_from(few)
        rounds += 1
    return rounds


def rounds_of_boruvka(graph):
    """Join every tree by its least edge (by weight, then ends) at the same time, until none leaves its tree."""
    ends = np.sort([graph.csr.row_of_edge, graph.csr.neighbours], axis=0).T.tolist()
    edges, tree, rounds = sorted(zip(graph.weights.tolist(), ends, strict=True)), list(range(graph.num_vertices)), 0
    while True:
        least = {}
        for _, (u, v) in edges:
            if tree[u] != tree[v]:
                least.setdefault(tree[u], (u, v))
                least.setdefault(tree[v], (u, v))
        if not least:
            return rounds
        rounds += 1
        for u, v in least.values():
            old, new = tree[u], tree[v]
            tree = [new if one == old else one for one in tree]


@given(graph=multigraphs(), core=st.integers(1, 4))
@settings(max_examples=20)
def test_least_supersteps_are_the_rounds_that_an_answer_takes_by_hand(graph, core):
    def least(algorithm, features=1):
        return algorithm.settled_answer(algorithm.prepare_graph(graph), features).least_supersteps

    network = network_of(graph)
    near = [nx.single_source_shortest_path_length(network, min(part)) for part in nx.connected_components(network)]
    assert least(Components()) == max((max(one.values()) for one in near), default=0)
    assert least(KCore(core=core)) == rounds_of_peeling(network, core)
    prepared = MST().prepare_graph(graph)
    assert least(MST()) == rounds_of_boruvka(prepared)
    directed = nx.DiGraph()
    directed.add_nodes_from(range(graph.num_vertices))
    directed.add_edges_from(zip(graph.csr.row_of_edge.tolist(), graph.csr.neighbours.tolist(), strict=True))
    for algorithm in (SSSP(seed=1), BFS(seed=1)):
        sources = starting_vertices(algorithm.sources, graph, 3, 1).tolist()
        far = [max(nx.single_source_shortest_path_length(directed, source).values()) for source in sources]
        assert least(algorithm, 3) == max(far)


def test_the_number_of_edges_is_counted_from_the_nearest_source():
    path = Graph.from_edges([0, 1, 2, 3, 4, 6], [1, 2, 3, 4, 5, 7], num_vertices=9, name="path")
    found = [hops(path, np.array(sources, np.int64)) for sources in ([0], [0, 3], [3], [0, 4], [0, 6], [8], [5, 8], [])]
    assert found == [5, 2, 2, 3, 5, 0, 0, 0]


@given(graph=multigraphs(), features=st.integers(1, 3))
@settings(max_examples=25)
def test_an_allowance_of_a_length_is_at_most_two_roundings_of_the_length_per_edge(graph, features):
    answer_ = SSSP(seed=1).settled_answer(graph, features)
    lengths, entries = answer_.values["distance"], answer_.allowances["distance"].entries
    assert entries.shape == lengths.shape
    assert not entries[~np.isfinite(lengths) | (lengths == 0)].any()
    known = np.isfinite(lengths) & (lengths > 0)
    assert (entries[known] <= 2.001 * (graph.num_vertices - 1) * 2.0**-24 * lengths[known]).all()
    assert (entries[known] >= 1.999 * 2.0**-24 * lengths[known]).all()  # at least the last addition's
