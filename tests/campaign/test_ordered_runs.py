"""Runs of known order: growth of metrics, lost updates, and what is compared with what."""

from __future__ import annotations

import math
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest

from harness.campaign import ordered_check
from harness.campaign.ordered_check import BY_METRICS, METHOD, Ordered, _inside, metrics_by_superstep, within_interval
from harness.language import InvalidInput
from harness.language.validation import Comparison


def problem(**changes):
    algorithm = SimpleNamespace(
        name="fit",
        diverged_over=10.0,
        interval_slack=0.02,
        metrics=lambda given, values: {"rmse": float(values["x"])},
    )
    fields = {
        "algorithm": algorithm,
        "given": None,
        "carried": {},
        "program": SimpleNamespace(name="fit"),
        "max_supersteps": 2,
    }
    return SimpleNamespace(**fields | changes)


ORDERS = ({"step": np.arange(3)},)


def run(*, orders=ORDERS, metrics=(), start=1.0, x=0.5, deterministic=True, **changes):
    return Ordered(
        problem(**changes),
        tuple(orders),
        {"x": np.float64(x)},
        {"rmse": list(metrics)} if metrics else {},
        deterministic,
        {} if start is None else {"rmse": start},
    )


def test_the_largest_share_of_lost_updates():
    assert run().lost is None
    assert run(orders=[{"a": 0.25, "b": np.arange(2)}, {"a": 0.5}, {"a": np.arange(2)}]).lost == 0.5
    assert run(orders=[]).lost is None


@pytest.mark.parametrize(
    ("metrics", "first"), [((1.0, 2.0), None), ((1.0, math.nan, 3.0), 2), ((math.inf,), 1), ((), None)]
)
def test_the_first_superstep_that_is_not_finite(metrics, first):
    assert run(metrics=metrics).first_not_finite == first


@pytest.mark.parametrize(
    ("metrics", "timed", "exact", "found"),
    [
        ((2.0, 10.0), 9.0, 1.0, ""),
        ((2.0, 10.1), 9.0, 1.0, "rmse is 10.1 after superstep 2, over 10 times the 1 of the start"),
        ((11.0, 2.0), 9.0, 1.0, "rmse is 11 after superstep 1, over 10 times the 1 of the start"),
        ((2.0, 3.0), 12.5, 1.0, "rmse is 12.5 at the end, over 10 times the 1 of the start"),
        ((2.0, 3.0), 12.5, 11.0, None),
        ((), 12.5, 1.0, ""),
    ],
)
def test_a_metric_that_grows_beyond_the_algorithms_multiple(monkeypatch, metrics, timed, exact, found):
    monkeypatch.setattr(Ordered, "exact", {"x": exact})
    made = run(metrics=metrics)
    if found is None:
        with pytest.raises(
            InvalidInput, match="fit diverges in float64, in the engine's own order: rmse is 11 at the end"
        ):
            made.grown({"x": timed})
    else:
        assert made.grown({"x": timed}) == found
    assert run(metrics=metrics, start=None).grown({"x": timed}) == "", "nothing is known of the start"
    tolerant = SimpleNamespace(diverged_over=None, metrics=lambda *_: {"rmse": 1e9}, name="fit")
    assert run(metrics=metrics, algorithm=tolerant).grown({"x": timed}) == ""


def test_lossy_runs_are_compared_with_random_orders(monkeypatch):
    every = {"rmse": np.array([[1.0, 11.0], [1.0, 2.0]])}
    monkeypatch.setattr(ordered_check, "in_random_orders", lambda _: SimpleNamespace(values=every))
    made = run(orders=[{"a": 0.25}], metrics=(2.0, 20.0))
    with pytest.raises(InvalidInput, match="fit diverges in float64, in random orders: rmse is 11 after superstep 2"):
        made.grown({"x": 1.0})
    made.check_float64()
    every["rmse"][1, 0] = np.inf
    with pytest.raises(
        InvalidInput, match="fit diverges in float64, in random orders: rmse is not finite; lower its rates"
    ):
        made.check_float64()


@pytest.mark.parametrize(
    ("own", "timed", "inside", "deterministic", "found", "method"),
    [
        ((False, 3.0), (True, 0.1), True, True, "own", METHOD),
        ((True, 0.1), (False, 3.0), True, True, "timed", METHOD),
        ((True, 0.1), (True, 0.2), True, True, "timed", METHOD),
        ((True, 0.2), (True, 0.1), True, True, "own", METHOD),
        ((True, 0.1), (False, 3.0), True, False, "own", f"{METHOD}; timed runs: {BY_METRICS}"),
        ((True, 0.1), (True, 0.1), False, False, "inside", f"{METHOD}; timed runs: {BY_METRICS}"),
        ((False, 3.0), (True, 0.1), False, False, "own", METHOD),
    ],
)
def test_the_worst_comparison_counts(monkeypatch, own, timed, inside, deterministic, found, method):
    made = run(deterministic=deterministic)
    monkeypatch.setattr(Ordered, "exact", {"x": 1.0})
    answers = {id(made.values): Comparison(*own, 1.0, "own")}
    monkeypatch.setattr(
        ordered_check,
        "compare",
        lambda program, values, exact: answers.get(id(values), Comparison(*timed, 1.0, "timed")),
    )
    monkeypatch.setattr(ordered_check, "within_interval", lambda *_: Comparison(inside, 0.5, 1.0, "inside"))
    met, how = made.compared({"x": 2.0})
    assert (met.detail, how) == (found, method)


def test_a_metric_lies_within_the_runs_in_random_orders(monkeypatch):
    runs = np.array([[1.0, 2.0], [1.0, 2.1], [1.0, 1.9]])
    monkeypatch.setattr(ordered_check, "in_random_orders", lambda _: SimpleNamespace(values={"rmse": runs}))
    monkeypatch.setattr(
        ordered_check, "interval", lambda values, slack: (values.mean(), values.min() - slack, values.max() + slack)
    )
    for x, ok in ((2.0, True), (2.12, True), (2.121, False), (1.88, True), (1.879, False)):
        found = within_interval(problem(), {"x": x})
        assert (found.ok, found.error, found.bound) == (ok, pytest.approx(abs(x - 2.0) / 2.0), pytest.approx(0.06))
    assert found.detail == "rmse is 1.879; runs in random orders give 1.88 to 2.12 (slack 0.02)"
    zero = _inside("rmse", 0.5, np.array([-1.0, 1.0]), 0.0)
    assert (zero.ok, zero.error, zero.bound) == (True, 0.5, 1.0)
    for changed in ({"interval_slack": None}, {}):
        if not changed:
            monkeypatch.setattr(ordered_check, "in_random_orders", lambda _: SimpleNamespace(values={}))
        algorithm = SimpleNamespace(**{**vars(problem().algorithm), **changed})
        with pytest.raises(
            InvalidInput, match="are compared by metrics, and fit states no metrics with an interval_slack"
        ):
            within_interval(problem(algorithm=algorithm), {"x": 2.0})


def test_a_metric_of_a_superstep_is_compared_with_the_runs_after_that_superstep(monkeypatch):
    """Of five supersteps, 1, 2 and 5 are compared; a metric after others may have any value."""
    runs = np.array([5.0, 4.0, 1.0]) + np.linspace(0.0, 0.1, 20)[:, None]
    monkeypatch.setattr(ordered_check, "in_random_orders", lambda _: SimpleNamespace(values={"rmse": runs}))
    right = (5.05, 4.05, 90.0, 80.0, 1.05)
    for wrong in (None, 0, 1, 4):
        metrics = [value + (2.0 if place == wrong else 0.0) for place, value in enumerate(right)]
        made = run(orders=[{"a": 0.25}], metrics=metrics, max_supersteps=5)
        found, method = made.compared({"x": 1.05})
        assert (found.ok, method) == (wrong is None, BY_METRICS)
        assert wrong is None or f"after superstep {wrong + 1} " in found.detail


class Stepping:
    """An engine that settles after three supersteps; its answer is the number of those done."""

    def __init__(self, *, stepwise=True, settles=3):
        self.stepwise, self.settles, self.done, self.asked = stepwise, settles, 0, []
        self.use = SimpleNamespace(away=nullcontext)

    def reset(self, inputs):
        self.done = 0

    def run(self, supersteps):
        self.done += supersteps
        return SimpleNamespace(settled=self.done >= self.settles)

    def values(self, name):
        return self.done


class Rated:
    metrics_by_superstep = True

    def __init__(self, fails_at=99):
        self.fails_at = fails_at

    def metrics(self, given, values):
        if values["x"] >= self.fails_at:
            raise ValueError
        return {"count": values["x"], "half": values["x"] / 2}


def posed(algorithm, **changes):
    fields = {
        "algorithm": algorithm,
        "start": None,
        "several_phases": False,
        "graph": SimpleNamespace(num_edges=5),
        "inputs": None,
        "max_supersteps": 9,
        "program": SimpleNamespace(outputs=("x",)),
        "given": None,
        "carried": {},
    }
    return SimpleNamespace(**fields | changes)


def test_metrics_after_each_superstep_until_the_run_settles():
    found = metrics_by_superstep(Stepping(), posed(Rated()))
    assert found == {"count": [1, 2, 3], "half": [0.5, 1.0, 1.5]}
    assert metrics_by_superstep(Stepping(settles=50), posed(Rated(), max_supersteps=2)) == {
        "count": [1, 2],
        "half": [0.5, 1.0],
    }
    assert metrics_by_superstep(Stepping(settles=50), posed(Rated(fails_at=3))) == {"count": [1, 2], "half": [0.5, 1.0]}
    assert metrics_by_superstep(Stepping(), posed(Rated(fails_at=1))) == {}


def test_metrics_are_not_computed_where_they_mean_nothing(monkeypatch):
    assert metrics_by_superstep(Stepping(stepwise=False), posed(Rated())) == {}
    for changes in ({"start": object()}, {"several_phases": True}):
        assert metrics_by_superstep(Stepping(), posed(Rated(), **changes)) == {}
    monkeypatch.setattr(ordered_check, "MOST_EDGES", 4)
    assert metrics_by_superstep(Stepping(), posed(Rated())) == {}
    monkeypatch.setattr(ordered_check, "MOST_EDGES", 5)
    assert metrics_by_superstep(Stepping(), posed(Rated())) != {}
    monkeypatch.setattr(Rated, "metrics_by_superstep", False)
    assert metrics_by_superstep(Stepping(), posed(Rated())) == {}
