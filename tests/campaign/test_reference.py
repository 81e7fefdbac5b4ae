"""References: computed once, stored, and the method that computes them."""

from __future__ import annotations

import dataclasses
import sys

import numpy as np
import pytest

from harness.algorithms.bfs import BFS
from harness.campaign import reference
from harness.campaign.problem import Problem
from harness.graph import Graph
from harness.language import trace
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
