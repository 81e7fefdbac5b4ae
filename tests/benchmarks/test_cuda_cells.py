"""What the benchmark for CUDA devices reckons with, which takes no device."""

from __future__ import annotations

import numpy as np

from harness.algorithms.als import ALS
from harness.algorithms.belief_propagation import BeliefPropagation
from harness.algorithms.components import Components
from harness.graph import Graph
from harness.graph.generators import rmat
from tests.benchmarks.cuda_cells import Cell, bytes_of_superstep
from tests.benchmarks.cuda_graphs import delaunay_edges
from tests.benchmarks.cuda_onyx import depends_on_features, predicted_ms
from tests.benchmarks.cuda_sheet import Budget
from tests.benchmarks.workloads import Aggregation


def test_bytes_of_a_superstep():
    graph = rmat(scale=6, edge_factor=4, symmetric=True)
    arcs, vertices, k = graph.num_edges, graph.num_vertices, 8
    row = 4 * k
    aggregated = bytes_of_superstep(Cell("", Aggregation(), k).program, graph, k)
    assert aggregated == arcs * (4 + 4 + row) + vertices * (8 + 2 * row)
    # Messages are read to gather; then sums, the message before and the one back are read, and a new one is written.
    believed = bytes_of_superstep(Cell("", BeliefPropagation(), k).program, graph, k)
    assert believed == arcs * ((4 + row) + (4 + 3 * row + row)) + vertices * (8 + 2 * row)


def test_what_is_left_out_is_told():
    budget = Budget(100.0)
    assert budget.allows("aggregation", "k=1", 50.0)
    with budget.at_most(0.1):
        assert not budget.allows("aggregation", "k=2", 50.0)
        assert not budget.allows("aggregation", "k=4", 50.0)
    assert budget.allows("aggregation", "k=8", 50.0)
    assert budget.left_out == {"aggregation": ["k=2", "k=4"]}


def test_longer_supersteps_are_foreseen():
    assert predicted_ms(Cell("", ALS(), 32), {}) == 0.0
    assert predicted_ms(Cell("", ALS(), 32), {8: 2.0, 4: 1.0, 64: 9.0}) == 2.0 * 4**3
    assert predicted_ms(Cell("", Aggregation(), 32), {8: 2.0}) == 8.0
    assert depends_on_features(Cell("", ALS(), 1))
    assert not depends_on_features(Cell("", Components(), 1))


def test_a_triangulation_is_planar_and_connected():
    u, v = delaunay_edges(500)
    assert (u < v).all()
    assert 2 * 500 - 3 <= len(u) <= 3 * 500 - 6
    graph = Graph.from_edges(u, v, num_vertices=500, name="delaunay", symmetrize=True)
    reached = np.zeros(500, bool)
    reached[0] = True
    for _ in range(500):
        reached[graph.csr.neighbours[reached[graph.csr.row_of_arc]]] = True
    assert reached.all()
