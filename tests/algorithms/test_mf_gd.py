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


@pytest.mark.parametrize("bias", ["none", "both"])
@pytest.mark.parametrize("rates", ["constant", "adagrad"])
def test_biases_and_adaptive_rates_are_the_formulas(bias, rates):
    algorithm, graph, program = problem(alpha=0.3, lam=0.1, supersteps=3, bias=bias, rates=rates)
    inputs = algorithm.inputs(graph, 3)
    run = ReferenceRun(program, graph, 3)
    run.reset(inputs)
    run.run(3)
    x, b, g = inputs.properties["initial"].astype(np.float64), np.zeros(100), np.ones(100)
    u, v = graph.csr.row_of_edge, graph.csr.neighbours
    count = np.maximum(np.bincount(v, minlength=100), 1)
    for _ in range(3):
        error = inputs.properties["rating"] - (x[u] * x[v]).sum(axis=1) - (b[u] + b[v] if bias == "both" else 0.0)
        pull = np.zeros((100, 3))
        np.add.at(pull, v, error[:, None] * x[u])
        up = pull / count[:, None] - 0.1 * x
        g = g + (up**2).mean(axis=1) if rates == "adagrad" else g
        x = x + 0.3 / np.sqrt(g)[:, None] * up
        b = b + 0.3 / np.sqrt(g) * (np.bincount(v, error, minlength=100) / count - 0.1 * b)
    np.testing.assert_allclose(run.values("x"), x, rtol=1e-6, atol=1e-9)
    if bias == "both":
        np.testing.assert_allclose(run.values("b"), b, rtol=1e-6, atol=1e-9)
    outputs = {name: run.values(name) for name in program.outputs}
    fitted = (x[u] * x[v]).sum(axis=1) + (b[u] + b[v] if bias == "both" else 0.0)
    expected = np.sqrt(np.mean((inputs.properties["rating"] - fitted) ** 2))
    assert algorithm.metrics(GIVEN, outputs)["train_rmse"] == pytest.approx(expected, rel=1e-5)


def test_biases_fit_the_training_ratings_better():
    found = {}
    for bias in ("none", "both"):
        algorithm, graph, program = problem(bias=bias, supersteps=40)
        run = ReferenceRun(program, graph, 2)
        run.reset(algorithm.inputs(graph, 2))
        run.run(40)
        found[bias] = algorithm.metrics(GIVEN, {name: run.values(name) for name in program.outputs})["train_rmse"]
    assert found["both"] < found["none"]


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


@pytest.mark.parametrize(
    ("engine", "options"),
    [("onyx", {}), pytest.param("tigr", {}, marks=pytest.mark.full),
     *(pytest.param(engine, {"bias": "both", "rates": "adagrad"}, marks=pytest.mark.full)
       for engine in ("onyx", "simdx", "torch"))],
)  # fmt: skip
def test_an_engine_gives_the_values_of_float64(engine, options):
    algorithm, graph, program = problem(**options)
    inputs, run = algorithm.inputs(graph, 3), ReferenceRun(program, graph, 3)
    made = new_engine(engine, {})
    made.prepare(program, graph, 3, Device(threads=2), Phases())
    for one in (run, made):
        one.reset(inputs)
        one.run(30)
    found = compare(program, *({name: one.values(name) for name in program.outputs} for one in (made, run)))
    assert found.ok, found.detail


def test_what_cannot_run_it_says_why():
    _, graph, program = problem()
    for engine, reason in (("scipy", "is not a constant of the edge"), ("lonestar", "for those")):
        answer = new_engine(engine, {}).supports(program, graph, 3, Device(threads=1))
        assert isinstance(answer, No)
        assert reason in answer.reason
    with pytest.raises(InvalidInput, match="is not bipartite"):
        GradientDescentMatrixFactorisation().prepare_graph(grid(rows=3, columns=3))
