"""``order=auto tune=true``: the best-estimated orders are timed, and the fastest runs."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from engines.lonestar import cpu_engine, trial
from engines.lonestar.engine import LonestarEngine
from engines.lonestar.predict import Model, to_try
from engines.lonestar.schedule import LonestarSchedule
from engines.lonestar.trial import TrialEngine
from harness.algorithms.sgd_mf import SGDMatrixFactorisation
from harness.api import Engine
from harness.api.cpu import usable_threads
from harness.api.figures import device_name
from harness.contract import Device, No, Phases, ScheduleError, Yes
from harness.language import trace
from tests.engines.test_lonestar import replayed
from tests.engines.test_lonestar_choice import ALGORITHM, FIGURES_MADE, NOTHING, facts, rated

TUNED = LonestarSchedule(order="auto", tune=True)
ESTIMATES = (("nl", 1.0), ("el", 2.0), ("grid", 3.0), ("levels", 3.5))
DEVICE = Device(threads=1)


class FakeEngine(Engine):
    """Notes its calls; a superstep takes the seconds of its order on a made clock."""

    seconds: dict = {}  # noqa: RUF012
    failing: tuple = ()
    reason = "{} is too large"
    calls: list = []  # noqa: RUF012
    clock = 0.0

    def supports(self, program, graph, features, device):
        return No("none") if self.schedule.order in self.failing else Yes(len(self.schedule.order), 1)

    @property
    def order(self):
        return "nl" if self.schedule.order == "auto" else self.schedule.order

    def prepare(self, program, graph, features, device, phases):
        self.calls.append(("prepare", self.order))
        if self.order in self.failing:
            raise MemoryError(*filter(None, [self.reason.format(self.order)]))

    def generate(self, program, graph, features, device):
        self.calls.append(("generate", self.order))

    def reset(self, inputs, state=None):
        self.calls.append(("reset", self.order))

    def run(self, max_supersteps):
        FakeEngine.clock += self.seconds[self.order]

    def values(self, name):
        return np.array([self.order])

    def explain(self):
        return f"the estimates\n\nthe code of {self.order}"

    def resolved_options(self):
        of_auto = {"estimates": ESTIMATES, "basis": ()} if self.schedule.order == "auto" else {}
        return {"order": self.order, **of_auto}

    def close(self):
        self.calls.append(("close", self.order))


@pytest.fixture
def made(monkeypatch, tmp_path):
    """Replace the engines, the clock and the estimated shares of the preparation."""
    monkeypatch.setenv("ONYX_HARNESS_CACHE", str(tmp_path))
    monkeypatch.setattr(trial, "LonestarEngine", FakeEngine)
    monkeypatch.setattr(trial, "time", SimpleNamespace(perf_counter=lambda: FakeEngine.clock))
    monkeypatch.setattr(trial, "shares", lambda orders, *_: dict.fromkeys(orders, 0.5))
    start = {"seconds": {"nl": 3.0, "el": 1.0, "grid": 2.0}, "failing": (), "calls": [], "clock": 0.0}
    for name, value in start.items():
        monkeypatch.setattr(FakeEngine, name, value)
    return FakeEngine


def prepared(schedule=TUNED):
    engine = TrialEngine(schedule)
    engine.prepare(trace(ALGORITHM), rated(), 4, DEVICE, Phases())
    return engine


def test_a_trial_takes_the_first_few_orders_that_are_not_far_costlier():
    assert to_try(ESTIMATES) == ["nl", "el", "grid"]
    assert to_try([("nl", 1.0), ("el", 3.1), ("grid", 3.2)]) == ["nl"]


def test_the_fastest_order_runs_and_the_record_has_the_times(made):
    engine = prepared()
    given = {"order": "nl", "estimates": ESTIMATES, "basis": (), "tune": True, "tune_s": 10.0}
    assert engine.resolved_options() == given
    assert "times supersteps of: nl, el, grid" in engine.explain()
    engine.reset(None)
    options = engine.resolved_options()
    assert options["order"] == "el"
    assert options["tried"] == [("el", 1.5), ("grid", 2.5), ("nl", 3.5)]
    assert options["trial_s"] == made.clock == 2 * (3.0 + 1.0 + 2.0)
    assert engine.values("x") == ["el"]
    assert engine.explain().startswith("the estimates\n\ntune: measured")
    assert engine.explain().endswith("the code of el")
    assert engine.explain().count("the estimates") == 1
    alive = 0
    for what, _ in made.calls:
        alive += {"prepare": 1, "close": -1}.get(what, 0)
        assert alive <= 1, "one order is in memory at a time"
    before = made.clock
    engine.reset(None)
    assert made.clock == before, "the trial is over"


def test_a_plan_is_that_of_the_smallest_estimate_and_times_nothing(made):
    prepared().reset(None)
    made.calls.clear()
    engine = TrialEngine(TUNED)
    engine.generate(trace(ALGORITHM), rated(), 4, DEVICE)
    assert made.calls == [("generate", "nl")]
    assert engine.resolved_options()["order"] == "nl"
    assert "tried" not in engine.resolved_options()
    assert "times supersteps of: nl, el, grid" in engine.explain()


def test_the_times_are_kept_for_the_problem_and_the_schedule(made):
    prepared().reset(None)
    timed = made.clock
    again = prepared()
    again.reset(None)
    assert (again.resolved_options()["order"], made.clock) == ("el", timed)
    assert "known from an earlier trial" in again.explain()
    prepared(replace(TUNED, seed=1)).reset(None)
    assert made.clock > timed


@pytest.mark.parametrize("differs", ["program", "epochs", "graph", "features", "device", "schedule", "orders"])
def test_times_of_another_problem_are_not_taken(made, monkeypatch, differs):
    """Each part of the problem is changed by itself; its times are then kept beside those of the first problem."""
    given = {"program": trace(ALGORITHM), "graph": rated(), "features": 4, "device": DEVICE}
    other = {
        "program": ("program", trace(SGDMatrixFactorisation(epochs=3, bias="both"))),
        "epochs": ("program", trace(SGDMatrixFactorisation(epochs=4))),  # over which the preparation is shared
        "graph": ("graph", rated(2499)), "features": ("features", 5), "device": ("device", Device(threads=2)),
    }  # fmt: skip
    changed = {**given, **dict([other[differs]])} if differs in other else given
    schedule = replace(TUNED, seed=7) if differs == "schedule" else TUNED
    problems = [(given, TUNED, ESTIMATES), (changed, schedule, ESTIMATES[:2] if differs == "orders" else ESTIMATES)]
    for round_of_trials in range(2):
        for problem, options, estimates in problems:
            monkeypatch.setitem(globals(), "ESTIMATES", estimates)
            before, engine = made.clock, TrialEngine(options)
            engine.prepare(*problem.values(), Phases())
            engine.reset(None)
            tried = [order for order, _ in engine.resolved_options()["tried"]]
            assert sorted(tried) == sorted(to_try(estimates))
            assert (made.clock == before) == (round_of_trials > 0), "known" if round_of_trials else "not known yet"


def test_a_trial_that_its_budget_ends_is_not_kept(made):
    made.seconds = {"nl": 3.0, "el": 1.0, "grid": 0.1}
    first = prepared(replace(TUNED, tune_s=5.0))
    first.reset(None)
    assert [order for order, _ in first.resolved_options()["tried"]] == ["nl"]
    assert first.resolved_options()["order"] == "nl"
    second = prepared(replace(TUNED, tune_s=100.0))
    second.reset(None)
    assert second.resolved_options()["order"] == "grid"
    assert [order for order, _ in second.resolved_options()["tried"]] == ["grid", "el", "nl"]


def test_an_order_that_cannot_be_prepared_is_left_out(made):
    made.failing = ("el",)
    engine = prepared()
    engine.reset(None)
    assert engine.resolved_options()["order"] == "grid"
    assert "order el failed: el is too large" in engine.explain()
    made.failing, made.seconds = ("el", "grid", "nl"), {}
    with pytest.raises(MemoryError, match="nl is too large"):
        prepared(replace(TUNED, seed=2))


def test_a_failure_without_a_text_has_the_name_of_its_type(made, monkeypatch):
    monkeypatch.setattr(made, "reason", "")
    made.failing = ("el",)
    engine = prepared()
    engine.reset(None)
    assert "order el failed: MemoryError\n" in engine.explain()


def test_measured_times_are_shown_in_milliseconds_the_fastest_first(made):
    engine = prepared()
    engine.reset(None)
    lines = engine.explain().split("\n\n")[1].splitlines()
    assert lines[0] == "tune: measured supersteps with a share of the estimated preparation (12 s of trial):"
    assert [line.split() for line in lines[1:]] == [
        ["el", "1500.000", "ms"], ["grid", "2500.000", "ms"], ["nl", "3500.000", "ms"],
    ]  # fmt: skip


def test_a_trial_whose_budget_is_over_still_times_one_order_that_can_run(made):
    class Slow(made):
        def prepare(self, *given):
            made.clock += 100.0
            super().prepare(*given)

    made.failing = ("el",)
    made.seconds = {"nl": 3.0, "grid": 2.0}
    engine = prepared(replace(TUNED, tune_s=0.0))
    engine._orders = ["el", "grid", "nl"]
    engine._under = lambda order: Slow(replace(TUNED, order=order, tune=None))
    engine.reset(None)
    assert [order for order, _ in engine.resolved_options()["tried"]] == ["grid"]
    assert engine.resolved_options()["order"] == "grid"


def test_a_trial_runs_while_no_other_cell_uses_the_device(made, monkeypatch):
    inside = []

    class Noted(Phases):
        @contextlib.contextmanager
        def alone(self, name):
            inside.append(name)
            yield
            inside.append("over")

    timed = made.run

    def run(self, most):
        inside.append("run")
        timed(self, most)

    monkeypatch.setattr(made, "run", run)
    engine = TrialEngine(TUNED)
    engine.prepare(trace(ALGORITHM), rated(), 4, DEVICE, Noted())
    engine.reset(None)
    assert inside == ["trial", *["run"] * 6, "over"]
    engine.reset(None)
    assert inside[-1] == "over"
    assert len(inside) == 8


@pytest.mark.parametrize("threads", [1, 10_000])
def test_shares_of_preparations_are_those_of_the_model_of_the_device(threads, monkeypatch):
    """The device has the name that records, and so models, have: with the threads that it uses."""
    problem = facts(rated(), epochs=5)
    basis = {**problem.named(), **FIGURES_MADE}
    line = {"mean": NOTHING, "scale": [1.0] * len(NOTHING), "weights": NOTHING, "constant": 0.0}
    device = Device(threads=threads)
    name = device_name(replace(device, threads=usable_threads(device)))
    assert name.endswith(f"threads {usable_threads(device)}")
    orders = {"nl": {**line, "preparation": [2.0, 0, 0, 0, 0]}, "el": {**line, "preparation": [0.5, 0, 0, 0, 1.0]}}
    monkeypatch.setattr(trial, "shipped", lambda kind: Model((name,), orders, kind))
    expected = {"nl": 2.0 / 5, "el": (0.5 + problem.degree) / 5}
    assert trial.shares(("nl", "el"), basis, device) == pytest.approx(expected)


def test_the_memory_is_that_of_the_largest_order(made):
    engine, problem = TrialEngine(TUNED), (trace(ALGORITHM), rated(), 4, DEVICE)
    assert engine.supports(*problem) == Yes(len("wavefront"), 1)
    made.failing = ("wavefront",)
    assert engine.supports(*problem) == Yes(len("blkdiag"), 1)


@pytest.mark.parametrize(
    ("options", "text"),
    [({"tune": True}, "order=el"), ({"order": "auto", "tune_s": 1.0}, "without tune=true"),
     ({"order": "auto", "tried": (("el", 1.0),)}, "set by tune=true"), ({"trial_s": 1.0}, "set by tune=true")],
)  # fmt: skip
def test_options_that_have_no_meaning_are_refused(options, text):
    with pytest.raises(ScheduleError, match=text):
        LonestarSchedule(**options)


@pytest.mark.parametrize(
    "kind", [pytest.param("cpu", marks=pytest.mark.full), pytest.param("cuda", marks=pytest.mark.gpu)]
)
@pytest.mark.usefixtures("fresh_cache")
def test_a_trial_on_the_device_gives_a_serial_result(kind, monkeypatch):
    if kind == "cpu":
        monkeypatch.setattr(cpu_engine, "cpu_figures", lambda _: {**FIGURES_MADE, "sort": 0.0})
    program, graph = trace(ALGORITHM), rated()
    engine = LonestarEngine(TUNED)
    assert isinstance(engine.supports(program, graph, 16, Device(kind)), Yes)
    engine.prepare(program, graph, 16, Device(kind), Phases())
    found = replayed(engine, program, graph, ALGORITHM.inputs(graph, 16), 16)
    assert found.ok, found.detail
    options = engine.resolved_options()
    costs = [cost for _, cost in options["tried"]]
    assert costs == sorted(costs)
    assert all(one > 0 for one in costs)
    assert (options["order"], options["trial_s"] > 0) == (options["tried"][0][0], True)
    assert not engine.deterministic
    engine.close()
