from __future__ import annotations

from types import SimpleNamespace

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csgraph

from harness.algorithms import components
from harness.algorithms.components import Components, vertex_labels
from harness.algorithms.kcore import KCore
from harness.graph import Graph, load_graph
from harness.graph.generators import rmat
from harness.language import InvalidInput, trace
from harness.language.analysis import change_driven
from tests.algorithms.answers import answer, data
from tests.algorithms.multigraphs import adjacency_of, multigraphs


def core_numbers(graph):
    """Return the core numbers of networkx, which refuses self-loops and parallel edges: they are collapsed first."""
    twin = nx.Graph()
    twin.add_nodes_from(range(graph.num_vertices))
    twin.add_edges_from(zip(graph.csr.row_of_edge.tolist(), graph.csr.neighbours.tolist(), strict=True))
    twin.remove_edges_from(list(nx.selfloop_edges(twin)))
    found = nx.core_number(twin)
    return np.array([found[v] for v in range(graph.num_vertices)])


@given(multigraphs())
@settings(max_examples=80)
def test_components_are_the_weak_ones_of_scipy(graph):
    labels, settled = answer(Components(), graph, 1)
    assert settled
    count, expected = csgraph.connected_components(adjacency_of(graph), connection="weak")
    least = [np.flatnonzero(expected == part).min() for part in range(count)]
    assert np.array_equal(labels, np.array(least)[expected])
    met = Components().metrics(graph, {"label": labels})
    assert met == {"components": count, "largest": np.bincount(expected).max() / graph.num_vertices}


@given(multigraphs(max_edges=70), st.integers(1, 5))
@settings(max_examples=80)
def test_cores_are_those_of_networkx(graph, core):
    alive, settled = answer(KCore(core=core), graph, 1)
    assert settled
    expected = core_numbers(graph) >= core
    assert np.array_equal(alive, expected.astype(float))
    met = KCore(core=core).metrics(graph, {"alive": alive})
    assert met == {"in_core": expected.sum(), "share": expected.mean()}


def test_the_cores_of_a_graph_of_votes():
    graph = load_graph(data("wiki-Vote.txt"))
    numbers = core_numbers(graph)
    for core in (1, 16, 53, 54):
        alive, _ = answer(KCore(core=core), graph, 1)
        assert np.array_equal(alive != 0, numbers >= core)
    assert numbers.max() == 53  # as published with the graph's k-core decomposition


def test_the_program_runs_on_a_simple_undirected_graph():
    graph = Graph.from_edges([0, 0, 1, 2, 2], [1, 1, 0, 2, 0], weights=[1, 2, 3, 4, 5], name="multi", duplicates="keep")
    simple = KCore().prepare_graph(graph)
    assert simple.has_reverse_edges
    assert list(zip(simple.csr.row_of_edge, simple.csr.neighbours, strict=True)) == [(0, 1), (0, 2), (1, 0), (2, 0)]
    assert KCore().prepare_graph(simple) is simple
    assert Components().prepare_graph(simple) is simple


def test_only_changes_are_propagated():
    (tell,) = change_driven(trace(Components()))
    (count,) = change_driven(trace(KCore()))
    assert (tell.kind, count.kind) == ("monotone", "linear")
    assert trace(Components()).bound == trace(KCore()).bound == 0.0


def test_labels_differ_in_graphs_of_more_vertices_than_float32_has_whole_numbers(monkeypatch):
    assert vertex_labels(5).tolist() == [0, 1, 2, 3, 4]
    monkeypatch.setattr(components, "EXACT", 4)
    labels = vertex_labels(5)
    assert labels[0] == 1.0
    assert (np.diff(labels) > 0).all()
    graph = Graph.from_edges([4, 2], [2, 0], num_vertices=5, name="five")
    found, _ = answer(Components(), graph, 1)
    assert np.array_equal(found, labels[[0, 1, 0, 3, 0]])


def test_more_vertices_than_labels_are_refused():
    with pytest.raises(InvalidInput, match=r"float32 has different labels for 2\^30"):
        vertex_labels(2**30 + 1)


def test_the_default_core_is_that_of_the_simdx_paper():
    assert KCore().core == 16
    assert KCore().parameter_values() == KCore(core=16).parameter_values()
    assert trace(KCore()).fingerprint == trace(KCore(core=16)).fingerprint != trace(KCore(core=15)).fingerprint


def test_a_core_of_no_neighbours_is_refused():
    with pytest.raises(InvalidInput, match=r"core=0: give a number in \[1, inf\)"):
        KCore(core=0).inputs(rmat(scale=3, edge_factor=2), 1)


@pytest.mark.parametrize(("most", "counted"), [(2**24 - 1, True), (2**24, True), (2**24 + 1, False)])
def test_more_neighbours_than_float32_counts_are_refused(most, counted):
    facts = SimpleNamespace(in_degrees=np.array([3, most, 0]), name="hub")
    if counted:
        assert KCore().inputs(facts, 1).properties == {}
    else:
        with pytest.raises(InvalidInput, match=f"a vertex of graph 'hub' has {most} neighbours; float32 counts up to"):
            KCore().inputs(facts, 1)
