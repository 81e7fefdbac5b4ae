"""Graphs of other libraries: structure, weights and vertex names; errors say what to do."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp

import onyx_harness
from harness.graph import Graph
from onyx_harness import GraphError, NamedGraph, UnknownName, as_graph


def edges(named: NamedGraph) -> list[tuple]:
    """Return (source name, destination name, weight) of every stored edge, sorted."""
    names, graph = named.vertices(), named.graph
    graph.validate()
    weights = [None] * graph.num_edges if graph.weights is None else graph.weights.tolist()
    ends = zip(graph.csr.row_of_edge.tolist(), graph.csr.neighbours.tolist(), weights, strict=True)
    return sorted((names[u], names[v], weight) for u, v, weight in ends)


def networkx_edges(graph) -> list[tuple]:
    """Return the same edges of a networkx graph, by its own iteration."""
    found = []
    for u, v, weight in graph.edges(data="weight", default=1.0):
        found.append((u, v, weight))
        if not graph.is_directed() and u != v:
            found.append((v, u, weight))
    return sorted(found)


@pytest.mark.parametrize("kind", [nx.Graph, nx.DiGraph, nx.MultiGraph, nx.MultiDiGraph])
def test_a_networkx_graph_keeps_its_edges_weights_and_nodes(kind):
    graph = kind(name="letters")
    graph.add_nodes_from("dcba")  # the order of the nodes is the order of the answer
    graph.add_weighted_edges_from([("a", "b", 2.0), ("b", "c", 3.0), ("c", "c", 4.0), ("a", "b", 5.0)])
    graph.add_weighted_edges_from([("d", "c", 0.0)])
    graph.add_edge("d", "a")  # no weight: 1
    found = as_graph(graph)
    assert list(found.vertices()) == list("dcba")
    assert edges(found) == networkx_edges(graph)
    assert found.graph.name == "letters"
    assert found.graph.directed == graph.is_directed()


def test_integer_nodes_in_order_need_no_names():
    assert as_graph(nx.path_graph(4)).names is None
    assert as_graph(nx.relabel_nodes(nx.path_graph(3), {0: 2, 1: 1, 2: 0})).names is not None


def test_the_weight_attribute_is_chosen():
    graph = nx.DiGraph()
    graph.add_edge(0, 1, length=7, weight=2)
    assert edges(as_graph(graph, weight="length")) == [(0, 1, 7.0)]
    assert edges(as_graph(graph, weight=None)) == [(0, 1, None)]
    with pytest.raises(GraphError, match="no edge has the attribute 'size'"):
        as_graph(graph, weight="size")
    graph.add_edge(1, 2, weight="heavy")
    with pytest.raises(GraphError, match="'weight' is not a number on every edge.*weight=None"):
        as_graph(graph)


def test_a_graph_without_edges_is_a_graph():
    graph = nx.DiGraph()
    graph.add_nodes_from("ab")
    assert as_graph(graph).graph.num_vertices == 2
    assert as_graph(graph).graph.weights is None


@pytest.mark.parametrize("form", [sp.csr_array, sp.csc_matrix, sp.coo_array])
def test_an_entry_of_a_sparse_matrix_is_an_edge(form):
    assert edges(as_graph(form(np.array([[0, 2.0], [0, 3.0]])))) == [(0, 1, 2.0), (1, 1, 3.0)]
    assert edges(as_graph(form(np.array([[0, 2.0], [0, 0]])), weighted=False)) == [(0, 1, None)]


def test_a_rectangular_matrix_holds_ratings():
    graph = as_graph(sp.csr_array(np.array([[0, 0, 4.0], [5.0, 0, 0]]))).graph
    assert graph.bipartite == (2, 3)
    assert edges(NamedGraph(graph)) == [(0, 4, 4.0), (1, 2, 5.0)]


def test_arrays_are_numbers_or_names():
    src, dst, weight = np.array([5, 2]), np.array([2, 9]), np.array([1.0, 2.0])
    numbers = as_graph((src, dst, weight))
    assert numbers.graph.num_vertices == 10
    assert edges(numbers) == [(2, 9, 2.0), (5, 2, 1.0)]
    names = as_graph((src, dst, weight), named=True)
    assert list(names.vertices()) == [2, 5, 9]
    assert edges(names) == edges(numbers)
    assert edges(as_graph((["x", "y"], ["y", "x"]))) == [("x", "y", None), ("y", "x", None)]
    assert as_graph((src, dst), num_vertices=12).graph.num_vertices == 12
    assert edges(as_graph((src, dst), symmetrize=True)) == [(2, 5, None), (2, 9, None), (5, 2, None), (9, 2, None)]


def test_an_edge_index_is_two_rows_of_numbers():
    assert edges(as_graph(np.array([[0, 1], [1, 2]]), weight=[3, 4])) == [(0, 1, 3.0), (1, 2, 4.0)]
    with pytest.raises(GraphError, match=r"float64\[3, 3\] is not an edge_index.*scipy.sparse"):
        as_graph(np.eye(3))


def test_a_torch_edge_index():
    torch = pytest.importorskip("torch")
    assert edges(as_graph(torch.tensor([[0, 1], [1, 2]]), weight=torch.tensor([3.0, 4.0]))) == [
        (0, 1, 3.0), (1, 2, 4.0),
    ]  # fmt: skip


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_frame_names_its_vertices(library):
    frames = pytest.importorskip(library)
    strings = frames.DataFrame({"src": ["ann", "bob"], "dst": ["bob", "cyd"], "weight": [1.5, 2.5]})
    assert edges(as_graph(strings)) == [("ann", "bob", 1.5), ("bob", "cyd", 2.5)]
    ids = frames.DataFrame({"from": [10, 30], "to": [30, 20], "km": [1, 2]})
    assert edges(as_graph(ids, src="from", dst="to", weight="km")) == [(10, 30, 1.0), (30, 20, 2.0)]
    assert edges(as_graph(ids, src="from", dst="to")) == [(10, 30, None), (30, 20, None)]
    with pytest.raises(GraphError, match=r"no column 'src' \(it has: from, to, km\); name it with src="):
        as_graph(ids)
    with pytest.raises(GraphError, match="only integers or only strings"):
        as_graph(frames.DataFrame({"src": ["ann", None], "dst": ["bob", "cyd"]}))


def test_a_graph_and_a_named_graph_pass_through():
    graph = Graph.from_edges([0], [1], name="pair")
    assert as_graph(graph).graph is graph
    named = NamedGraph(graph, ["x", "y"])
    assert list(as_graph(named, name="renamed").vertices()) == ["x", "y"]
    assert as_graph(named, name="renamed").graph.name == "renamed"
    assert graph.name == "pair"
    assert "named vertices" in repr(named)


def test_a_file_is_named_by_its_ids(tmp_path):
    path = tmp_path / "links.txt"
    path.write_text("10 30\n30 20\n")
    for place in (path, str(path)):
        assert edges(as_graph(place)) == [(10, 30, None), (30, 20, None)]


def test_a_graph_of_the_catalogue_takes_its_parameters():
    assert as_graph("grid", rows=3, columns=4, removed=0.0).graph.num_vertices == 12
    with pytest.raises(onyx_harness.CampaignError, match=r"no parameter 'row'; did you mean 'rows'"):
        as_graph("grid", row=3)
    with pytest.raises(UnknownName, match="no graph called 'gird'; did you mean 'grid'"):
        as_graph("gird")
    assert as_graph("small_mesh").graph.num_vertices == 4096  # of a configuration file


def test_names_lead_to_numbers_and_back():
    named = as_graph((["ann", "bob"], ["bob", "cyd"]))
    assert named.index("cyd") == 2
    assert named.by_vertex(np.array([[1.0], [2.0], [3.0]])) == {"ann": 1.0, "bob": 2.0, "cyd": 3.0}
    assert named.by_vertex(np.arange(6).reshape(3, 2))["bob"].tolist() == [2, 3]
    with pytest.raises(GraphError, match="no vertex 'bop'; did you mean 'bob'"):
        named.index("bop")
    with pytest.raises(GraphError, match="several vertices have the same name"):
        NamedGraph(named.graph, [1, 1, 2]).index(1)


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        ([(0, 1)], {}, "a list is not a graph; for pairs or adjacency lists, give networkx.Graph(...)"),
        ((1, 2, 3, 4), {}, "a tuple of 4 is not a graph"),
        ((np.array([0.5]), np.array([1.0])), {}, "vertex ids are float64, such as 0.5"),
        (([1], ["b"]), {}, "one end of the edges has integers, the other <U1; give only integers or only strings"),
        ((["a"], ["b"]), {"num_vertices": 3}, "these ids are names, so omit it"),
        (nx.path_graph(3), {"weigth": "x"}, "networkx has no option 'weigth'; did you mean 'weight'"),
        ((np.array([0, 0]), np.array([1, 1])), {}, "given more than once"),
    ],
)  # fmt: skip
def test_other_types_than_graphs_are_refused_with_the_accepted_ones(data, options, message):
    with pytest.raises(GraphError, match=message):
        as_graph(data, **options)
