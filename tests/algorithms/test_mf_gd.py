"""Full gradient descent: its step by a plain formula, and engines against the float64 reference."""

from __future__ import annotations

import numpy as np
import pytest

from harness.algorithms.mf_gd import GradientDescentMatrixFactorisation
from harness.contract import Device, No, Phases
from harness.graph.generators import grid, random_ratings
from harness.language import InvalidInput, trace
from harness.language.reference import ReferenceRun
from harness.language.validation import compare
from tests.engines.problems import new_engine

GIVEN = random_ratings(users=60, items=40, num_ratings=700, seed=2)


def problem(**options):
    algorithm = GradientDescentMatrixFactorisation(**options)
    graph = algorithm.prepare_graph(GIVEN)
    return algorithm, graph, trace(algorithm)


def test_a_superstep_is_the_formula():
    algorithm, graph, program = problem(alpha=0.3, lam=0.1, supersteps=1)
    inputs = algorithm.inputs(graph, 3)
    run = ReferenceRun(program, graph, 3)
    run.reset(inputs)
    run.run(1)
    x, rating = inputs.properties["initial"].astype(np.float64), np.zeros((100, 100))
    known = np.zeros((100, 100), bool)
    rating[graph.csr.row_of_edge, graph.csr.neighbours] = inputs.properties["rating"]
    known[graph.csr.row_of_edge, graph.csr.neighbours] = True
    error = np.where(known, rating - x @ x.T, 0.0)
    count = np.maximum(known.sum(axis=1), 1)[:, None]
    np.testing.assert_allclose(run.values("x"), x + 0.3 * (error @ x / count - 0.1 * x), rtol=1e-9)


def test_held_out_ratings_are_predicted_and_the_error_falls():
    algorithm, graph, program = problem(holdout=0.1)
    run = ReferenceRun(program, graph, 8)
    run.reset(algorithm.inputs(graph, 8))
    found = []
    for _ in range(4):
        run.run(10)
        found.append(algorithm.metrics(GIVEN, {"x": run.values("x")})["train_rmse"])
    assert found == sorted(found, reverse=True)
    assert algorithm.metrics(GIVEN, {"x": run.values("x")})["rmse"] < 1.05


@pytest.mark.parametrize("engine", ["onyx", pytest.param("tigr", marks=pytest.mark.full)])
def test_an_engine_gives_the_values_of_float64(engine):
    algorithm, graph, program = problem()
    inputs, run = algorithm.inputs(graph, 3), ReferenceRun(program, graph, 3)
    made = new_engine(engine, {})
    made.prepare(program, graph, 3, Device(threads=2), Phases())
    for one in (run, made):
        one.reset(inputs)
        one.run(30)
    found = compare(program, {"x": made.values("x")}, {"x": run.values("x")})
    assert found.ok, found.detail


def test_what_cannot_run_it_says_why():
    _, graph, program = problem()
    for engine, reason in (("scipy", "is not a constant of the edge"), ("lonestar", "for those")):
        answer = new_engine(engine, {}).supports(program, graph, 3, Device(threads=1))
        assert isinstance(answer, No)
        assert reason in answer.reason
    with pytest.raises(InvalidInput, match="is not bipartite"):
        GradientDescentMatrixFactorisation().prepare_graph(grid(rows=3, columns=3))
