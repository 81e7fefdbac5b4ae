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
from harness.algorithms.exact_solvers import core_members
from harness.algorithms.kcore import KCore
from harness.algorithms.pagerank import PageRank
from harness.algorithms.sssp import SSSP
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
