"""Plans of Onyx chosen by timing (``tune=true``)."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest

from engines.onyx import tuning
from engines.onyx.engine import OnyxEngine
from engines.onyx.schedule import OnyxSchedule
from engines.onyx.tuning import TunedEngine, plans
from harness.contract import Device, EngineFailure, No, Phases, RunStatistics, ScheduleError, Superstep, Yes
from harness.graph import Graph
from harness.language.reference import ReferenceRun
from harness.language.validation import compare
from tests.engines.problems import ALGORITHMS, new_engine, outputs_of, problem, program

CPU = Device(threads=1)
PULL, PUSH = "direction=pull change_driven=true", "direction=push change_driven=true"
ADAPTIVE = "direction=adaptive change_driven=true"
DEFAULT = "default"
PULL_ALL, PUSH_ALL = "direction=pull change_driven=false", "direction=push change_driven=false"


class Clock:
    now = 0.0


class Timed:
    """An engine of five supersteps, each of which takes ``SECONDS`` of its plan."""

    SECONDS: ClassVar = {PULL: 4.0, PULL_ALL: 2.0, PUSH: 3.0, PUSH_ALL: 5.0, ADAPTIVE: 6.0, DEFAULT: 7.0}
    events: ClassVar[list]
    states: ClassVar[list]

    def __init__(self, schedule):
        name = f"direction={schedule.direction} change_driven={str(schedule.change_driven).lower()}"
        self.name = DEFAULT if schedule.change_driven is None else name
        assert not schedule.tune

    def supports(self, program, graph, features, device):
        return Yes(100, 10) if "push" not in self.name else Yes(90, 20)

    def prepare(self, program, graph, features, device, phases):
        self.events.append(("prepare", self.name))
        if self.SECONDS[self.name] is None:
            raise MemoryError("no room")

    def reset(self, inputs, state=None):
        self.done = 0
        Clock.now += 0.25  # resets are not a part of a run
        self.events.append(("reset", self.name))
        self.states.append(state)

    def narrow(self, stale, senders):
        self.events.append(("narrow", self.name))

    def run(self, most):
        steps = min(most, 5 - self.done)
        Clock.now += steps * self.SECONDS[self.name]
        self.done += steps
        return RunStatistics(self.done == 5, [Superstep(1, 1, "pull")] * steps)

    def resolved_options(self):
        return {"direction": self.name}

    def explain(self):
        return f"the plan {self.name}"

    def close(self):
        self.events.append(("close", self.name))


@pytest.fixture
def tuned(monkeypatch, fresh_cache):
    """Return a function that makes a prepared tuned engine of timed plans."""
    monkeypatch.setattr(Clock, "now", 0.0)
    monkeypatch.setattr(tuning.time, "perf_counter", lambda: Clock.now)
    monkeypatch.setattr(tuning, "OnyxEngine", Timed)
    monkeypatch.setattr(Timed, "events", [], raising=False)
    monkeypatch.setattr(Timed, "states", [], raising=False)
    graph, inputs = problem("bfs", "grid", 1)

    def made(state=None, *, reset=True, features=1, **options):
        engine = TunedEngine(OnyxSchedule(**{"tune": True, "tune_s": 1e6, "order": "supersteps", **options}))
        engine.prepare(program("bfs"), graph, features, CPU, Phases())
        if reset:
            engine.reset(inputs, state)
        return engine

    return made


@pytest.mark.parametrize(
    ("kind", "options", "names"),
    [
        ("cpu", {}, [DEFAULT, PULL, PULL_ALL, PUSH, PUSH_ALL, ADAPTIVE]),
        ("cpu", {"direction": "adaptive", "change_driven": True}, ["the only plan"]),
        ("cpu", {"direction": "push"}, [DEFAULT, "change_driven=true", "change_driven=false"]),
        ("cpu", {"direction": "push", "change_driven": False}, ["the only plan"]),
        (
            "cuda",
            {"direction": "pull", "change_driven": False, "persistent": True},
            [DEFAULT, "balance=edge", "balance=warp"],
        ),
    ],
)
def test_open_options_are_varied_and_given_ones_kept(kind, options, names):
    found = plans(OnyxSchedule(tune=True, rebuild=7, **options), kind)
    assert list(found) == names
    for schedule in found.values():
        assert (schedule.tune, schedule.rebuild) == (None, 7)
        assert all(getattr(schedule, name) == value for name, value in options.items())
    assert len(set(found.values())) == len(names)


def test_every_plan_of_a_gpu_is_tried():
    found = plans(OnyxSchedule(tune=True), "cuda")
    assert found.pop(DEFAULT) == OnyxSchedule(order="supersteps")
    assert len(found) == 24
    assert len({(one.direction, one.change_driven, one.balance, one.persistent) for one in found.values()}) == 24
    assert all(one.change_driven for one in found.values() if one.direction == "adaptive")


@pytest.mark.parametrize("options", [{"share_by": "estimated"}, {"bottom_up": True}])
def test_options_of_adaptive_do_not_keep_other_plans_out(options):
    ((name, value),) = options.items()
    default, *found = plans(OnyxSchedule(tune=True, **options), "cuda").values()
    assert getattr(default, name) == value
    assert len(found) == 24
    assert all(getattr(one, name) == (value if one.direction == "adaptive" else None) for one in found)
    given = plans(OnyxSchedule(tune=True, direction="push", **options), "cuda").values()
    assert all(getattr(one, name) == value for one in given), "refused by the plan, with the reason"


def test_the_fastest_plan_runs_from_the_start(tuned):
    engine = tuned(reset=False)
    assert "the first reset times plans" in engine.explain()
    assert "tried" not in engine.resolved_options()
    engine.reset(problem("bfs", "grid", 1)[1])
    assert len(engine.run(2).supersteps) == 2
    assert engine.run(9).settled
    assert engine.resolved_options() == {
        "direction": PULL_ALL, "tune": True, "tune_s": 1e6,
        "tried": [
            (PULL_ALL, 10.0), (PUSH, 15.0), (PULL, 20.0), (PUSH_ALL, 25.0), (ADAPTIVE, 30.0),
            (DEFAULT, 35.0),
        ],
    }  # fmt: skip
    explained = engine.explain().splitlines()
    assert explained[1] == f"plan {PULL_ALL}: 1e+04 ms"
    assert explained[-1] == f"the plan {PULL_ALL}"
    engine.close()
    opened = [name for event, name in Timed.events if event == "prepare"]
    assert opened == [DEFAULT, PULL, PULL_ALL, PUSH, PUSH_ALL, ADAPTIVE, PULL_ALL]
    assert [name for event, name in Timed.events if event == "close"] == opened, "one plan at a time is in memory"


def test_no_run_includes_the_choice(tuned):
    engine = tuned()
    began = Clock.now
    engine.run(2)
    assert Clock.now - began == 2 * Timed.SECONDS[PULL_ALL]


def test_the_choice_is_kept_for_the_problem(tuned):
    tuned()
    Timed.events.clear()
    again = tuned()
    assert Timed.events == [("prepare", PULL_ALL), ("reset", PULL_ALL)]
    assert again.resolved_options()["tried"][0] == (PULL_ALL, 10.0)
    Timed.events.clear()
    tuned(direction="push")
    assert {name for event, name in Timed.events if event == "prepare"} == {DEFAULT, PUSH, PUSH_ALL}, "another choice"


def test_the_choice_for_other_features_is_another_one(tuned):
    tuned()
    Timed.events.clear()
    assert len(tuned(features=2).resolved_options()["tried"]) == 6
    assert {name for event, name in Timed.events if event == "prepare"} == set(Timed.SECONDS)
    Timed.events.clear()
    tuned()
    tuned(features=2)
    assert [name for event, name in Timed.events if event == "prepare"] == [PULL_ALL] * 2, "both choices are kept"


@pytest.mark.parametrize("failing", [DEFAULT, PULL, PULL_ALL])
def test_plans_that_fail_are_left_out_this_time(tuned, monkeypatch, failing):
    with monkeypatch.context() as changed:
        changed.setattr(Timed, "SECONDS", {**Timed.SECONDS, failing: None})
        engine = tuned()
        assert [name for name, _ in engine.resolved_options()["tried"]] == [
            name for name in (PULL_ALL, PUSH, PULL, PUSH_ALL, ADAPTIVE, DEFAULT) if name != failing
        ]
        assert f"plan {failing} failed: no room" in engine.explain()
    assert len(tuned().resolved_options()["tried"]) == 6


def test_an_engine_of_which_every_plan_fails_fails(tuned, monkeypatch):
    monkeypatch.setattr(Timed, "SECONDS", dict.fromkeys(Timed.SECONDS))
    with pytest.raises(MemoryError, match="no room"):
        tuned()


def test_no_further_plan_is_tried_after_the_budget_and_the_next_engine_tries_again(tuned):
    assert [name for name, _ in tuned(tune_s=1.0).resolved_options()["tried"]] == [DEFAULT]
    assert len(tuned().resolved_options()["tried"]) == 6


def test_plans_start_as_the_run_does(tuned):
    start = {"level": np.zeros(3)}
    tuned(start)
    assert len(Timed.states) > 8
    assert all(state is start for state in Timed.states)


def test_explaining_needs_no_device(monkeypatch):
    monkeypatch.setattr(tuning, "cuda_unavailable", lambda _: "no GPU here")
    monkeypatch.setattr(tuning, "known_figures", lambda *_: pytest.fail("asks the device"))
    graph, _ = problem("bfs", "grid", 1)
    engine = new_engine("onyx", {"tune": True})
    engine.generate(program("bfs"), graph, 1, Device("cuda"))
    assert "the first reset times plans" in engine.explain()


def test_an_admitted_engine_has_room_for_every_plan(tuned, monkeypatch):
    graph, _ = problem("bfs", "grid", 1)
    engine = TunedEngine(OnyxSchedule(tune=True, order="supersteps"))
    assert engine.supports(program("bfs"), graph, 1, CPU) == Yes(100, 20, stepwise=True)
    monkeypatch.setattr(Timed, "supports", lambda *_: No("not for this"))
    assert engine.supports(program("bfs"), graph, 1, CPU) == No("not for this")
    with pytest.raises(EngineFailure, match="no plan"):
        engine.prepare(program("bfs"), graph, 1, CPU, Phases())


@pytest.mark.parametrize(("algorithm", "other"), [("bfs", "near_far"), ("components", "hooking"), ("pagerank", None)])
def test_an_order_without_supersteps_is_a_plan_unless_an_order_or_another_option_is_given(algorithm, other):
    found = tuning.other_plans(OnyxSchedule(tune=True, tune_s=3.0), program(algorithm))
    assert list(found) == ([] if other is None else [other])
    assert all(not one.tune and (one.hooking or one.order == other) for one in found.values())
    for given in ({"order": "supersteps"}, {"direction": "push"}, {"fold": False}):
        assert not tuning.other_plans(OnyxSchedule(tune=True, **given), program(algorithm))


@pytest.fixture
def whole(fresh_cache):
    """Return a function that tunes a search on a path, which near-far ends at once, and the engine."""
    ends = np.arange(5999)
    path = Graph.from_edges(ends, ends + 1, num_vertices=6000, name="path")
    algorithm = ALGORITHMS["sssp"]

    def made(weights=None, **options):
        graph = algorithm.prepare_graph(path if weights is None else path.with_weights(weights))
        engine = new_engine("onyx", {"tune": True, **options})
        answer = engine.supports(program("sssp"), graph, 1, CPU)
        engine.prepare(program("sssp"), graph, 1, CPU, Phases())
        assert answer.stepwise is engine.stepwise
        return engine, graph, algorithm.inputs(graph, 1)

    return made


def test_a_path_is_searched_by_the_plan_without_supersteps(whole):
    engine, graph, inputs = whole(tune_s=2.0)
    engine.reset(inputs)
    assert not engine.stepwise
    assert engine.run(program("sssp").max_supersteps) == RunStatistics(True)
    tried = dict(engine.resolved_options()["tried"])
    assert min(tried, key=tried.get) == "near_far"
    assert len(tried) > 1
    assert "runs until they have settled under each plan" in engine.explain()
    reference = ReferenceRun(program("sssp"), graph, 1)
    reference.reset(inputs)
    reference.run(10**6)
    assert compare(program("sssp"), outputs_of(engine, program("sssp")), outputs_of(reference, program("sssp"))).ok
    engine.close()


@pytest.mark.full
def test_a_plan_of_supersteps_that_is_slower_is_given_up(whole, monkeypatch):
    steps = Counter()

    def run(engine, most, known=OnyxEngine.run):
        statistics = known(engine, most)
        steps[engine.schedule.order] += len(statistics.supersteps)
        return statistics

    monkeypatch.setattr(OnyxEngine, "run", run)
    engine, _, inputs = whole(tune_s=60.0)
    engine.reset(inputs)
    engine.close()
    assert steps.pop("near_far") == 0
    assert 0 < sum(steps.values()) < 5999


def test_a_plan_of_supersteps_that_is_the_fastest_counts_none(whole, monkeypatch):
    monkeypatch.setattr(TunedEngine, "_fastest", lambda self: DEFAULT)
    engine, _, inputs = whole(tune_s=0.01)
    engine.reset(inputs)
    assert engine.run(7) == RunStatistics(True)  # an engine that is not stepwise ignores the limit
    engine.close()


def test_a_plan_of_supersteps_fails_if_it_has_not_settled_after_those_of_the_program(whole, monkeypatch):
    monkeypatch.setattr(TunedEngine, "_fastest", lambda self: DEFAULT)
    engine, _, inputs = whole(tune_s=0.01)
    engine.reset(inputs)
    limited = replace(program("sssp"), control=replace(program("sssp").control, max_supersteps=7))
    monkeypatch.setattr(TunedEngine, "problem", property(lambda self: (limited, *self._problem[1:])))
    with pytest.raises(EngineFailure, match="not settled after 7 supersteps"):
        engine.run(7)
    engine.close()


def test_supersteps_are_counted_if_they_are_the_given_order(whole):
    engine, _, inputs = whole(tune_s=0.01, order="supersteps")
    engine.reset(inputs)
    assert engine.stepwise
    assert len(engine.run(7).supersteps) == 7
    engine.close()


@pytest.mark.parametrize("algorithm", ["bfs", "label_propagation"])
@pytest.mark.usefixtures("fresh_cache")
def test_answers_are_those_of_the_untuned_engine(algorithm):
    graph, inputs = problem(algorithm, "grid", 3)
    answers = []
    for options in ({}, {"tune": True, "tune_s": 0.5}):
        engine = new_engine("onyx", options)
        assert isinstance(engine.supports(program(algorithm), graph, 3, CPU), Yes)
        assert engine.tunes is bool(options)
        engine.prepare(program(algorithm), graph, 3, CPU, Phases())
        engine.reset(inputs)
        engine.run(program(algorithm).max_supersteps)
        answers.append(outputs_of(engine, program(algorithm)))
        engine.close()
    for name, wanted in answers[0].items():
        np.testing.assert_allclose(answers[1][name], wanted, atol=1e-4)


def test_options_without_meaning_are_refused():
    with pytest.raises(ScheduleError, match="tune_s has no meaning without tune=true"):
        OnyxSchedule(tune_s=1.0)
    with pytest.raises(ScheduleError, match="tune is true, false or null, not 'yes'"):
        OnyxSchedule(tune="yes")
    with pytest.raises(ScheduleError, match="tried is set by tune"):
        OnyxSchedule(tried=(("a", 1.0),))


@pytest.mark.full
def test_a_record_has_the_options_of_a_plan_of_supersteps(command, tmp_path):
    tuned = ("engine=onyx", "engine.tune=true", "engine.tune_s=0.2", "engine.order=supersteps")
    command(*tuned, "algorithm=bfs", "graph=grid", "features=1")
    (path,) = tmp_path.glob("results/*/*/record.json")
    record = json.loads(path.read_text())
    assert record["outcome"] == "ok", record["reason"]
    assert {"direction", "change_driven"} <= record["schedule"].keys()
    assert "the same supersteps under each plan" in (path.parent / "explain.txt").read_text()


def test_a_record_has_the_times_of_the_plans(command, tmp_path):
    command("engine=onyx", "engine.tune=true", "engine.tune_s=0.2", "algorithm=bfs", "graph=grid", "features=1")
    (path,) = tmp_path.glob("results/*/*/record.json")
    record = json.loads(path.read_text())
    assert record["outcome"] == "ok", record["reason"]
    assert record["schedule"]["tune"] is True
    assert record["schedule"]["tried"]
    assert "near_far" in dict(record["schedule"]["tried"])
    assert "runs until they have settled under each plan" in (path.parent / "explain.txt").read_text()


@pytest.mark.parametrize(("superstep_s", "trials"), [(1.0, 1), (1 / 128, 3), (1 / 1024, 5)])
def test_a_plan_is_timed_until_a_tenth_of_a_second_is_taken_and_five_times_at_most(
    tuned, monkeypatch, superstep_s, trials
):
    monkeypatch.setattr(Timed, "SECONDS", dict.fromkeys(Timed.SECONDS, superstep_s))
    tuned()
    resets = Counter(name for event, name in Timed.events if event == "reset")
    found = {name: count - 1 for name, count in resets.items()}  # one run warms up
    # the first plan also counts the supersteps, and is the one that runs
    assert found == {DEFAULT: trials + 2, **dict.fromkeys([PULL, PULL_ALL, PUSH, PUSH_ALL, ADAPTIVE], trials)}
