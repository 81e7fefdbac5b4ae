"""A cell on a graph that was made by rows: no CSC of it, no copy in the cache, and no whole answer of a library."""

from __future__ import annotations

import pytest

from engines.outofmemory.emogi.engine import EmogiEngine
from harness.campaign import verdict
from harness.graph import graph, in_edges
from tests.campaign.one_cell import report_of  # noqa: F401  a fixture


@pytest.mark.full
@pytest.mark.parametrize("counted", ["numpy", "compiled"])
def test_a_cell_makes_its_graph_once_and_keeps_it_in_one_direction(counted, report_of, monkeypatch, tmp_path):  # noqa: F811
    sizes, transposed = [], graph.transpose

    def transpose(csr):
        sizes.append(csr.neighbours.size)
        return transposed(csr)

    monkeypatch.setattr(graph, "transpose", transpose)
    monkeypatch.setattr(verdict, "EDGES_OF_LIBRARY", 0)
    if counted == "compiled":
        monkeypatch.setattr(in_edges, "FEW_EDGES", 0)
    chosen = {"algorithm": {"name": "bfs"}, "graph": {"name": "rmat_rows", "scale": 13}, "features": 1}
    edges = {"edges": "resident"}
    report = report_of(EmogiEngine, "emogi", {**chosen, "engine": {"name": "emogi", **edges}, "validate": "sampled"})
    assert report["outcome"] == "ok", report["reason"]
    assert report["validation"]["against"].startswith("supersteps 1 and ")
    assert "scipy" not in report["validation"]["against"]
    assert sizes, "the sample's part of the graph has a CSC"
    assert max(sizes) < report["graph"]["edges"]
    assert not (tmp_path / "cache" / "graphs").exists()
