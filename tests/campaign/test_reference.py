from __future__ import annotations

import sys

import numpy as np
import pytest

from harness.campaign import reference
from harness.language import trace
from tests.conftest import FAKES


@pytest.fixture
def problem(monkeypatch, tmp_path):
    monkeypatch.setenv("ONYX_HARNESS_CACHE", str(tmp_path))
    monkeypatch.syspath_prepend(str(FAKES))
    from onyx_fakes_problem import Spread, ring

    yield Spread(), ring(6)
    sys.modules.pop("onyx_fakes_problem", None)


def values(problem, key="key", supersteps=4):
    algorithm, graph = problem
    return reference.reference_values(key, trace(algorithm), graph, 2, algorithm.inputs(graph, 2), supersteps)


def test_values_are_computed_once_and_read_back(problem, monkeypatch):
    first = values(problem)
    assert first["x"].shape == (6, 2)
    assert first["x"].dtype == np.float64

    def never(*_):
        raise AssertionError("computed twice")

    monkeypatch.setattr(reference, "_evaluate", never)
    np.testing.assert_array_equal(values(problem)["x"], first["x"])


def test_another_key_is_another_computation(problem):
    assert not np.array_equal(values(problem)["x"], values(problem, "other", supersteps=1)["x"])


def test_a_computation_that_fails_leaves_nothing_to_be_taken_for_values(problem, monkeypatch, tmp_path):
    def fail(*_):
        raise RuntimeError("half way")

    with monkeypatch.context() as patch, pytest.raises(RuntimeError, match="half way"):
        patch.setattr(reference, "_evaluate", fail)
        values(problem)
    assert not [path for path in (tmp_path / "references").iterdir() if path.is_dir()]
    assert values(problem)["x"].shape == (6, 2)
