"""References: computed once, stored, and the method that computes them."""

from __future__ import annotations

import dataclasses
import json
import os
import resource
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from harness.algorithms.bfs import BFS
from harness.cache import CacheError
from harness.campaign import reference, reference_process
from harness.campaign.errors import CampaignError
from harness.campaign.problem import Problem
from harness.graph import Graph
from harness.language import trace
from harness.language.algorithm import Allowance, Answer
from harness.language.warm import WarmStart
from tests.conftest import FAKES


def problem_of(algorithm, graph, supersteps, features=2, key="key"):
    inputs = algorithm.inputs(graph, features)
    return Problem(algorithm, trace(algorithm), graph, graph, inputs, features, supersteps, key, {})


@pytest.fixture
def problem(monkeypatch, tmp_path):
    monkeypatch.setenv("ONYX_HARNESS_CACHE", str(tmp_path))
    monkeypatch.syspath_prepend(str(FAKES))
    from onyx_fakes_problem import Spread, ring

    yield problem_of(Spread(), ring(6), 4)
    sys.modules.pop("onyx_fakes_problem", None)


@pytest.fixture
def levels(monkeypatch, tmp_path):
    """Levels along a path of 5 vertices, for which 2 supersteps are too few."""
    monkeypatch.setenv("ONYX_HARNESS_CACHE", str(tmp_path))
    path = Graph.from_edges([0, 1, 2, 3], [1, 2, 3, 4], name="path")
    return problem_of(BFS(sources="0"), path, 2, features=1)


def values(problem, settled=False):
    return reference.expected(problem, settled=settled).values


def test_values_are_computed_once_and_read_back(problem, monkeypatch):
    first = reference.expected(problem, settled=False)
    assert first.values["x"].shape == (6, 2)
    assert first.values["x"].dtype == np.float64

    def never(*_, **__):
        raise AssertionError("computed twice")

    again = reference.expected(dataclasses.replace(problem, compute=never), settled=False)
    np.testing.assert_array_equal(again.values["x"], first.values["x"])
    assert again.method == first.method == "the float64 reference"


def test_another_key_is_another_computation(problem):
    other = dataclasses.replace(problem, key="other", max_supersteps=1)
    assert not np.array_equal(values(problem)["x"], values(other)["x"])


def test_a_computation_that_fails_leaves_nothing_to_be_taken_for_values(problem, monkeypatch, tmp_path):
    def fail(*_, **__):
        raise RuntimeError("half way")

    with monkeypatch.context() as patch, pytest.raises(RuntimeError, match="half way"):
        patch.setattr(reference, "_reference", fail)
        values(problem)
    assert not [path for path in (tmp_path / "references").iterdir() if path.is_dir()]
    assert values(problem)["x"].shape == (6, 2)


def test_a_settled_run_is_compared_with_a_method_independent_of_the_program(levels, monkeypatch):
    for _ in range(2):
        found = reference.expected(levels, settled=True)
        assert found.values["level"].tolist() == [[0.0], [1.0], [2.0], [3.0], [4.0]]
        assert found.method == "scipy.sparse.csgraph.dijkstra"


def test_a_warm_run_is_not_compared_with_that_method(levels, monkeypatch):
    """It would draw other sources on the changed graph."""
    monkeypatch.setattr(reference, "_kept", lambda problem, kind: kind)
    warm = dataclasses.replace(levels, start=WarmStart("warm"))
    assert reference.expected(levels, settled=True) == "settled"
    assert reference.expected(warm, settled=True) != "settled"


def test_a_stopped_run_is_compared_after_equally_many_supersteps(levels):
    reference.expected(levels, settled=True)
    found = reference.expected(levels, settled=False)
    assert found.values["level"].tolist() == [[0.0], [1.0], [2.0], [np.inf], [np.inf]]
    assert found.method == "the float64 reference"


def test_without_such_a_method_the_reference_does(problem):
    assert reference.expected(problem, settled=True).method == "the float64 reference"


def folder_of(tmp_path):
    [folder] = [path for path in (tmp_path / "references").iterdir() if path.is_dir()]
    return folder


def other_values(folder):
    file = folder / "values-0.npy"
    np.save(file, np.load(file) + 1)


def another_method(folder):
    file = folder / "answer.json"
    file.write_text(file.read_text().replace("the float64 reference", "the float32 reference"))


DAMAGES = {
    "values": other_values,
    "method": another_method,
    "no values": lambda folder: (folder / "values-0.npy").unlink(),
    "no description": lambda folder: (folder / "answer.json").unlink(),
    "half of it": lambda folder: (folder / "answer.json").write_text('{"method": "the'),
    "a list": lambda folder: (folder / "answer.json").write_text("[]"),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_reference_is_computed_again_and_says_so_once(problem, tmp_path, caplog, damage):
    first = reference.expected(problem, settled=False).values["x"].tolist()
    damage(folder_of(tmp_path))
    found = reference.expected(problem, settled=False)
    assert found.values["x"].tolist() == first
    assert found.method == "the float64 reference (computed again, as the cached one was damaged)"
    assert "the cached reference is damaged" in caplog.text
    assert reference.expected(problem, settled=False).method == "the float64 reference"


@pytest.mark.parametrize("totals", [None, np.array([0.5, 0.25])])
def test_an_answer_is_read_as_it_was_computed(problem, monkeypatch, totals):
    given = Answer(
        {"b": np.array([[1.5], [2.5]]), "a": np.arange(3, dtype=np.int64)}, "by hand",
        {"a": Allowance(np.array([0.1, 0.2, 0.3]), totals), "b": Allowance(np.array([[1.0], [2.0]]))}, 7,
    )  # fmt: skip
    monkeypatch.setitem(reference._METHODS, "converged", lambda problem: given)
    for _ in range(2):  # computed, and read again
        found = reference.converged(problem)
        assert (found.method, found.least_supersteps) == ("by hand", 7)
        assert {name: one.tolist() for name, one in found.values.items()} == {"b": [[1.5], [2.5]], "a": [0, 1, 2]}
        assert found.values["a"].dtype == np.int64
        assert found.allowances["a"].entries.tolist() == [0.1, 0.2, 0.3]
        assert found.allowances["b"].entries.tolist() == [[1.0], [2.0]]
        assert found.allowances["b"].totals is None
        kept = found.allowances["a"].totals
        assert kept is totals is None or kept.tolist() == [0.5, 0.25]


def test_that_there_is_no_answer_is_kept(problem, monkeypatch):
    calls = []
    monkeypatch.setitem(reference._METHODS, "converged", lambda problem: calls.append(1))
    assert reference.converged(problem) is reference.converged(problem) is None
    assert calls == [1]


def test_each_kind_is_computed_by_its_method(problem, monkeypatch):
    posed = (problem.program, problem.graph, problem.features, problem.inputs, problem.max_supersteps)

    def method(name):
        return lambda *given, **named: Answer({"x": np.zeros(1)}, f"{name} {given == posed} {named}")

    monkeypatch.setattr(reference, "answer_at_limit", method("at the limit"))
    monkeypatch.setattr(reference, "fixed_point", method("fixed point"))
    methods = {kind: reference._kept(problem, kind).method for kind in ("reference", "converged", "warm")}
    assert methods == {
        "reference": "at the limit True {}", "converged": "fixed point True {}",
        "warm": "fixed point True {'cold': False}",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("settled", "warm", "tolerance", "known", "tried"),
    [
        (True, False, "eps", {"settled"}, ["settled"]),
        (True, False, "eps", {"converged"}, ["settled", "converged"]),
        (True, False, None, {"reference"}, ["settled", "reference"]),
        (False, False, "eps", {"converged"}, ["converged"]),
        (False, False, "eps", {"reference"}, ["converged", "reference"]),
        (True, True, "eps", {"warm"}, ["warm"]),
        (True, True, None, {"reference"}, ["reference"]),
    ],
)
def test_the_best_answer_that_there_is_is_expected(levels, monkeypatch, settled, warm, tolerance, known, tried):
    asked = []
    monkeypatch.setattr(reference, "_kept", lambda _, kind: asked.append(kind) or (kind if kind in known else None))
    control = dataclasses.replace(levels.program.control, tolerance=tolerance)
    problem = dataclasses.replace(
        levels, program=dataclasses.replace(levels.program, control=control), start=WarmStart("warm") if warm else None
    )
    assert reference.expected(problem, settled=settled) == tried[-1]
    assert asked == tried


@pytest.mark.parametrize(
    ("status", "printed", "error", "message"),
    [
        (4, "a trace\n3 GB are missing", MemoryError, "the reference: 3 GB are missing"),
        (5, "a trace\nthe cache is full", CacheError, "the cache is full"),
        (3, "a trace\nno such file\n", CampaignError, "the reference cannot be computed: no such file"),
        (3, "no such file", CampaignError, "the reference cannot be computed: no such file"),
        (-9, "", CampaignError, "the reference cannot be computed: exit status -9"),
    ],
)
def test_a_reference_that_fails_says_why(monkeypatch, capsys, problem, status, printed, error, message):
    def run(module, given, output):
        os.write(output, printed.encode())
        return status

    monkeypatch.setattr(reference_process, "run_beside", run)
    referee = reference_process.Referee(SimpleNamespace(plain=dict))
    with pytest.raises(error) as met:
        referee(problem, "reference")
    assert str(met.value) == message
    assert printed.strip() in capsys.readouterr().err


def test_the_process_of_a_reference_is_told_what_to_compute(monkeypatch):
    def run(module, given, output):
        with os.fdopen(os.dup(given), "rb") as file:
            told.update(json.loads(file.readline()), arrays=[np.load(file).tolist() for _ in range(2)], module=module)
        return 0

    told = {}
    monkeypatch.setattr(reference_process, "run_beside", run)
    carried = {"second": np.array([1, 2]), "first": np.array([[0.5]])}
    problem = SimpleNamespace(key="key", program=SimpleNamespace(phases=(1, 2, 3)), carried=carried)
    reference_process.Referee(SimpleNamespace(plain=lambda: {"engine": "made"}))(problem, "varied")
    limits = told.pop("data_bytes")
    assert limits == list(resource.getrlimit(resource.RLIMIT_DATA))
    assert told == {
        "cell": {"engine": "made"}, "key": "key", "kind": "varied", "phase": 3,
        "carried": ["second", "first"], "arrays": [[1, 2], [[0.5]]], "module": "harness.campaign.reference_process",
    }  # fmt: skip
