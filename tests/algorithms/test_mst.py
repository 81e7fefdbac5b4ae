"""Minimum spanning forests: the program against networkx and SciPy, with ties, and its exact answer at any size."""

from __future__ import annotations

from types import SimpleNamespace

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csgraph

from harness.algorithms.mst import MST
from harness.graph import Graph, load_graph
from harness.graph.generators import grid, rmat
from harness.language import InvalidInput, trace
from harness.language.reference import ReferenceRun
from tests.algorithms.answers import data
from tests.algorithms.multigraphs import multigraphs

NAMES = ("root", "cost", "lower", "upper")


def answers(graph, algorithm=None):
    """Return the outputs of the float64 reference, checked against the exact answer, and the number of supersteps."""
    algorithm = algorithm or MST()
    program, prepared = trace(algorithm), algorithm.prepare_graph(graph)
    run = ReferenceRun(program, prepared, 1)
    run.reset(algorithm.inputs(prepared, 1))
    statistics = run.run(1000)
    assert statistics.settled
    found = {name: run.values(name) for name in program.outputs}
    exact = algorithm.settled_answer(prepared, 1)
    assert exact.least_supersteps <= len(statistics.supersteps)
    for name in NAMES:
        np.testing.assert_array_equal(found[name], exact.values[name])
    return found, len(statistics.supersteps)


def edges_of(found):
    """Return the edges of a forest as a sorted list of (lower, upper, cost)."""
    joined = np.isfinite(found["lower"])
    assert np.array_equal(joined, np.isfinite(found["upper"]))
    assert not found["cost"][~joined].any()
    columns = found["lower"][joined].astype(int), found["upper"][joined].astype(int), found["cost"][joined]
    return sorted(zip(*(column.tolist() for column in columns), strict=True))


def twin_of(graph):
    """Return networkx's graph: edges in either direction connect, with their least weight, and no two are equal."""
    least = {}
    weights = np.ones(graph.num_edges) if graph.weights is None else graph.weights
    for u, v, w in zip(graph.csr.row_of_edge.tolist(), graph.csr.neighbours.tolist(), weights.tolist(), strict=True):
        if u != v:
            ends = min(u, v), max(u, v)
            least[ends] = min(w, least.get(ends, np.inf))
    twin = nx.Graph()
    twin.add_nodes_from(range(graph.num_vertices))
    for place, (w, u, v) in enumerate(sorted((w, *ends) for ends, w in least.items())):
        twin.add_edge(u, v, place=place, cost=w)
    return twin


def check(graph, algorithm=None):
    """Check edges, trees and metrics against networkx; return the number of supersteps."""
    found, supersteps = answers(graph, algorithm)
    twin = twin_of(graph)
    for method in ("kruskal", "prim", "boruvka"):
        forest = nx.minimum_spanning_tree(twin, weight="place", algorithm=method)
        assert edges_of(found) == sorted((min(u, v), max(u, v), d["cost"]) for u, v, d in forest.edges(data=True))
    parts = [sorted(part) for part in nx.connected_components(twin)]
    for part in parts:
        assert len(set(found["root"][part].tolist())) == 1
        assert found["root"][part[0]] in part
        assert np.isfinite(found["lower"][part]).sum() == len(part) - 1
    met = MST().metrics(graph, found)
    assert met["trees"] == len(parts)
    assert met["edges"] == graph.num_vertices - len(parts)
    np.testing.assert_allclose(met["weight"], sum(cost for _, _, cost in edges_of(found)), rtol=1e-12)
    return supersteps


@given(multigraphs(), st.integers(1, 5), st.sampled_from(["given", "signed", "equal", "none"]))
@settings(max_examples=60)
def test_forests_are_those_of_networkx(graph, jumps, weights):
    """Directed multigraphs with self-loops, isolated vertices, and weights that are equal, zero or negative."""
    if weights != "given":
        changed = {"signed": np.float32(1.0) - graph.weights, "equal": np.full(graph.num_edges, 0.0, np.float32)}
        graph = graph.with_weights(changed.get(weights))
    check(graph, MST(jumps=jumps))


@pytest.mark.parametrize("graph", [
    Graph.from_edges([], [], num_vertices=1, name="one vertex"),
    Graph.from_edges([], [], num_vertices=7, name="no edges"),
    Graph.from_edges([0, 0], [0, 0], name="one loop", duplicates="keep"),
    Graph.from_edges([1, 0], [0, 1], weights=[5.0, -3.0], name="one weight in each direction"),
    Graph.from_edges([0, 0, 0], [1, 1, 1], weights=[2.0, 1.0, 3.0], name="parallel edges", duplicates="keep"),
    rmat(scale=7, edge_factor=4, seed=2, max_weight=3), grid(rows=9, columns=7),
], ids=lambda graph: graph.name)  # fmt: skip
def test_the_smallest_and_other_graphs(graph):
    check(graph)


COUNT = 10_000
LINE = np.arange(COUNT - 1), np.arange(1, COUNT)
STAR = np.zeros(COUNT - 1, int), np.arange(1, COUNT)
WEIGHTS = {
    "equal": lambda: None, "rising": lambda: np.arange(COUNT - 1), "falling": lambda: -np.arange(COUNT - 1),
    "random": lambda: np.random.default_rng(1).random(COUNT - 1),
}  # fmt: skip


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize(("ends", "most"), [(LINE, 14), (STAR, 3)], ids=["path", "star"])
def test_long_paths_and_large_stars(ends, most, weights):
    """A path with rising weights is one tree after one round, whose paths of roots have 10^4 vertices."""
    given_ = WEIGHTS[weights]()
    graph = Graph.from_edges(*ends, weights=None if given_ is None else given_.astype(np.float32), name="long")
    found, supersteps = answers(graph)
    assert len(edges_of(found)) == COUNT - 1
    assert supersteps <= most


def test_more_jumps_need_fewer_supersteps_and_give_the_same_answer():
    graph = Graph.from_edges(*LINE, weights=np.arange(COUNT - 1, dtype=np.float32), name="path")
    few, slow = answers(graph, MST(jumps=1))
    many, fast = answers(graph, MST(jumps=8))
    assert fast < slow <= 12
    assert all(np.array_equal(few[name], many[name]) for name in NAMES)


def test_the_forest_of_a_road_network():
    graph = load_graph(data("rome99.gr"), duplicates="min")
    found, _ = answers(graph)
    lengths = nx.to_scipy_sparse_array(twin_of(graph), weight="cost")
    assert lengths.data.min() > 0  # SciPy would drop edges of weight 0
    assert MST().metrics(graph, found)["weight"] == csgraph.minimum_spanning_tree(lengths).sum()


def test_more_vertices_than_float32_has_numbers_for_are_refused():
    with pytest.raises(InvalidInput, match="float32 has a number for 2\\^24 vertices, not for 16777217"):
        MST().inputs(SimpleNamespace(num_vertices=2**24 + 1, name="large"), 1)
    with pytest.raises(InvalidInput, match="jumps"):
        MST(jumps=0)
