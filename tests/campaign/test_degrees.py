"""``onyx-harness degrees`` shows the shares of edges by the degrees of their vertices."""

from __future__ import annotations

import numpy as np
import pytest

from harness.campaign import application, degrees
from harness.graph.generators import rmat


@pytest.mark.parametrize("chunk", [1, 7, 1 << 22])
def test_shares_are_those_of_the_sorted_degrees(chunk, monkeypatch):
    monkeypatch.setattr(degrees, "_CHUNK", chunk)
    graph = rmat(scale=8, edge_factor=24, seed=2)
    found = degrees.shares_of_edges(graph.csr.offsets, degrees.DEGREES)
    of_edges = np.repeat(np.diff(graph.csr.offsets), np.diff(graph.csr.offsets))
    assert found == [float(np.mean(of_edges <= degree)) for degree in degrees.DEGREES]
    assert 0 < found[0] < found[-1] < 1


def test_a_graph_without_edges_has_shares_of_0():
    assert degrees.shares_of_edges(np.zeros(4, np.int64), (8, 16)) == [0.0, 0.0]


def test_the_command_shows_a_row_for_each_graph(capsys):
    assert application.main(["degrees", "graph=rmat,grid", "seed=1"]) == 2
    assert "no key 'seed'" in capsys.readouterr().err
    assert application.main(["degrees", "graph=small_road,small_social"]) == 0
    _, head, road, social = capsys.readouterr().out.splitlines()
    assert head.split()[:4] == ["graph", "vertices", "edges", "mean"]
    assert road.startswith("grid (rows=64, columns=64)")
    assert road.split()[-12:] == ["100.0"] * 12
    assert social.startswith("rmat (scale=11, symmetric=True)")
    assert float(social.split()[-12]) < float(social.split()[-1]) < 100


def test_the_table_is_of_the_last_graphs_in_their_order(monkeypatch):
    rows = {"a": ("a (x=1)", "1,000"), "long": ("long", "7")}
    monkeypatch.setattr(degrees, "_HEADINGS", ("graph", "edges"))
    monkeypatch.setattr(degrees, "_row", lambda given: (*rows[given[-1].removeprefix("graph=")], *given[:-1])[:2])
    assert degrees.degrees_text(["graph=none", "features=1", "graph=long,a"]).splitlines() == [
        "edges of vertices with at most that number of edges, in % of all edges",
        "graph    edges",
        "long         7",
        "a (x=1)  1,000",
    ]


def test_a_row_has_the_size_of_the_graph(capsys):
    assert application.main(["degrees", "graph=grid", "graph.rows=2", "graph.columns=3"]) == 0
    label, *numbers = capsys.readouterr().out.splitlines()[-1].rsplit(maxsplit=15)
    assert (label, numbers) == ("grid (rows=2, columns=3)", ["6", "14", "2.3", *["100.0"] * 12])


def test_a_command_without_a_graph_says_what_to_give(capsys):
    assert application.main(["degrees", "features=1"]) == 2
    assert "degrees needs a graph, such as graph=rmat" in capsys.readouterr().err
