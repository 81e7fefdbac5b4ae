"""Combinations that no cell of a sweep supports are reported once, before any process starts."""

from __future__ import annotations

import inspect
from types import SimpleNamespace

import pytest
import yaml

from harness.campaign import application, preflight, sweep
from harness.contract import Device, GraphSpec, Yes
from harness.device import driver
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


def spec(*requires, install="", devices=("cpu", "cuda")):
    return SimpleNamespace(name="made", requires=requires, install=install, devices=devices)


def on(kind="cpu", **changes):
    return SimpleNamespace(**{"device": Device(kind), "engine": "made", "warm": None, "memory": "off"} | changes)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (spec(), ""),
        (spec("json", "no_such_module", "nor_this"), "engine 'made' needs the Python module 'no_such_module', which is "
                                                     "not installed"),
        (spec("no_such_module", install="pip install it"), "engine 'made' needs the Python module 'no_such_module', "
                                                           "which is not installed; install it with: pip install it"),
        (spec(devices=("cuda", "tpu")), "engine 'made' does not run on cpu (it runs on: cuda, tpu)"),
        (spec("json", devices=("cpu",)), ""),
    ],
)  # fmt: skip
def test_an_engine_is_refused_by_its_description(given, reason):
    assert preflight.refusal(given, on()) == reason


@pytest.mark.parametrize(
    ("stepwise", "warm", "most", "reason"),
    [
        (True, object(), 3, ""),
        (False, None, 10, ""),
        (False, None, 11, ""),
        (False, None, 9, ", so it cannot stop after 9 supersteps"),
        (False, object(), 10, " from the program's own initial state, so it cannot run warm"),
    ],
)
def test_an_engine_that_solves_whole_problems_neither_stops_nor_starts_elsewhere(stepwise, warm, most, reason):
    problem = SimpleNamespace(max_supersteps=most, program=SimpleNamespace(max_supersteps=10))
    found = preflight.whole_run_refusal(Yes(1, stepwise=stepwise), on(warm=warm), problem)
    assert found == (f"engine 'made' solves the whole problem{reason}" if reason else "")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, ""), ({"warm": object()}, "warm runs need a program of one phase"),
        ({"memory": "model"}, "memory transactions are counted for programs of one phase"),
    ],
)  # fmt: skip
def test_phases_have_neither_warm_runs_nor_counts(changes, reason):
    assert preflight.one_phase_only(on(**changes)) == reason


@pytest.mark.parametrize(
    ("kind", "needed", "host", "limit", "reason"),
    [
        ("cpu", 600, 400, None, ""),
        ("cpu", 600, 401, None, "the engine needs 1,001 bytes, and the limit is 1,000; raise limits.memory_gb or take "
                                "a smaller graph"),
        ("cuda", 5000, 1000, None, ""),
        ("cuda", 5001, 0, None, "the engine needs 5,001 bytes, and the GPU has 5,000; take a smaller graph or fewer "
                                "features"),
        ("cuda", 9, 1001, None, "the engine needs 1,001 bytes of page-locked host memory, and the limit is 1,000; "
                                "raise limits.memory_gb or take a smaller graph"),
        ("cuda", 3000, 0, 3000, ""),
        ("cuda", 3001, 0, 3000, "the engine needs 3,001 bytes on the GPU, and the limit is 3,000; raise "
                                "limits.device_memory_gb or take a smaller graph"),
        # A limit that the GPU does not have is no remedy.
        ("cuda", 7000, 0, 6000, "the engine needs 7,000 bytes, and the GPU has 5,000; take a smaller graph or fewer "
                                "features"),
        ("cuda", 7000, 0, 5000, "the engine needs 7,000 bytes, and the GPU has 5,000; take a smaller graph or fewer "
                                "features"),
    ],
)  # fmt: skip
def test_memory_that_does_not_fit_is_refused_with_its_remedy(monkeypatch, kind, needed, host, limit, reason):
    monkeypatch.setattr(driver, "describe", lambda index: SimpleNamespace(memory=5000))
    assert preflight.memory_refusal(Yes(needed, host), Device(kind), 1000, limit) == reason


def test_of_a_gpu_that_is_not_in_the_machine_only_limits_are_known(monkeypatch):
    monkeypatch.setattr(driver, "describe", lambda index: pytest.fail("there is none"))
    device = Device("cuda")
    assert preflight.memory_refusal(Yes(1 << 60), device, 1000, absent=True) == ""
    assert "the limit is 3,000" in preflight.memory_refusal(Yes(3001), device, 1000, 3000, absent=True)
    assert "page-locked" in preflight.memory_refusal(Yes(1, 1001), device, 1000, absent=True)


@pytest.mark.parametrize(
    ("error", "memory"),
    [
        (MemoryError(), True), (RuntimeError("CUDA out of memory. Tried to allocate"), True),
        (RuntimeError("CUDA_ERROR_OUT_OF_MEMORY: out of memory"), True), (OSError("cudaErrorMemoryAllocation"), True),
        (RuntimeError("CUBLAS_STATUS_ALLOC_FAILED"), True), (RuntimeError("out of memory of old times"), False),
        (ValueError("CUDA_ERROR_ILLEGAL_ADDRESS"), False),
    ],
)  # fmt: skip
def test_errors_of_memory_are_known_by_their_names(error, memory):
    assert preflight.ran_out_of_memory(error) is memory


@pytest.mark.parametrize(("kind", "reason"), [("cuda", "no GPU 3"), ("cpu", "")])
def test_a_device_is_looked_for_by_its_number(monkeypatch, kind, reason):
    monkeypatch.setattr(driver, "cuda_unavailable", lambda index: f"no GPU {index}")
    assert preflight.device_refusal(Device(kind, index=3)) == reason
