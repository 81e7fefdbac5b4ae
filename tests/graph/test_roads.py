"""The road network of scgraph_data, read from a module of a few lines."""

import importlib.util
from types import SimpleNamespace

import pytest

from harness.graph import GraphError
from harness.graph.catalogue.roads import highways

GRAPH = "graph=[{1:2.5,0:9.0},{0:2.5,2:4},{1:4.0},{}]"
NODES = "nodes = [[1.5,-2.5],[3,4],[5.0,6.0],[7,8]]"


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Return a function that writes the lines of the module scgraph_data.world_highways."""
    found = SimpleNamespace(submodule_search_locations=[str(tmp_path)])
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: found if name == "scgraph_data" else None)

    def write(*lines):
        (tmp_path / "world_highways.py").write_text("\n".join(["from x import y", *lines, ""]))

    return write


def test_the_literals_become_a_graph_without_loops(module):
    module("# edges", GRAPH, NODES)
    graph = highways()
    assert graph.csr.row_of_edge.tolist() == [0, 1, 1, 2]
    assert graph.csr.neighbours.tolist() == [1, 0, 2, 1]
    assert graph.weights.tolist() == [2.5, 2.5, 4.0, 4.0]
    assert (graph.name, graph.num_vertices, graph.directed) == ("highways", 4, False)
    assert graph.vertex_data["lat_lon"].tolist() == [[1.5, -2.5], [3, 4], [5, 6], [7, 8]]
    assert graph.vertex_data["lat_lon"].dtype == "float32"
    assert graph.meta["weight"] == "length in km"
    assert "OpenStreetMap" in graph.meta["origin"]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ((GRAPH.replace("{1:4.0}", "{1:4.0:1}"), NODES), "the edges in scgraph_data are not as expected"),
        ((GRAPH,), r"world_highways\.py: graph or nodes is missing; use scgraph-data 2\.0"),
        ((NODES,), r"world_highways\.py: graph or nodes is missing"),
        ((GRAPH.replace("{1:4.0}", "{3:4.0}"), NODES), "no reverse edge"),
    ],
)
def test_other_data_is_refused(module, lines, message):
    module(*lines)
    with pytest.raises(GraphError, match=message):
        highways()


@pytest.mark.parametrize("spec", [None, SimpleNamespace(submodule_search_locations=None)])
def test_a_package_without_a_folder_is_missing(monkeypatch, spec):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)
    with pytest.raises(GraphError, match=r"scgraph_data cannot be found; pip install 'onyx-harness\[data\]'"):
        highways()
