"""Combinations that no cell of a sweep supports are reported once, before any process starts."""

from __future__ import annotations

import inspect

import pytest
import yaml

from harness.campaign import application, sweep
from harness.contract import GraphSpec
from harness.graph import GraphError
from harness.graph.catalogue import BUILTIN_GRAPHS
from harness.graph.named import check_parameters, resolve

REFUSED = {
    "graph=rmat graph.scale=-3": "rmat: scale=-3: give a number in [0, 31]",
    "graph=rmat graph.num_vertices=5": "rmat: num_vertices=5 with scale=14",
    "graph=rmat graph.num_edges=many": "rmat: a parameter is of the wrong type",
    "graph=grid graph.rows=0": "grid: rows=0: give a number in [1, inf)",
    "graph=delaunay graph.num_vertices=2": "delaunay: num_vertices=2: give a number in [3, inf)",
    "graph=ratings_random graph.users=0": "ratings_random: users=0: give a number",
    "graph=digits graph.neighbours=1797": "digits: neighbours=1797: give a number in [1, 1796]",
    "graph=photo graph.image=nobody": "photo: image='nobody': give one of astronaut",
    "graph=motorcycle graph.shrink=99": "motorcycle: shrink=99: give a number",
    "graph=like_road_usa graph.rows=-1": "like_road_usa: rows=-1: give a number",
    "graph=file": "no path is given; set graph.path to a graph file",
    "graph=file graph.path=nothing.txt": "nothing.txt: there is no such file; give the path of a graph file",
    "graph=file graph.path=a.xyz": "a.xyz: the suffix names no known format",
}


@pytest.fixture
def _never_run(monkeypatch, tmp_path):
    """Fail the test if a sweep begins."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sweep, "prepare_output", lambda plan: pytest.fail("the sweep was begun"))


@pytest.mark.parametrize("overrides", REFUSED)
def test_parameters_of_a_graph_are_refused_without_building_it(monkeypatch, tmp_path, overrides):
    monkeypatch.chdir(tmp_path)
    name, *given = (word.partition("=")[2] for word in overrides.split())
    keys = [word.partition("=")[0].removeprefix("graph.") for word in overrides.split()[1:]]
    (spec,) = (one for one in BUILTIN_GRAPHS if one.name == name)
    with pytest.raises(GraphError) as met:
        check_parameters(spec, {key: yaml.safe_load(value) for key, value in zip(keys, given, strict=True)})
    assert REFUSED[overrides] in str(met.value)


BY_COMMAND = ("graph=rmat graph.num_edges=many", "graph=motorcycle graph.shrink=99", "graph=file graph.path=a.xyz")


@pytest.mark.usefixtures("_never_run")
@pytest.mark.parametrize(
    "overrides", [pytest.param(one, marks=() if one in BY_COMMAND else (pytest.mark.full,)) for one in REFUSED]
)
def test_a_graph_that_cannot_be_had_ends_the_command_at_once(capsys, tmp_path, overrides):
    assert application.main(["engine=scipy,tigr", "algorithm=pagerank", "features=1,2,3", *overrides.split()]) == 2
    printed = capsys.readouterr()
    [line] = printed.err.splitlines()
    assert REFUSED[overrides] in line
    assert not printed.out
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("_never_run")
def test_a_dry_run_says_so_too(capsys):
    assert application.main(["engine=scipy", "graph=rmat", "graph.scale=40", "dry_run=true"]) == 2
    assert "give a number in [0, 31]" in capsys.readouterr().err


def test_a_missing_file_is_an_error(command_here, tmp_path):
    (tmp_path / "a.txt").write_text("0 1\n1 0\n")
    cell = ("graph=file", f"graph.path={tmp_path}/a.txt", "algorithm=fake_spread", "engine=fake_right", "features=1")
    command = (*cell, "sweep.id=mine", "validate=false", "measure.budget_s=0.001")
    assert command_here(*command).returncode == 0
    (tmp_path / "a.txt").unlink()
    gone = command_here(*command)  # another cell, because the file differs
    assert gone.returncode == 2
    assert "there is no such file" in gone.stderr


@pytest.mark.parametrize("spec", [spec for spec in BUILTIN_GRAPHS if spec.check], ids=lambda spec: spec.name)
def test_a_check_names_parameters_of_its_graph_and_takes_the_defaults(spec):
    assert set(inspect.signature(resolve(spec.check)).parameters) <= set(spec.parameters)
    if spec.name != "file":
        check_parameters(spec, {})


def test_graphs_without_parameters_to_refuse_are_the_only_ones_without_a_check():
    unchecked = {spec for spec in (spec.name for spec in BUILTIN_GRAPHS if not spec.check) if spec != "highways"}
    assert all(set(spec.parameters) <= {"graph"} for spec in BUILTIN_GRAPHS if spec.name in unchecked)


def test_a_graph_without_a_check_is_left_to_its_cells():
    check_parameters(GraphSpec("mine", "", "no.such:factory"), {"anything": 1})
    with pytest.raises(GraphError, match="cannot be found"):
        check_parameters(GraphSpec("mine", "", "no.such:factory", check="no.such:check"), {})
