"""All engines for the CPU, under their schedules, compared with the oracle."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import pytest

from harness.algorithms.label_propagation import LabelPropagation
from harness.algorithms.pagerank import PageRank
from tests.oracle.answers import ORACLES
from tests.oracle.comparison import verdicts
from tests.oracle.graphs import CASES, SMALL, hub_and_ring
from tests.oracle.schedules import Run, all_runs, installed, made

# Kernels are compiled for every engine and program, so each program has few cases in every test run.
OFTEN = {
    "pagerank": [Run("scipy"), Run("onyx", {"direction": "push", "change_driven": True}), Run("gunrock")],
    "label_propagation": [Run("scipy"), Run("example", {"blocks": 3}), Run("tigr")],
    "sssp": [Run("simdx"), Run("example")],
    "als": [Run("scipy"), Run("onyx", {"change_driven": False})],
    "belief_propagation": [Run("onyx", {"change_driven": True})],
}


def disagreements(found):
    return [f"{v.schedule}, {v.kind}: {v.ratio:.3g} x the bound; {v.text}" for v in found if not v.agrees]


@pytest.mark.short_run(rows=1)
@pytest.mark.parametrize(("make", "algorithm", "features"), SMALL, ids=[task[1].name for task in SMALL])
def test_engines_agree_with_the_oracle(make, algorithm, features):
    found = list(verdicts(algorithm, make(), features, OFTEN[algorithm.name]))
    assert not disagreements(found)
    assert all(v.ratio is not None for v in found)  # all of them ran


def test_an_engine_that_is_slightly_off_disagrees(example, monkeypatch):
    values = example.values
    monkeypatch.setattr(example, "values", lambda self, name: values(self, name) * np.float32(1 + 2e-5))
    found = list(verdicts(PageRank(), hub_and_ring(), 3, [Run("example")]))
    assert {v.kind for v in found if not v.agrees} >= {"fixed length", "iterate"}


def test_an_engine_that_claims_to_be_settled_too_early_disagrees(example, monkeypatch):
    run = example.run
    monkeypatch.setattr(example, "run", lambda self, limit: replace(run(self, min(limit, 6)), settled=True))
    found = list(verdicts(LabelPropagation(), hub_and_ring(), 3, [Run("example")]))
    assert [v.kind for v in found if not v.agrees] == ["settled"]


@pytest.fixture
def example():
    return type(made(Run("example"), installed()))


def by_algorithm():
    """Return the tasks of all graphs, grouped by algorithm, so that kernels are compiled once."""
    tasks = [(case, *task) for case in CASES for task in case.tasks]
    return sorted(tasks, key=lambda task: list(ORACLES).index(task[1].name))


def name_of(value):
    return getattr(value, "name", str(value))


@pytest.mark.full
@pytest.mark.parametrize(("case", "algorithm", "features"), by_algorithm(), ids=name_of)
def test_engines_agree_with_the_oracle_on_real_graphs(case, algorithm, features, record_property):
    if not os.environ.get("HARNESS_DATA"):
        pytest.skip("HARNESS_DATA names no folder of real graphs")
    found = list(verdicts(algorithm, case.graph(), features, all_runs()))
    record_property("worst ratio", max((v.ratio for v in found if v.ratio is not None), default=0.0))
    assert not disagreements(found)
    assert any(v.kind in ("iterate", "settled") for v in found)
