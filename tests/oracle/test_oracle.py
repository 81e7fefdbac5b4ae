"""All engines for the processor, under their schedules, beside the oracle."""

from __future__ import annotations

import os

import pytest

from tests.oracle.answers import ORACLES
from tests.oracle.comparison import verdicts
from tests.oracle.graphs import CASES, SMALL
from tests.oracle.schedules import Run, all_runs

# Kernels are compiled for every engine and program, so each program has few of them in every test run.
OFTEN = {
    "pagerank": [Run("scipy"), Run("onyx", {"direction": "push", "change_driven": True}), Run("gunrock")],
    "label_propagation": [Run("scipy"), Run("example", {"blocks": 3}), Run("tigr")],
    "sssp": [Run("simdx"), Run("example")],
    "als": [Run("scipy"), Run("onyx", {"change_driven": False})],
    "belief_propagation": [Run("onyx", {"change_driven": True})],
}


def disagreements(found):
    return [f"{v.schedule}, {v.kind}: {v.ratio:.3g} x the bound; {v.text}" for v in found if not v.agrees]


@pytest.mark.parametrize(("make", "algorithm", "features"), SMALL, ids=[task[1].name for task in SMALL])
def test_engines_agree_with_the_oracle(make, algorithm, features):
    found = list(verdicts(algorithm, make(), features, OFTEN[algorithm.name]))
    assert not disagreements(found)
    assert all(v.ratio is not None for v in found)  # all of them ran


def by_algorithm():
    """The tasks of all graphs, those of an algorithm together: kernels are compiled once."""
    tasks = [(case, *task) for case in CASES for task in case.tasks]
    return sorted(tasks, key=lambda task: list(ORACLES).index(task[1].name))


def name_of(value):
    return getattr(value, "name", str(value))


@pytest.mark.full
@pytest.mark.parametrize(("case", "algorithm", "features"), by_algorithm(), ids=name_of)
def test_engines_agree_with_the_oracle_on_real_graphs(case, algorithm, features, record_property):
    if "HARNESS_DATA" not in os.environ:
        pytest.skip("HARNESS_DATA names no folder of real graphs")
    found = list(verdicts(algorithm, case.graph(), features, all_runs()))
    record_property("worst ratio", max((v.ratio for v in found if v.ratio is not None), default=0.0))
    assert not disagreements(found)
    assert any(v.kind in ("iterate", "settled") for v in found)
