"""Cells of programs with steps in place: checked in the engine's own order, or by intervals of metrics."""

from __future__ import annotations

import functools
import math
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest

from harness.algorithms.sgd_mf import SGDMatrixFactorisation
from harness.campaign.ordered_check import BY_METRICS, metrics_by_superstep
from harness.campaign.random_orders import RUNS, compared_supersteps, interval, metrics_in_random_orders
from harness.contract import Engine, RunStatistics, Superstep, Yes
from harness.graph.generators import random_ratings
from harness.language import trace
from harness.language.reference import ReferenceRun
from tests.campaign.one_cell import report_of  # noqa: F401  a fixture

SUPERSTEPS = 3


def statistics(graph, supersteps):
    return RunStatistics(False, [Superstep(graph.num_vertices, graph.num_edges, "dense")] * supersteps)


class InOrder(Engine):
    """Runs the float64 reference in a random order, which is the same in every run."""

    deterministic = True
    seeds = staticmethod(lambda: 0)

    def supports(self, program, graph, features, device):
        return Yes(0)

    def prepare(self, program, graph, features, device, phases):
        self.graph, self.reference = graph, ReferenceRun(program, graph, features)

    def reset(self, inputs, state=None):
        self.reference.reset(inputs, state)
        self.random = np.random.default_rng(self.seeds())

    def run(self, max_supersteps):
        for _ in range(max_supersteps):
            self.superstep()
        return RunStatistics(
            False, [Superstep(self.graph.num_vertices, self.graph.num_edges, "dense")] * max_supersteps
        )

    def superstep(self):
        self.reference.orders = {"step": self.random.permutation(self.graph.num_edges)}
        self.reference.superstep()

    def ordered_superstep(self):
        self.superstep()
        return self.reference.orders

    def values(self, name):
        with np.errstate(over="ignore"):
            return self.reference.values(name).astype(np.float32)

    def close(self):
        pass


class InFloat64(InOrder):
    """Runs the float64 reference of a program without steps in place."""

    def run(self, max_supersteps):
        return self.reference.run(max_supersteps)


class Varying(InOrder):
    """Takes another order in every run."""

    deterministic = False
    seeds = functools.partial(next, iter(range(10**9)))


class SaysItDoesNotVary(Varying):
    deterministic = True


class Misreports(InOrder):
    def ordered_superstep(self):
        return {name: np.roll(order, 1) for name, order in super().ordered_superstep().items()}


class LeavesOut(InOrder):
    def ordered_superstep(self):
        (order,) = super().ordered_superstep().values()
        return {"step": np.where(order == 0, 1, order)}


class RunsTwiceWhenTimed(Varying):
    def run(self, max_supersteps):
        super().run(max_supersteps)
        return super().run(max_supersteps)


class LosesAThirdWhenTimed(Varying):
    def run(self, max_supersteps):
        count = self.graph.num_edges
        for _ in range(max_supersteps):
            self.reference.orders = {"step": self.random.permutation(count)[count // 3 :]}
            self.reference.superstep()
        return statistics(self.graph, max_supersteps)


class Lossy(Varying):
    """Loses a share of the edges in every superstep."""

    share = 0.004

    def superstep(self):
        count = self.graph.num_edges
        self.reference.orders = {"step": self.random.permutation(count)[int(self.share * count) :]}
        self.reference.superstep()

    def ordered_superstep(self):
        self.superstep()
        return {"step": self.share}


class LosesMost(Lossy):
    share = 0.8


class LosesMostWhenChecked(Lossy):
    def ordered_superstep(self):
        self.share = 0.8
        return super().ordered_superstep()

    def reset(self, inputs, state=None):
        super().reset(inputs, state)
        self.share = 0.004


class SaysItLosesMore(Lossy):
    def ordered_superstep(self):
        return {"step": 1.5}


class TellsNone(InOrder):
    ordered_superstep = Engine.ordered_superstep


@pytest.fixture
def fields_of(report_of):  # noqa: F811
    """Return the report of a cell: ``fields_of(Engine, key=value)``, with parameters of the algorithm."""

    def run(engine, validate=True, **parameters):
        config = {
            "features": 2, "validate": validate,
            "algorithm": {"name": "sgd_mf", "alpha": 0.1, "epochs": SUPERSTEPS, "holdout": 0.2, **parameters},
            "graph": {"name": "ratings_random", "users": 20, "items": 15, "num_ratings": 130},
            "measure": {"repetitions": 2, "budget_s": 1e-6, "warmup_s": 1e-6},
        }  # fmt: skip
        return report_of(engine, "scipy", config)

    return run


@pytest.mark.parametrize("engine", [InOrder, Varying])
def test_a_right_engine_is_ok_and_has_metrics_of_every_superstep(fields_of, engine):
    fields = fields_of(engine)
    assert fields["outcome"] == "ok", fields["reason"]
    assert fields["validation"]["against"].startswith("float64 in the engine's own order of edges")
    assert ("random orders" in fields["validation"]["against"]) == (engine is Varying)
    found = fields["metrics_by_superstep"]
    assert set(found) == {"rmse", "train_rmse"}
    assert len(found["train_rmse"]) == SUPERSTEPS
    assert found["train_rmse"] == sorted(found["train_rmse"], reverse=True)
    if engine is InOrder:
        assert found["train_rmse"][-1] == fields["metrics"]["train_rmse"]


def test_als_has_metrics_of_every_superstep_too(report_of):  # noqa: F811
    config = {
        "features": 2, "algorithm": {"name": "als", "holdout": 0.2, "supersteps": 4},
        "graph": {"name": "ratings_random", "users": 20, "items": 15, "num_ratings": 130},
        "measure": {"repetitions": 2, "budget_s": 1e-6, "warmup_s": 1e-6},
    }  # fmt: skip
    fields = report_of(InFloat64, "scipy", config)
    assert fields["outcome"] == "ok", fields["reason"]
    found = fields["metrics_by_superstep"]["rmse"]
    assert len(found) == len(fields["supersteps"]) == 4
    assert found[-1] == fields["metrics"]["rmse"]
    assert len(set(found)) == 4


WRONG = {
    SaysItDoesNotVary: ("wrong", "instead of"),
    Misreports: ("wrong", "instead of"),
    RunsTwiceWhenTimed: ("wrong", "rmse is"),
    LosesAThirdWhenTimed: ("wrong", "rmse is"),
    LeavesOut: ("engine_error", "leaves out 1 edges and has 1 more than once"),
    TellsNone: ("engine_error", "reports no order"),
}


@pytest.mark.parametrize("engine", WRONG, ids=lambda engine: engine.__name__)
def test_a_wrong_engine_is_found(fields_of, engine):
    outcome, reason = WRONG[engine]
    fields = fields_of(engine)
    assert (fields["outcome"], reason in fields["reason"]) == (outcome, True), fields["reason"]


def test_a_lossy_run_is_compared_by_metrics(fields_of):
    fields = fields_of(Lossy, conflicts="lossy")
    assert fields["outcome"] == "ok", fields["reason"]
    assert fields["validation"]["against"] == BY_METRICS
    assert fields["lost_updates"] == 0.004
    assert fields_of(InOrder)["lost_updates"] is None


def test_a_lossy_run_that_loses_much_is_found(fields_of):
    for engine, where in ((LosesMost, "train_rmse "), (LosesMostWhenChecked, "rmse after superstep")):
        fields = fields_of(engine, conflicts="lossy")
        assert fields["outcome"] == "wrong"
        assert where in fields["reason"]


def test_a_lost_update_is_an_error_of_serial_programs_and_a_share(fields_of):
    assert fields_of(Lossy)["outcome"] == "engine_error"
    fields = fields_of(SaysItLosesMore, conflicts="lossy")
    assert fields["outcome"] == "engine_error"
    assert "a share from 0 to 1" in fields["reason"]


def test_a_lossy_program_that_diverges_in_float64_too_is_invalid(fields_of):
    fields = fields_of(Lossy, conflicts="lossy", alpha=1e4, epochs=8)
    assert fields["outcome"] == "invalid_input"
    assert "diverges in float64, in random orders" in fields["reason"]


class Overflows(InOrder):
    """Has infinite values from the second superstep on, which float64 does not have."""

    def values(self, name):
        found = super().values(name)
        return found * np.float32(np.inf) if self.reference._superstep > 1 else found


def test_divergence_is_the_engines_or_the_programs(fields_of):
    fields = fields_of(Overflows)
    assert fields["outcome"] == "diverged"
    assert "not finite, since superstep 2 of another run; lower the rates" in fields["reason"]
    fields = fields_of(InOrder, alpha=1e4, epochs=8)
    assert fields["outcome"] == "invalid_input"
    assert "diverges in float64, in the engine's own order" in fields["reason"]
    assert not all(map(math.isfinite, fields["metrics_by_superstep"]["rmse"]))


class Grows(InOrder):
    """Has values of 30 times the right ones from the second superstep on."""

    def values(self, name):
        found = super().values(name)
        return found * np.float32(30) if self.reference._superstep > 1 else found


class GrowsWhenTimed(Varying):
    def run(self, max_supersteps):
        self.timed = True
        return super().run(max_supersteps)

    def reset(self, inputs, state=None):
        super().reset(inputs, state)
        self.timed = False

    def values(self, name):
        return super().values(name) * np.float32(30 if self.timed else 1)


def test_an_error_of_ten_times_the_start_is_divergence(fields_of):
    fields = fields_of(Grows)
    assert fields["outcome"] == "diverged"
    assert "rmse is" in fields["reason"]
    assert "after superstep 2, over 10 times the" in fields["reason"]
    assert fields["reason"].endswith("lower the rates")
    fields = fields_of(GrowsWhenTimed)
    assert fields["outcome"] == "diverged"
    assert "at the end, over 10 times the" in fields["reason"]


@pytest.mark.short_run(rows=1)
@pytest.mark.parametrize(("engine", "order"), [(InOrder, "the engine's own order"), (Lossy, "random orders")])
def test_an_error_that_float64_has_too_is_an_invalid_input(fields_of, engine, order, monkeypatch):
    """With a limit that right runs exceed, too."""
    monkeypatch.setattr(SGDMatrixFactorisation, "diverged_over", 0.5)
    fields = fields_of(engine, conflicts="lossy" if engine is Lossy else "serial")
    assert fields["outcome"] == "invalid_input"
    assert f"diverges in float64, in {order}: " in fields["reason"]
    assert "over 0.5 times the" in fields["reason"]


def test_answers_that_vary_need_metrics_to_be_checked(fields_of, monkeypatch):
    monkeypatch.setattr(SGDMatrixFactorisation, "interval_slack", None)
    fields = fields_of(Varying)
    assert fields["outcome"] == "invalid_input"
    assert "interval_slack" in fields["reason"]
    assert fields_of(InOrder)["outcome"] == "ok"


def test_without_validation_metrics_are_recorded_and_no_order_is_needed(fields_of):
    fields = fields_of(TellsNone, validate=False)
    assert fields["outcome"] == "ok"
    assert len(fields["metrics_by_superstep"]["rmse"]) == SUPERSTEPS


def test_steps_in_place_are_not_checked_on_a_sample(fields_of):
    fields = fields_of(InOrder, validate="sampled")
    assert fields["outcome"] == "invalid_input"
    assert "depends on all edges" in fields["reason"]


# intervals ------------------------------------------------------------------------------------------------------------
def train_errors(seeds, *, lost=0.0, sweeps=4):
    """Return the training RMSE after some sweeps of random orders, which lose a share of the edges."""
    algorithm = SGDMatrixFactorisation(alpha=0.1)
    given = random_ratings(users=120, items=90, num_ratings=1500, exponent=0.3, seed=2)
    graph = algorithm.prepare_graph(given)
    program, inputs = trace(algorithm), algorithm.inputs(graph, 4)
    found = []
    for seed in seeds:
        random, run = np.random.default_rng(seed), ReferenceRun(program, graph, 4)
        run.reset(inputs)
        for _ in range(sweeps):
            run.orders = {"step": random.permutation(graph.num_edges)[int(lost * graph.num_edges) :]}
            run.superstep()
        found.append(algorithm.metrics(given, {"x": run.values("x")})["train_rmse"])
    return found


@pytest.mark.parametrize("others", [15, pytest.param(200, marks=pytest.mark.full)])
def test_right_runs_lie_in_the_interval_and_runs_that_lose_a_fifth_do_not(others):
    _, low, high = interval(train_errors(range(RUNS)), SGDMatrixFactorisation.interval_slack)
    assert all(low <= one <= high for one in train_errors(range(100, 100 + others)))
    assert not any(low <= one <= high for one in train_errors(range(others // 5), lost=0.2))


def test_runs_in_random_orders_are_those_of_one_graph_each():
    algorithm = SGDMatrixFactorisation(alpha=0.1, epochs=3, holdout=0.1)
    given = random_ratings(users=20, items=15, num_ratings=100, seed=2)
    graph = algorithm.prepare_graph(given)
    inputs, program = algorithm.inputs(graph, 3), trace(algorithm)
    posed = SimpleNamespace(
        algorithm=algorithm,
        program=program,
        given=given,
        graph=graph,
        inputs=inputs,
        features=3,
        max_supersteps=3,
        carried={},
    )
    found = metrics_in_random_orders(posed).values
    for seed in range(RUNS):
        random, run = np.random.default_rng(seed), ReferenceRun(program, graph, 3)
        run.reset(inputs)
        for _ in range(3):
            run.orders = {"step": random.permutation(graph.num_edges)}
            run.superstep()
        wanted = algorithm.metrics(given, {"x": run.values("x")})
        assert {name: runs[seed, -1] for name, runs in found.items()} == pytest.approx(wanted, rel=1e-12)


def test_metrics_are_compared_early_and_after_the_last_superstep():
    assert compared_supersteps(3) == (1, 2, 3)
    assert compared_supersteps(20) == (1, 2, 5, 10, 20)


def test_an_interval_is_that_of_one_more_run():
    mean, low, high = interval([1.0, 2.0, 3.0], 0.0)
    assert mean == 2.0
    assert high - mean == pytest.approx(mean - low)
    assert high - mean == pytest.approx(31.5991 * math.sqrt(4 / 3), rel=1e-5)  # Student's t, 2 degrees of freedom
    assert interval([2.0, 2.0], 0.1)[1:] == pytest.approx((1.8, 2.2))


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_slack_of_an_interval_is_a_share_of_the_magnitude(sign):
    mean, low, high = interval([sign * 4.0] * 3, 0.25)
    assert (mean, low, high) == (sign * 4.0, sign * 4.0 - 1.0, sign * 4.0 + 1.0)


def test_an_algorithm_whose_metrics_fail_has_none_by_superstep():
    """The rating of the last answer reports the failure."""

    class Unrated:
        metrics_by_superstep = True

        def metrics(self, given, values):
            raise ValueError("no ratings")

    program = SimpleNamespace(outputs=("x",))
    problem = SimpleNamespace(
        algorithm=Unrated(), start=None, several_phases=False, graph=SimpleNamespace(num_edges=1), given=None,
        carried={}, inputs=None, max_supersteps=3, program=program,
    )  # fmt: skip
    engine = SimpleNamespace(
        stepwise=True, reset=lambda inputs: None, values=lambda name: np.zeros(1),
        run=lambda most: RunStatistics(False, []), use=SimpleNamespace(away=nullcontext),
    )  # fmt: skip
    assert metrics_by_superstep(engine, problem) == {}
