"""Time to equal accuracy: the first superstep whose answer is within the bound, and the time of a run to it."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import math
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.algorithms.bfs import BFS
from harness.algorithms.label_propagation import LabelPropagation
from harness.algorithms.pagerank import PageRank
from harness.campaign import accuracy
from harness.campaign.accuracy import Crossing, Distance, accuracy_of, distance, first_within, target_of
from harness.campaign.cell import Measure
from harness.campaign.measurement import Timing, measure_engine
from harness.campaign.problem import Problem
from harness.contract import Device, Phases, RunStatistics
from harness.graph.generators import grid, rmat
from harness.language import Inputs, trace
from harness.language.warm import WarmStart
from harness.records.statistics import Interval, median_interval

EXAMPLE = Path(__file__).parents[1] / "thirdparty"
MEASURE = Measure(budget_s=1e-6, warmup_s=0.0)
PROBLEMS = {
    "pagerank": (PageRank(), lambda: rmat(scale=8, edge_factor=8), 3),
    "label_propagation": (LabelPropagation(), lambda: grid(rows=6, columns=6), 3),
}


# the search ----------------------------------------------------------------------------------------------------------
def falling(error_of, bound, probes):
    def probe(supersteps):
        probes.append(supersteps)
        error = error_of(supersteps)
        return Distance(error <= bound, error, bound)

    return probe


@given(st.integers(1, 2000), st.floats(1e-12, 0.9), st.floats(0.3, 0.999))
def test_the_first_superstep_within_the_bound_is_found_in_a_few_probes(last, bound, rate):
    def error_of(supersteps):
        return rate**supersteps

    wanted = next((s for s in range(1, last + 1) if error_of(s) <= bound), None)
    if wanted is None:
        return
    probes = []
    found = first_within(falling(error_of, bound, probes), last, Distance(True, error_of(last), bound))
    assert found.superstep == wanted
    assert found.at.within
    assert found.before is None if wanted == 1 else not found.before.within
    assert len(probes) <= 2 * math.log2(last + 1) + 2


@given(st.lists(st.floats(0.0, 2.0), min_size=1, max_size=80))
def test_an_error_that_rises_again_still_gives_a_crossing(errors):
    errors[-1] = 0.5
    probe = falling(lambda supersteps: errors[supersteps - 1], 1.0, [])
    found = first_within(probe, len(errors), Distance(True, 0.5, 1.0))
    assert errors[found.superstep - 1] <= 1.0
    assert found.superstep == 1 or errors[found.superstep - 2] > 1.0


def test_it_takes_few_probes_where_the_error_falls_by_a_constant_factor():
    probes = []
    first_within(falling(lambda s: 0.9**s, 1e-4, probes), 200, Distance(True, 0.9**200, 1e-4))
    assert len(probes) <= 6


# on an engine --------------------------------------------------------------------------------------------------------
@pytest.fixture
def problem_of(fresh_cache):
    def make(name, **changes):
        algorithm, graph_of, features = PROBLEMS[name]
        graph = algorithm.prepare_graph(graph_of())
        program, inputs = trace(algorithm), algorithm.inputs(graph, features)
        limit = program.max_supersteps
        problem = Problem(algorithm, program, graph, graph, inputs, features, limit, name, {})
        return dataclasses.replace(problem, **changes)

    return make


@pytest.fixture
def engine_of(monkeypatch):
    """Return the prepared example engine; ``beyond``: supersteps that it takes after it has converged."""
    monkeypatch.syspath_prepend(EXAMPLE)
    base = importlib.import_module("onyx_example_engine").ExampleEngine
    schedule = importlib.import_module("onyx_example").ExampleSchedule()

    def make(problem, beyond=0, factor=1.0):
        class Engine(base):
            def run(self, most):
                first = super().run(most)
                steps = list(first.supersteps)
                while first.settled and len(steps) < most and len(steps) < len(first.supersteps) + beyond:
                    self.settling.settled = False  # a settled engine takes no more supersteps
                    steps += super().run(1).supersteps
                return RunStatistics(first.settled, steps)

            def values(self, name):
                return factor * super().values(name)

        engine = Engine(schedule)
        engine.prepare(problem.program, problem.graph, problem.features, Device(threads=1), Phases())
        return engine

    return make


def cell(validate=True, **measure):
    return SimpleNamespace(validate=validate, measure=dataclasses.replace(MEASURE, **measure))


def measured(engine, problem, **measure):
    """Return the ``accuracy`` field, its timing, and the runs to the engine's own stop."""
    target = target_of(cell(), problem)
    timing = measure_engine(engine, problem.inputs, problem.max_supersteps, MEASURE, Phases())
    at_stop = distance(problem, target, {name: engine.values(name) for name in problem.program.outputs})
    measure = dataclasses.replace(MEASURE, **measure)
    fields, timed = accuracy_of(engine, problem, target, timing, at_stop, measure)
    return fields, timed, timing


@pytest.mark.parametrize("name", PROBLEMS)
def test_it_is_the_first_superstep_of_all_whose_answer_is_within_the_bound(name, problem_of, engine_of):
    problem = problem_of(name)
    engine = engine_of(problem)
    fields, timed, timing = measured(engine, problem)
    target = target_of(cell(), problem)
    within = []
    engine.reset(problem.inputs)
    for _ in range(fields["superstep"]):
        engine.run(1)
        within.append(distance(problem, target, {n: engine.values(n) for n in problem.program.outputs}).within)
    assert within == [False] * (fields["superstep"] - 1) + [True]
    assert 1 < fields["superstep"] <= len(timing.statistics.supersteps)
    assert fields["error"] <= fields["bound"] < fields["error_before"]
    assert timed is timing or len(timed.statistics.supersteps) == fields["superstep"]
    assert fields["solve"] == timed.plain()
    assert timed.interval.sufficient


@pytest.mark.short_run(rows=1)
def test_engines_that_stop_elsewhere_reach_it_at_the_same_superstep(problem_of, engine_of):
    problem = problem_of("label_propagation")
    early, _, at_once = measured(engine_of(problem), problem)
    late, _, later = measured(engine_of(problem, beyond=40), problem)
    assert len(later.statistics.supersteps) == len(at_once.statistics.supersteps) + 40
    assert late["superstep"] == early["superstep"]


def test_an_answer_that_is_never_so_near_has_no_time(problem_of, engine_of):
    problem = problem_of("label_propagation")
    fields, timed, _ = measured(engine_of(problem, factor=1.5), problem)
    assert timed is None
    assert (fields["superstep"], fields["solve"]) == (None, None)
    assert fields["error"] > fields["bound"]
    assert math.isnan(fields["error_before"])


def test_a_timed_run_that_is_not_so_near_has_no_time(problem_of, engine_of, monkeypatch):
    """The engine may remember an answer, or return before it is done."""
    problem = problem_of("label_propagation")
    engine = engine_of(problem)

    def hasty(engine, inputs, supersteps, *given):
        timing = measure_engine(engine, inputs, supersteps, *given)
        engine.reset(inputs)
        engine.run(supersteps // 3)
        return timing

    monkeypatch.setattr("harness.campaign.accuracy.measure_engine", hasty)
    fields, timed, _ = measured(engine, problem)
    assert timed is None
    assert (fields["superstep"], fields["solve"]) == (None, None)
    assert fields["error"] > fields["bound"]


def test_it_is_not_sought_where_that_would_take_longer_than_the_cap(problem_of, engine_of):
    problem = problem_of("label_propagation")
    fields, timed, _ = measured(engine_of(problem), problem, cap_s=1e-9)
    assert (timed, fields["superstep"]) == (None, None)
    assert fields["error"] <= fields["bound"]


def test_the_target_is_nearer_to_the_fixed_point_than_a_settled_run(problem_of, engine_of):
    problem = problem_of("label_propagation")
    target = target_of(cell(), problem)
    far, near = engine_of(problem), engine_of(problem, beyond=45)
    errors = []
    for engine in (far, near):
        engine.reset(problem.inputs)
        engine.run(problem.max_supersteps)
        errors.append(distance(problem, target, {n: engine.values(n) for n in problem.program.outputs}).error)
    assert errors[1] < errors[0] / 5


def test_it_has_a_meaning_for_programs_that_may_run_until_they_converge(problem_of):
    problem = problem_of("pagerank")
    assert target_of(cell(), problem) is not None
    assert target_of(cell(accuracy=False), problem) is None
    assert target_of(cell(validate=False), problem) is None
    assert target_of(cell(validate="sampled"), problem) is None
    assert target_of(cell(), dataclasses.replace(problem, max_supersteps=3)) is None
    assert target_of(cell(), dataclasses.replace(problem, by_residual=True)) is None
    levels, graph = BFS(), grid(rows=4, columns=4)
    program = trace(levels)
    exact = Problem(levels, program, graph, graph, levels.inputs(graph, 1), 1, program.max_supersteps, "bfs", {})
    assert target_of(cell(), exact) is None


def test_without_a_converging_reference_there_is_no_target(problem_of, monkeypatch):
    from harness.campaign import reference

    program = trace(LabelPropagation(supersteps=3))
    problem = problem_of("label_propagation", program=program, max_supersteps=3, key="too short")
    assert target_of(cell(), problem) is None

    def never(*_, **__):
        raise AssertionError("computed twice")

    monkeypatch.setitem(reference._METHODS, "converged", never)
    assert target_of(cell(), problem) is None


def test_a_timing_of_the_own_stop_is_used_again_where_it_is_the_first_within(problem_of, engine_of):
    problem = problem_of("label_propagation")
    target = target_of(cell(), problem)
    engine = engine_of(problem)
    first, _, _ = measured(engine, problem)
    engine.reset(problem.inputs)
    statistics = engine.run(first["superstep"])
    at_stop = distance(problem, target, {n: engine.values(n) for n in problem.program.outputs})
    own = measure_engine(engine, problem.inputs, first["superstep"], MEASURE, Phases())
    stopped = Timing(own.samples, own.interval, own.stopped, statistics)
    fields, timed = accuracy_of(engine, problem, target, stopped, at_stop, MEASURE)
    assert fields["superstep"] == first["superstep"]
    assert timed is stopped


def test_a_part_of_a_run_takes_no_longer_than_the_run(problem_of, engine_of, monkeypatch):
    """Other work may disturb the runs to an earlier superstep only."""
    problem = problem_of("label_propagation")
    target = target_of(cell(), problem)
    engine = engine_of(problem)
    _, _, timing = measured(engine, problem)
    engine.reset(problem.inputs)
    engine.run(problem.max_supersteps)
    at_stop = distance(problem, target, {n: engine.values(n) for n in problem.program.outputs})
    measure = accuracy.measure_engine

    def disturbed(*given):
        found = measure(*given)
        return dataclasses.replace(found, interval=Interval(10.0, 9.0, 11.0, found.interval.confidence))

    monkeypatch.setattr(accuracy, "measure_engine", disturbed)
    fields, timed = accuracy_of(engine, problem, target, timing, at_stop, MEASURE)
    assert timed is timing
    assert fields["superstep"] < len(timing.statistics.supersteps)
    assert fields["solve"]["median"] == timing.interval.median


def test_warm_runs_and_limited_ones_have_no_target(problem_of):
    problem = problem_of("label_propagation")
    assert target_of(cell(), problem) is not None
    assert target_of(cell(), dataclasses.replace(problem, start=WarmStart("warm", {}))) is None
    assert target_of(cell(), dataclasses.replace(problem, max_supersteps=problem.max_supersteps - 1)) is None


def test_a_timed_run_may_be_off_by_the_rounding_of_another_order(problem_of, engine_of, monkeypatch):
    """An engine that is not deterministic adds in another order in each run: up to twice the bound is accepted."""
    problem = problem_of("label_propagation")
    engine, target = engine_of(problem), target_of(cell(), problem)
    timing = measure_engine(engine, problem.inputs, problem.max_supersteps, MEASURE, Phases())
    at_stop = distance(problem, target, {name: engine.values(name) for name in problem.program.outputs})
    monkeypatch.setattr(accuracy, "first_within", lambda probe, last, at: Crossing(last - 1, at, None))
    monkeypatch.setattr(accuracy, "measure_engine", lambda *_: timing)
    for bounds, timed in ((1.5, True), (2.5, False)):
        monkeypatch.setattr(accuracy, "distance", lambda *_, bounds=bounds: Distance(False, 0.5 * bounds, 0.5))
        fields, _ = accuracy_of(engine, problem, target, timing, at_stop, MEASURE)
        assert (fields["superstep"] is not None, fields["solve"] is not None) == (timed, timed)


# an engine that solves whole problems ---------------------------------------------------------------------------------
class Whole:
    """Counts no supersteps; its error is its tolerance over the program's, in tenths of the bound."""

    stepwise = False

    def __init__(self):
        self.tolerances, self.limits = [], []

    def reset(self, inputs):
        self.tolerance = inputs.parameters["eps"]
        self.tolerances.append(self.tolerance)

    def run(self, most):
        self.limits.append(most)


def timed(seconds):
    samples = [seconds] * 7
    return Timing(samples, median_interval(samples), "count", RunStatistics(True))


@pytest.fixture
def whole(monkeypatch):
    """Return a function that finds the time to equal accuracy of ``Whole``, whose looser run takes ``looser`` s."""
    engine = Whole()
    measured = []

    def measure_engine(engine, inputs, most, measure, phases):
        measured.append((inputs.parameters, most, measure.warmup_s))
        return timed(measured_s)

    def off(*_):
        error = engine.tolerance / 1e-3 / 10
        return Distance(error <= 1.0, error, 1.0)

    monkeypatch.setattr(accuracy, "measure_engine", measure_engine)
    monkeypatch.setattr(accuracy, "distance", off)
    monkeypatch.setattr(accuracy, "answer_of", lambda *_: None)
    control = SimpleNamespace(tolerance="eps")
    program = SimpleNamespace(control=control, parameters={"eps": 1e-3, "d": 0.5}, outputs=())
    problem = SimpleNamespace(program=program, inputs=Inputs({}, {"d": 0.75}), max_supersteps=99)
    measured_s = None

    def found(looser, error=0.1, **settings):
        nonlocal measured_s
        measured_s = looser
        target = SimpleNamespace(method="by hand")
        measure = dataclasses.replace(Measure(), **settings)
        at_stop = Distance(error <= 1.0, error, 1.0)
        fields, timing = accuracy_of(engine, problem, target, timed(2.0), at_stop, measure)
        return fields, timing, measured

    return found


def test_a_looser_tolerance_within_the_bound_is_timed(whole):
    """Errors are 0.1, 0.2, 0.4, 0.8 and 1.6 of the bound; then steps of a square and a fourth root of 2."""
    fields, timing, measured = whole(looser=0.5)
    factor = 8 * 2**0.25
    assert measured == [({"eps": pytest.approx(factor * 1e-3), "d": 0.75}, 99, 0.0)]
    assert timing == timed(0.5)
    assert fields == {
        "superstep": None, "tolerance": pytest.approx(factor * 1e-3), "error": pytest.approx(factor / 10),
        "error_before": pytest.approx(8 * 2**0.5 / 10), "bound": 1.0, "against": "by hand",
        "solve": timed(0.5).plain(),
    }  # fmt: skip


def test_a_looser_tolerance_that_is_no_faster_does_not_count(whole):
    fields, timing, _ = whole(looser=2.0)
    assert timing == timed(2.0)
    assert (fields["tolerance"], fields["error"], fields["solve"]) == (1e-3, 0.1, timed(2.0).plain())


@pytest.mark.parametrize(
    ("changes", "searched"),
    [
        ({"cap_s": 32.0}, True), ({"cap_s": 31.9}, False),  # 16 runs of 2 s
        ({"error": 1.5}, False),
    ],
)  # fmt: skip
def test_no_tolerance_is_searched_for_a_far_answer_or_beyond_the_cap(whole, changes, searched):
    fields, timing, measured = whole(looser=0.5, **changes)
    assert (fields["solve"] is not None, timing is not None, bool(measured)) == (searched,) * 3
    assert fields["against"] == "by hand"


def test_the_caveats_are_those_of_the_timed_runs(monkeypatch):
    """Without timed runs there are none, whatever other processes do."""
    told, busy = [], SimpleNamespace(cores=lambda: 3.0, throttled=lambda: True)
    monkeypatch.setattr(accuracy, "Bystanders", lambda cores: busy)
    monkeypatch.setattr(accuracy, "distance", lambda *_: "at the stop")
    report = SimpleNamespace(stage=lambda name: told.append(name), tell=lambda **fields: told.append(fields))
    engine = SimpleNamespace(use=SimpleNamespace(alone=contextlib.nullcontext))
    given = SimpleNamespace(device=Device("cpu", threads=1), measure=Measure())
    for timing, marks in ((timed(1.0), ["busy", "throttled"]), (None, [])):
        monkeypatch.setattr(accuracy, "accuracy_of", lambda *_, timing=timing: ({"superstep": 3}, timing))
        found = accuracy.tell_accuracy(engine, given, None, None, {}, timed(9.0), report, Phases())
        assert found == marks
    assert told == ["accuracy", {"accuracy": {"superstep": 3}}] * 2
