"""Whole runs of generated kernels of the CPU, run as Python: choices of directions, tracking, and warm starts."""

from __future__ import annotations

import pytest

from harness.graph.generators import rmat
from tests.algorithms.warm import ALGORITHMS
from tests.engines import test_cpu_adaptive as adaptive
from tests.engines import test_operations as operations
from tests.engines import test_warm as warm
from tests.engines.problems import LIBRARIES
from tests.engines.programs import PROGRAMS
from tests.lowering.interpreted import interpret
from tests.lowering.test_generated_kernels import short_runs

SUMS_AND_EXTREMA = ("sssp", "bfs", "components", "pagerank", "kcore", "hits")
STARTS = [
    (schedule, name, warm.KINDS[(i + j) % len(warm.KINDS)])
    for i, schedule in enumerate(warm.ALL)
    for j, name in enumerate(ALGORITHMS)
    if name in SUMS_AND_EXTREMA and warm.ALL[schedule][0] not in LIBRARIES
    # In a graph of 64 vertices, a deleted bridge resets most of a component.
    if (name, warm.KINDS[(i + j) % len(warm.KINDS)]) != ("components", "delete")
]


@pytest.fixture(autouse=True)
def _interpreted(monkeypatch):
    interpret(monkeypatch)


@pytest.mark.short_run(rows=16)
@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_pushes_and_pulls_in_turn(name, monkeypatch):
    short_runs(monkeypatch)
    adaptive.test_every_program_with_a_form_that_pushes_changes(name)


@pytest.mark.short_run(rows=6)
@pytest.mark.parametrize("name", ["shortest_paths", "largest_label", "gathered_twice", "aggregate_rewritten"])
@pytest.mark.parametrize("aware", [True, False])
def test_features_in_loops_in_both_directions(name, aware, monkeypatch):
    options = {"direction": "adaptive", "dense_share": 0.3, "feature_aware": aware}
    monkeypatch.setitem(operations.SCHEDULES, "adaptive", ("onyx", options))
    for features in (1, 3):
        operations.check("adaptive", name, features)


@pytest.mark.short_run(rows=10)
@pytest.mark.parametrize(("schedule", "name", "kind"), STARTS)
def test_warm_starts_of_changed_graphs(schedule, name, kind, monkeypatch):
    monkeypatch.setattr(warm, "graph_of", lambda *_: rmat(6, max_weight=8, seed=2))
    monkeypatch.setattr(warm, "SHARE", 3e-3)
    warm.runs(schedule, name, kind)
