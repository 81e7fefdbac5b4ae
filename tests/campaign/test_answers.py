"""``save=`` keeps the outputs of right answers beside the record, with the names of the vertices."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from harness.campaign.answers import checked_save, columns_of, save_answer
from harness.campaign.errors import CampaignError
from harness.graph import Graph
from harness.records.compaction import duckdb_module


def table(path):
    with duckdb_module().connect() as database:
        found = database.execute(f"SELECT * FROM '{path}'")
        return [column[0] for column in found.description], found.fetchall()


def program(**places):
    """Return what a program says of its outputs."""
    properties = {name: SimpleNamespace(place=place) for name, place in places.items()}
    return SimpleNamespace(answers=properties)


def test_a_sweep_keeps_the_answers_by_the_ids_of_the_file(command_here, tmp_path):
    pytest.importorskip("duckdb")
    (tmp_path / "path.txt").write_text("7 30\n30 1000\n7 1000\n")
    given = (
        "algorithm=sssp",
        "engine=fake_right,fake_wrong",
        "algorithm.sources=0",
        "graph=file",
        "graph.path=path.txt",
    )
    finished = command_here(*given, "graph.path=path.txt", "save=answer", "measure.budget_s=0.01")
    records = [json.loads(path.read_text()) for path in tmp_path.glob("results/*/*/record.json")]
    outcomes = {record["config"]["engine"]: record["outcome"] for record in records}
    assert outcomes == {"fake_right": "ok", "fake_wrong": "wrong"}, finished.stderr
    [record] = [record for record in records if record["outcome"] == "ok"]
    assert {"answer.npz", "answer.parquet"} <= set(record["artefacts"])
    folder = tmp_path / "results" / record["sweep"] / record["cell"]
    assert table(folder / "answer.parquet") == (["vertex", "distance"], [(7, 0.0), (30, 1.0), (1000, 1.0)])
    with np.load(folder / "answer.npz") as saved:
        assert saved["vertex"].tolist() == [7, 30, 1000]
        assert saved["distance"].tolist() == [[0.0], [1.0], [1.0]]
    assert len(list(tmp_path.glob("results/*/*/answer.*"))) == 2  # of the right answer only


def test_tables_have_names_sides_and_the_ends_of_edges(tmp_path):
    pytest.importorskip("duckdb")
    graph = Graph.from_edges([0, 1], [2, 2], num_vertices=3, bipartite=(2, 1), name="three")
    graph = graph.with_vertex_names(np.array(["ann", "bob", "film"]))
    values = {"x": np.arange(6, dtype=np.float32).reshape(3, 2), "m": np.array([[0.5], [1.5]], np.float32)}
    save_answer(tmp_path, "answer", program(x="vertex", m="edge"), graph, values)
    names, rows = table(tmp_path / "answer.parquet")
    assert names == ["vertex", "side", "x_0", "x_1"]
    assert rows == [("ann", "left", 0.0, 1.0), ("bob", "left", 2.0, 3.0), ("film", "right", 4.0, 5.0)]
    names, rows = table(tmp_path / "answer_edges.parquet")
    assert (names, rows) == (["source", "destination", "m"], [("ann", "film", 0.5), ("bob", "film", 1.5)])


def test_arrays_alone_need_no_package(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "duckdb", None)
    graph = Graph.from_edges([0], [1], num_vertices=2, name="two")
    save_answer(tmp_path, "arrays", program(total="graph"), graph, {"total": np.float32(3.0)})
    assert [path.name for path in tmp_path.iterdir()] == ["answer.npz"]
    with np.load(tmp_path / "answer.npz") as saved:
        assert list(saved) == ["total"]


def test_an_output_that_is_called_as_the_names_of_vertices_is_kept(tmp_path):
    graph = Graph.from_edges([0], [1], num_vertices=2, name="two").with_vertex_names(np.array(["ann", "bob"]))
    save_answer(tmp_path, "arrays", program(vertex="vertex"), graph, {"vertex": np.array([0.5, 1.5], np.float32)})
    with np.load(tmp_path / "answer.npz") as saved:
        assert {name: saved[name].tolist() for name in saved} == {"vertex": [0.5, 1.5]}


def test_columns_are_named_by_the_elements_of_an_output():
    assert [name for name, _ in columns_of("x", np.zeros((3, 2, 2)))] == ["x_0_0", "x_0_1", "x_1_0", "x_1_1"]
    [(name, column)] = columns_of("x", np.zeros((3, 1)))
    assert (name, column.shape) == ("x", (3,))


def test_an_unknown_or_impossible_request_is_refused(monkeypatch):
    with pytest.raises(CampaignError, match=r"save is 'answers'; did you mean 'answer'\? \(there are: none, arrays"):
        checked_save("answers")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(CampaignError, match=r"pip install 'onyx-harness\[query\]', or give save=arrays"):
        checked_save("answer")
    assert checked_save("arrays") == "arrays"
