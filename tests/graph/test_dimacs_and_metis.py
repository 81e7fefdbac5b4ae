"""DIMACS shortest-path files and METIS graphs."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.graph import GraphError, load_graph
from harness.graph.formats import source


def edges_of(graph):
    ends = zip(graph.csr.row_of_edge.tolist(), graph.csr.neighbours.tolist(), strict=True)
    return list(ends) if graph.weights is None else [(*end, w) for end, w in zip(ends, graph.weights, strict=True)]


def test_dimacs_edges_have_lengths(write):
    graph = load_graph(write("r.gr", "c made by hand\n\np sp 4 3\nc middle\na 1 2 7\na 3 1 2.5\r\na 2 1 9\n"))
    assert edges_of(graph) == [(0, 1, 7), (1, 0, 9), (2, 0, 2.5)]
    assert graph.num_vertices == 4


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("p sp 2 1\nc\na 1 3 1\n", r"r\.gr:3: destination is '3', outside 1..2"),
        ("p sp 2 1\na 1 2\n", r":2: 3 fields instead of 4; a line must be: a source destination length"),
        ("p sp 2 1\na 1 2 x\n", r":2: length is 'x', not a number"),
        ("p sp 2 1\na 1 2 1\ne 1 2 1\n", r":3: the line begins with neither a nor c"),
        ("p sp 2 2\na 1 2 1\n", r":1: the p line announces 2 edges, the file has 1"),
        ("p sp 2 1\na 1 2 1\na 2 1 1\n", r":1: the p line announces 1 edges, the file has 2"),
        ("p sp 2 77777777\na 1 2 1\n", r":1: the header announces 77777777 edges, more than fit"),
        ("p sp 77777777 1\na 1 2 1\n", r":1: the header announces 77777777 vertices"),
        ("p edge 2 1\ne 1 2\n", r":1: 'p edge 2 1' is not a problem line"),
        ("c only\n", r"the problem line is missing"),
    ],
)
def test_each_dimacs_fault_is_one_error_with_its_line(write, text, message):
    with pytest.raises(GraphError, match=message):
        load_graph(write("r.gr", text))


def test_metis_neighbours_comments_and_isolated_vertices(write):
    graph = load_graph(write("m.graph", "% head\n4 2\n2 3\n% between\n1\n1\n\n"))
    graph.validate()
    assert edges_of(graph) == [(0, 1), (0, 2), (1, 0), (2, 0)]
    assert (graph.num_vertices, graph.directed) == (4, False)


def test_metis_sizes_and_weights(write):
    graph = load_graph(write("m.graph", "3 2 111 2\n9 1 2 2 5\n8 3 4 1 5 3 6\n7 5 6 2 6"))
    assert edges_of(graph) == [(0, 1, 5), (1, 0, 5), (1, 2, 6), (2, 1, 6)]
    assert graph.vertex_data["vertex_size"].tolist() == [9, 8, 7]
    assert graph.vertex_data["vertex_weight"].tolist() == [[1, 2], [3, 4], [5, 6]]


def test_metis_with_only_edge_weights_or_only_vertex_weights(write):
    assert load_graph(write("m.graph", "2 1 1\n2 5\n1 5\n")).weights.tolist() == [5, 5]
    assert load_graph(write("n.graph", "2 1 10\n4 2\n6 1\n")).vertex_data["vertex_weight"].tolist() == [4, 6]


def test_metis_reads_up_to_a_thousand_weights_of_a_vertex(write):
    values = [str(value) for value in range(1000)]
    graph = load_graph(write("m.graph", f"1 0 10 1000\n{' '.join(values)}\n"))
    assert graph.vertex_data["vertex_weight"].tolist() == [list(range(1000))]


@given(st.integers(1, 12), st.integers(0, 2**20), st.integers(1, 30))
def test_metis_reads_files_of_networkx_in_blocks_of_any_size(tmp_path_factory, count, seed, block):
    made = nx.gnp_random_graph(count, 0.4, seed=seed)
    lines = [f"{count} {made.number_of_edges()}", *(" ".join(str(v + 1) for v in made[u]) for u in made)]
    path = tmp_path_factory.getbasetemp() / "made.graph"
    path.write_text("\n".join(lines) + "\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source, "BLOCK", block)
        graph = load_graph(path)
    assert edges_of(graph) == sorted(made.to_directed().edges)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("2 1\n2\n3\n", r"m\.graph:3: neighbour 3 is outside 1..2"),
        ("2 1\n2\n0\n", r":3: neighbour 0 is outside"),
        ("2 1\n2\nx\n", r":3: 'x' is not an integer"),
        ("2 1\n2\n1.5\n", r":3: '.' is not an integer"),
        ("2 1\n2\n99999999999999999999\n", r":3: '9+' is not an integer"),
        ("2 1\n2\n", r":1: the header announces 2 vertices and 1 edges, the file has 1 lines"),
        ("2 1\n2\n1\n% c\n1\n", r":5: there are more lines than the 2 vertices"),
        ("2 2\n2\n1\n", r":1: the header announces 2 vertices and 2 edges, the file has 2 lines and 2 neighbours"),
        ("2 1 1\n2 5\n1\n", r":3: 1 numbers do not form complete entries"),
        ("2 1 10\n\n1 1\n", r":2: 0 numbers do not form complete entries"),
        ("2 1 1\n2 5\n1 6\n", r"listed at only one of its ends, or with two different weights"),
        ("3 2 1\n2 5 3 1\n1 6\n1 1\n", r"listed at only one of its ends, or with two different weights"),
        ("3 1\n2 3\n\n\n", r"listed at only one of its ends"),
        ("2\n", r":1: the header is '2'"),
        ("2 1 7\n", r":1: format 007 is invalid"),
        ("2 1 10 1001\n", r":1: 1001 weights"),
        ("700000000 1\n2\n1\n", r":1: the header announces 700000000 vertices, more than fit"),
        ("2 700000000\n2\n1\n", r":1: the header announces 1400000000 neighbours, more than fit"),
    ],
)
def test_each_metis_fault_is_one_error_with_its_line(write, text, message):
    with pytest.raises(GraphError, match=message):
        load_graph(write("m.graph", text))


def test_metis_parallel_edges_follow_the_policy(write):
    path = write("m.graph", "2 2\n2 2\n1 1\n")
    with pytest.raises(GraphError, match="more than once"):
        load_graph(path)
    np.testing.assert_array_equal(load_graph(path, duplicates="keep").reverse_edges, [2, 3, 0, 1])
