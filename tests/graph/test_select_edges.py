from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.graph import Graph, GraphError


@st.composite
def graphs_and_masks(draw):
    vertices = draw(st.integers(1, 6))
    edges = draw(st.lists(st.tuples(*[st.integers(0, vertices - 1)] * 2), max_size=15))
    u, v = (np.array([edge[i] for edge in edges], np.int64) for i in (0, 1))
    graph = Graph.from_edges(
        u, v, num_vertices=vertices, weights=np.arange(len(edges)), name="g", duplicates="keep",
        labels=np.arange(vertices) - 1, vertex_data={"x": np.arange(vertices)},
        edge_data={"tag": 10 * np.arange(len(edges))}, meta={"origin": "test"},
    )  # fmt: skip
    return graph, np.array(draw(st.lists(st.booleans(), min_size=len(edges), max_size=len(edges))), bool)


def edges_of(graph):
    return list(zip(graph.csr.row_of_edge, graph.csr.neighbours, graph.weights, graph.edge_data["tag"], strict=True))


@given(graphs_and_masks())
def test_the_edges_kept_and_no_others_in_their_order_with_their_data(case):
    graph, keep = case
    chosen = graph.select_edges(keep)
    chosen.validate()
    assert edges_of(chosen) == [edge for edge, kept in zip(edges_of(graph), keep, strict=True) if kept]
    assert chosen.num_vertices == graph.num_vertices
    assert np.array_equal(chosen.labels, graph.labels)
    assert np.array_equal(chosen.vertex_data["x"], graph.vertex_data["x"])
    assert chosen.meta == graph.meta
    assert chosen.name == graph.name


def test_sides_stay_and_directions_are_kept():
    sided = Graph.from_edges([0, 0, 1], [2, 3, 3], name="sided", bipartite=(2, 2))
    assert sided.select_edges([True, False, True]).bipartite == (2, 2)
    both = Graph.from_edges([0, 1], [1, 2], name="both", symmetrize=True)  # 0-1, 1-0, 1-2, 2-1
    assert not both.select_edges([True, True, False, False]).directed
    assert both.select_edges([True, False, False, False]).directed


@pytest.mark.parametrize("keep", [[True], [0, 1], [[True, False]]])
def test_a_selection_must_be_a_mask(keep):
    graph = Graph.from_edges([0, 1], [1, 0], name="pair")
    with pytest.raises(GraphError, match=r"pair.*give bool\[2\]"):
        graph.select_edges(keep)
