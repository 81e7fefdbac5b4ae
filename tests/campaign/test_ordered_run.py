"""A run of known order, by hand: which values and metrics it is compared with, and when float64 is at fault."""

from __future__ import annotations

import math
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest

from harness.campaign import ordered_check
from harness.campaign.ordered_check import BY_METRICS, METHOD, Ordered, run_in_order
from harness.contract import RunStatistics
from harness.language import InvalidInput
from harness.language.algorithm import Answer
from harness.language.validation import Comparison

ORDER = {"step": np.array([1, 0])}
LOST = ({"step": 0.25}, {"step": 0.5}, {"step": 0.125})


@pytest.fixture
def made(monkeypatch):
    """Return a function that makes a run, and what its checks have asked for.

    ``exact``: the values of x in float64 in the run's own order. ``random``: the metric of runs in random orders.
    """

    def make(orders=(ORDER, ORDER), *, exact=(1.0, 2.0), random=(1.0, 2.0), deterministic=True, values=(1.0, 2.0)):
        asked = []

        def replayed(program, graph, features, inputs, given):
            asked.append("replay")
            assert given == orders
            return {"x": np.array(exact)}

        def in_random_orders(problem):
            asked.append("random orders")
            return Answer({"rmse": np.array([[one] for one in random])}, "random")

        algorithm = SimpleNamespace(
            name="made",
            interval_slack=0.25,
            diverged_over=None,
            metrics=lambda _, one: {"rmse": float(one["x"][0])},
        )
        problem = SimpleNamespace(
            program=SimpleNamespace(name="made"), graph=None, features=1, inputs=None, given=None, carried={},
            algorithm=algorithm, max_supersteps=1,
        )  # fmt: skip
        monkeypatch.setattr(ordered_check, "replay", replayed)
        monkeypatch.setattr(ordered_check, "in_random_orders", in_random_orders)
        monkeypatch.setattr(ordered_check, "compare", compare)
        found = Ordered(problem, tuple(orders), {"x": np.array(values)}, {"rmse": [values[0]]}, deterministic)
        return found, asked

    return make


def compare(program, values, exact):
    error = float(np.abs(values["x"] - exact["x"]).max())
    return Comparison(error <= 0.5, error, 0.5, f"off by {error}")


def test_the_most_lost_updates_of_a_superstep_count(made):
    assert made(LOST)[0].lost == 0.5
    assert made()[0].lost is None
    assert made(())[0].lost is None


def test_a_known_order_is_all_that_is_run_in_float64(made):
    run, asked = made()
    run.check_float64()
    run.check_float64()
    assert asked == ["replay"]
    run, asked = made(exact=(1.0, math.inf))
    with pytest.raises(InvalidInput, match="made diverges in float64, in the engine's own order: x has values that"):
        run.check_float64()
    assert asked == ["replay"]


def test_without_an_order_float64_runs_in_random_ones(made):
    run, asked = made(LOST)
    run.check_float64()
    assert asked == ["random orders"]
    run, asked = made(LOST, random=(1.0, math.nan))
    with pytest.raises(InvalidInput, match="made diverges in float64, in random orders: rmse is not finite; lower its"):
        run.check_float64()


@pytest.mark.parametrize(
    ("own", "timed", "deterministic", "ok", "error", "method"),
    [
        ((1.0, 2.25), (1.0, 2.125), True, True, 0.25, METHOD),
        ((1.0, 2.125), (1.0, 2.25), True, True, 0.25, METHOD),
        ((1.0, 2.0), (1.0, 2.75), True, False, 0.75, METHOD),
        ((1.0, 2.75), (1.0, 2.0), True, False, 0.75, METHOD),
        ((1.0, 2.75), (1.0, 2.0), False, False, 0.75, METHOD),
        ((1.0, 2.25), (1.5, 9.0), False, True, 0.25, f"{METHOD}; timed runs: {BY_METRICS}"),
        ((1.0, 2.25), (900.0, 2.0), False, False, 599.0, f"{METHOD}; timed runs: {BY_METRICS}"),
    ],
)
def test_an_answer_is_compared_in_its_own_order_or_by_metrics(made, own, timed, deterministic, ok, error, method):
    """In random orders the metric is 1 or 2, and 1.5 on average: one more run is less than 900 away."""
    run, _ = made(values=own, deterministic=deterministic)
    found, against = run.compared({"x": np.array(timed)})
    assert (found.ok, against) == (ok, method)
    assert found.error == pytest.approx(error)


@pytest.mark.parametrize("validate", [True, False])
def test_every_superstep_is_run_once_in_an_order_that_is_kept_for_validation(monkeypatch, validate):
    monkeypatch.setattr(ordered_check, "edge_steps", lambda program: ("step",))
    calls = []

    class Engine:
        deterministic, taken = False, 0
        use = SimpleNamespace(away=nullcontext)

        def reset(self, inputs):
            calls.append(("reset", inputs))
            self.taken = 0

        def run(self, most):
            calls.append(("run", most))
            self.taken += most
            return RunStatistics(False, [])

        def ordered_superstep(self):
            calls.append("ordered")
            self.taken += 1
            return {"step": np.array([self.taken])}

        def values(self, name):
            return np.array([10.0 * self.taken])

    algorithm = SimpleNamespace(metrics=lambda given, values: {"rmse": float(values["x"][0])})
    program = SimpleNamespace(outputs=("x",))
    problem = SimpleNamespace(
        program=program, inputs="inputs", max_supersteps=3, algorithm=algorithm, given=None, carried={}
    )
    found = run_in_order(Engine(), SimpleNamespace(validate=validate), problem)
    assert calls == [("reset", "inputs"), *(["ordered"] if validate else [("run", 1)]) * 3]
    assert [one["step"].tolist() for one in found.orders] == ([[1], [2], [3]] if validate else [])
    assert (found.metrics, found.start) == ({"rmse": [10.0, 20.0, 30.0]}, {"rmse": 0.0})
    assert (found.values["x"].tolist(), found.deterministic) == ([30.0], False)
    monkeypatch.setattr(ordered_check, "edge_steps", lambda program: ())
    assert run_in_order(Engine(), SimpleNamespace(validate=validate), problem) is None
