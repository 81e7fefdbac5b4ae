"""In-degrees and in-edges without a CSC: the same as those of the CSC, on any number of threads."""

import os
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.facts import GraphFacts
from harness.graph import Graph, in_edges, slices
from harness.graph.generators import grid, rmat, rmat_rows
from harness.language import trace
from harness.language.sampled import Sample, classes_of, of_all_degrees
from tests.engines.test_cuda import algorithms

GRAPHS = {
    "parallel edges": lambda: rmat_rows(scale=8, edge_factor=20, max_weight=3),
    "symmetric": lambda: rmat(scale=7, edge_factor=6, symmetric=True),
    "mesh": lambda: grid(rows=9, columns=8),
    "no edges": lambda: Graph.from_edges([], [], num_vertices=5, name="none"),
}


@pytest.fixture(params=["numpy", "compiled on 1 thread", "compiled on 3 threads"])
def method(request, monkeypatch):
    """Have small graphs processed like large ones."""
    if request.param == "numpy":
        return
    monkeypatch.setattr(in_edges, "FEW_EDGES", -1)
    monkeypatch.setattr(in_edges, "LEAST_RANGE", 7)
    monkeypatch.setattr(in_edges, "ROWS_AT_ONCE", 100)
    monkeypatch.setattr(slices, "SLICE", 64)
    threads = {int(number) for number in range(int(request.param.split()[2]))}
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: threads)


def with_csc(graph):
    """Return an equal graph whose CSC is built."""
    same = Graph(graph.csr, name=graph.name, directed=graph.directed, weights=graph.weights)
    assert same.csc.neighbours.size == graph.num_edges
    return same


@pytest.mark.parametrize("name", GRAPHS)
def test_in_edges_are_those_of_the_csc(name, method):
    graph = GRAPHS[name]()
    graph.__dict__.pop("csc", None)
    known = with_csc(graph)
    np.testing.assert_array_equal(graph.in_offsets, known.csc.offsets)
    np.testing.assert_array_equal(graph.in_degrees, known.csc.degrees)
    for vertices in (np.arange(graph.num_vertices), np.arange(1, graph.num_vertices, 3), np.zeros(0, np.int64)):
        found, wanted = graph.edges_into(vertices), known.edges_into(vertices)
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(one, other)
        inside = np.isin(graph.csr.neighbours, vertices)
        np.testing.assert_array_equal(found[0], np.flatnonzero(inside))
        np.testing.assert_array_equal(found[1], graph.csr.row_of_edge[inside])
    assert "csc" not in graph.__dict__


def test_facts_of_a_directed_graph_need_no_csc():
    graph = GRAPHS["parallel edges"]()
    assert isinstance(graph.facts, GraphFacts)
    assert "csc" not in graph.__dict__
    assert graph.facts == with_csc(graph).facts


def test_facts_of_a_graph_with_reverse_edges_are_right():
    graph = GRAPHS["symmetric"]()
    graph.__dict__.pop("csc", None)
    assert graph.facts.paired
    cycle = Graph.from_edges([0, 1, 2], [1, 2, 0], name="equal degrees, no reverses")
    assert not cycle.facts.paired


@pytest.mark.parametrize("name", ["bfs", "pagerank", "sssp"])
def test_a_sample_needs_no_csc(name, method):
    graph, program = GRAPHS["parallel edges"](), trace(algorithms()[name])
    known = with_csc(graph)
    np.testing.assert_array_equal(classes_of(graph), classes_of(known))
    found, wanted = Sample.draw(program, graph, each=4), Sample.draw(program, known, each=4)
    assert "csc" not in graph.__dict__
    for one in ("vertices", "near", "edges", "classes"):
        np.testing.assert_array_equal(getattr(found, one), getattr(wanted, one))
    assert found.graph.content_hash == wanted.graph.content_hash
    for one, other in zip(found.graph.whole_degrees, wanted.graph.whole_degrees, strict=True):
        np.testing.assert_array_equal(one, other)
    assert 10 < len(of_all_degrees(classes_of(graph), 4)) < graph.num_vertices


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=30), st.integers(1, 7))
def test_loops_and_parallel_edges_are_found_in_parts_of_any_size(pairs, size):
    sources, destinations = np.array(pairs, np.int64).reshape(-1, 2).T
    graph = Graph.from_edges(sources, destinations, num_vertices=7, name="any", duplicates="keep")
    with mock.patch.object(in_edges, "ROWS_AT_ONCE", size):
        assert graph.has_self_loops == graph.facts.self_loops == any(u == v for u, v in pairs)
    assert graph.has_parallel_edges == (len(set(pairs)) < len(pairs))
    assert not graph.facts.one_way


@pytest.mark.parametrize(("edges", "one_way"), [([(0, 2), (1, 3)], True), ([(0, 2), (3, 1)], False), ([], True)])
def test_facts_tell_whether_edges_lead_from_left_to_right(edges, one_way):
    sources, destinations = np.array(edges, np.int64).reshape(-1, 2).T
    graph = Graph.from_edges(sources, destinations, num_vertices=4, name="sides", bipartite=(2, 2))
    assert graph.facts.one_way == one_way
    assert not Graph.from_edges(sources, destinations, num_vertices=4, name="no sides").facts.one_way
