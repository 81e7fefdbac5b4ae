"""Accidental cheating, on a clock that advances only by the engine's work."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.algorithms.label_propagation import LabelPropagation
from harness.algorithms.pagerank import PageRank
from harness.campaign.cell import Measure
from harness.campaign.measurement import Timing
from harness.campaign.plausibility import Witness, too_fast
from harness.campaign.problem import inputs_of
from harness.campaign.variation import _rotated, varied_inputs, varied_run
from harness.contract import Device, Phases, RunStatistics, Superstep
from harness.graph import Graph
from harness.language import Inputs, trace
from harness.records.statistics import median_interval
from tests.campaign.one_cell import record_of  # noqa: F401  a fixture
from tests.campaign.test_guarded_engine import Right
from tests.language.programs import WeightedWalks

SUPERSTEP_S = 0.01
SIX = Measure(repetitions=6, budget_s=1e-6, warmup_s=1e-6)
ONE = Measure(repetitions=1, budget_s=1e-6, warmup_s=1e-6)


class Clock:
    """Shows the time of the engine's work, plus a microsecond per reading."""

    now = 0.0

    def __call__(self):
        self.now += 1e-6
        return self.now


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr("harness.clock.perf_counter", made)
    Working.clock = made
    return made


class Working(Right):
    """Takes 10 ms per superstep."""

    clock = Clock()

    def run(self, max_supersteps):
        statistics = super().run(max_supersteps)
        self.clock.now += SUPERSTEP_S * len(statistics.supersteps)
        return statistics


class Asynchronous(Working):
    """Works only when the answer is read."""

    pending = 0

    def run(self, max_supersteps):
        statistics = Right.run(self, max_supersteps)
        self.pending += len(statistics.supersteps)
        return statistics

    def values(self, name):
        self.clock.now += SUPERSTEP_S * self.pending
        self.pending = 0
        return super().values(name)


class Remembers(Working):
    """Remembers the first whole run, whatever the inputs of later runs are."""

    whole = None

    def reset(self, inputs, state=None):
        super().reset(inputs, state)
        self.fresh = True

    def run(self, max_supersteps):
        if self.whole is not None and self.fresh:
            self.fresh = False
            return RunStatistics(False, self.whole[1].supersteps[:max_supersteps])
        self.fresh = False
        statistics = super().run(max_supersteps)
        if max_supersteps == 10:
            self.whole = super().values("x"), statistics
        return statistics

    def values(self, name):
        return super().values(name) if self.whole is None else self.whole[0]


class RemembersByInputs(Working):
    """Keeps whole results by the contents of their inputs, and does no work for known inputs."""

    def __init__(self, schedule):
        super().__init__(schedule)
        self.known = set()

    def reset(self, inputs, state=None):
        super().reset(inputs, state)
        self.contents = inputs.properties["start"].tobytes()

    def run(self, max_supersteps):
        before = self.clock.now
        statistics = super().run(max_supersteps)
        if (self.contents, max_supersteps) in self.known:
            self.clock.now = before
        self.known.add((self.contents, max_supersteps))
        return statistics


class WorksInReset(Working):
    """Solves the problem when it is reset; a run looks the answer up."""

    def reset(self, inputs, state=None):
        super().reset(inputs, state)
        self.clock.now += 1.0

    def run(self, max_supersteps):
        self.clock.now += 1e-5
        return Right.run(self, max_supersteps)


class Undercounts(Working):
    """Takes two supersteps where one is allowed, and reports one."""

    def run(self, max_supersteps):
        whole = super().run(2 * max_supersteps)
        return RunStatistics(whole.settled, whole.supersteps[::2])


class Instant(Right):
    """Reports more edges than the time allows on any device."""

    def run(self, max_supersteps):
        statistics = super().run(max_supersteps)
        return RunStatistics(False, [Superstep(12, 10**9, "pull") for _ in statistics.supersteps])


class Decays(Working):
    """Is wrong in one run, counted from its resets, and right in all others."""

    wrong = 3

    def reset(self, inputs, state=None):
        super().reset(inputs, state)
        self.resets = getattr(self, "resets", 0) + 1

    def values(self, name):
        return super().values(name) * np.float32(1.5 if self.resets == self.wrong else 1)


IMPLAUSIBLE = {
    Asynchronous: "run() returns before the work is done; wait for it in run()",
    RemembersByInputs: "10 supersteps on other inputs took 0.1 s, and 1e-06 s were expected from the timed runs",
    WorksInReset: "reset() to the start takes 1 s before a run of 1.1e-05 s, though inputs and state have",
    Instant: "per second; 1 cores cannot exceed 1.6e+11",
}


@pytest.mark.parametrize("validate", [True, "sampled"])
@pytest.mark.parametrize("engine", IMPLAUSIBLE, ids=lambda engine: engine.__name__)
def test_times_that_the_work_cannot_have_taken_are_implausible(record_of, clock, engine, validate):  # noqa: F811
    record = record_of(engine, measure=SIX, validate=validate)
    assert record["outcome"] == "implausible", record["reason"]
    assert IMPLAUSIBLE[engine] in record["reason"]
    assert record["validation"]["ok"]


def test_a_result_remembered_whatever_the_inputs_is_wrong(record_of, clock):  # noqa: F811
    record = record_of(Remembers, measure=SIX)
    assert record["outcome"] == "wrong"
    assert "on other inputs (rotated among the vertices), after 2 supersteps: x of vertex" in record["reason"]


def test_more_supersteps_than_reported_are_wrong(record_of, clock):  # noqa: F811
    assert record_of(Undercounts)["outcome"] == "wrong"


@pytest.mark.parametrize("validate", [True, "sampled"])
@pytest.mark.parametrize("timed", [1, 2, 3, 6])
def test_every_repetition_is_checked(record_of, clock, monkeypatch, validate, timed):  # noqa: F811
    before = 1 + (validate == "sampled")  # the warm-up, and the run in parts
    monkeypatch.setattr(Decays, "wrong", before + timed)
    record = record_of(Decays, measure=SIX, validate=validate)
    assert record["outcome"] == "wrong"
    if timed < 6:  # the last answer is compared first
        assert record["reason"].startswith(f"timed run {timed}:")


class OneArray:
    """Gives its answers in one array, which the next run overwrites."""

    stepwise = True

    def __init__(self):
        self.array = np.zeros((4, 2), np.float32)

    def solve(self, value):
        """Run, and return the statistics of as many supersteps as the value."""
        self.array[:] = value
        return RunStatistics(value > 2, [Superstep(1, 1, "pull")] * value)

    def values(self, name):
        return self.array

    def rows(self, name, index):
        return self.array[: len(index)]


@pytest.mark.parametrize("sample", [None, SimpleNamespace(results=lambda name: np.arange(3))], ids=["whole", "sample"])
@pytest.mark.parametrize(
    ("answers", "kept"),
    [
        ([1, 1, 1], []), ([2, 1, 1], [(1, 2), (2, 1), (3, 1)]), ([1, 2, 1], [(1, 1), (2, 2)]),
        ([1, 1, 3], [(1, 1), (3, 3)]), ([1, 2, 3, 1], [(1, 1), (2, 2), (3, 3)]),
        ([1, 2, 3, 4], [(1, 1), (2, 2), (3, 3)]),
    ],
)  # fmt: skip
def test_answers_that_differ_are_kept_as_they_were(answers, kept, sample):
    """Later runs, which overwrite the array of the engine, change no answer that is kept for validation."""
    engine = OneArray()
    witness = Witness(engine, ["x", "y"], sample)
    for value in answers:
        witness.look(engine.solve(value))
    engine.solve(9)
    assert [one.number for one in witness.differing] == [number for number, _ in kept]
    for one, (_, value) in zip(witness.differing, kept, strict=True):
        assert (set(one.values), one.settled, one.supersteps) == ({"x", "y"}, value > 2, value)
        assert all((array == value).all() and len(array) == (3 if sample else 4) for array in one.values.values())


def test_an_honest_engine_is_plausible_and_its_samples_are_those_of_the_work(record_of, clock):  # noqa: F811
    record = record_of(Working)
    assert (record["outcome"], record["reason"]) == ("ok", "")
    assert record["solve"]["samples"] == pytest.approx([10 * SUPERSTEP_S] * len(record["solve"]["samples"]), rel=1e-3)


def test_a_conversion_at_the_first_reset_does_not_count(record_of, clock):  # noqa: F811
    """With one repetition the engine is reset again; only resets that are slow every time count."""

    class Converts(Working):
        resets = 0

        def reset(self, inputs, state=None):
            super().reset(inputs, state)
            Converts.resets += 1
            self.clock.now += 5.0 * (Converts.resets == 1)

    measure = Measure(repetitions=1, budget_s=1e-6, warmup_s=0.0)
    assert record_of(Converts, measure=measure)["outcome"] == "ok"
    assert record_of(WorksInReset, measure=measure)["outcome"] == "implausible"


def test_long_resets_end_the_measurement(record_of, clock):  # noqa: F811
    class Slow(Working):
        resets = 0

        def reset(self, inputs, state=None):
            super().reset(inputs, state)
            Slow.resets += 1
            self.clock.now += 0.5

    found = record_of(Slow, measure=Measure(repetitions=7, budget_s=0.3, warmup_s=0.0))
    assert (len(found["solve"]["samples"]), found["solve"]["stopped"]) == (7, "budget")


def test_a_pause_in_one_run_on_other_inputs_does_not_count(record_of, clock):  # noqa: F811
    """Only a run that is slow on each of several inputs counts."""

    class Paused(Working):
        runs = 0

        def run(self, max_supersteps):
            Paused.runs += max_supersteps == 2
            self.clock.now += 5.0 * (max_supersteps == 2 and Paused.runs == 1)
            return super().run(max_supersteps)

    assert record_of(Paused)["outcome"] == "ok"
    assert Paused.runs == 2


def test_a_pause_in_the_only_reading_does_not_count(record_of, clock):  # noqa: F811
    """With one repetition the engine runs and is read again; only readings that are slow every time count."""

    class Paused(Working):
        readings = 0

        def values(self, name):
            Paused.readings += 1
            self.clock.now += 5.0 * (Paused.readings == 1)
            return super().values(name)

    assert record_of(Paused, measure=ONE)["outcome"] == "ok"
    assert Paused.readings > 1
    assert record_of(Asynchronous, measure=ONE)["outcome"] == "implausible"


@pytest.mark.parametrize(
    ("seconds", "edges", "device", "fast"),
    [
        (1.0, 160_000_000_000, Device("cpu", threads=1), False),
        (1.0, 170_000_000_000, Device("cpu", threads=1), True),
        (1.0, 170_000_000_000, Device("cpu", threads=2), False),
        (1.0, 5_000_000_000_000, Device("cuda"), True),
        (0.0, 0, Device("cuda"), True),
    ],
)
def test_no_device_visits_more_edges_than_it_can(seconds, edges, device, fast):
    assert bool(too_fast(seconds, edges, device)) == fast


@given(st.integers(2, 6), st.integers(1, 3), st.integers(0, 2), st.booleans())
def test_other_inputs_have_the_same_shapes_and_other_contents(vertices, features, attempt, bipartite):
    edges = [0] * (vertices - 1), list(range(1, vertices))
    graph = Graph.from_edges(*edges, name="star", bipartite=(1, vertices - 1) if bipartite else None)
    start = np.arange(vertices * features, dtype=np.float32).reshape(vertices, features)
    inputs = Inputs({"teleport": start}, {"damping": 0.85})
    other = varied_inputs(trace(PageRank()), graph, features, inputs, attempt)
    found = other.properties["teleport"]
    assert (found.shape, found.dtype) == (start.shape, start.dtype)
    assert not np.shares_memory(found, start)
    assert sorted(map(tuple, found)) == sorted(map(tuple, start))
    if bipartite:
        assert np.array_equal(found[0], start[0])
    assert not np.array_equal(found, start) or other.parameters["damping"] < 0.85


def test_other_inputs_keep_the_arrays_that_do_not_differ():
    graph = Graph.from_edges([0, 1], [1, 0], weights=[1.0, 2.0], name="pair")
    seed, known = np.array([[1.0], [2.0]], np.float32), np.array([True, True])
    given = Inputs({"seed": seed, "labelled": known, "weight": np.ones(2, np.float32)}, {})
    found = varied_inputs(trace(LabelPropagation()), graph, 1, given).properties
    assert found["weight"] is given.properties["weight"]
    assert not found["seed"].flags.writeable


@pytest.mark.parametrize(("superstep_s", "runs"), [(0.001, [2, 14]), (0.01, [2, 3]), (1.0, [2])])
def test_fewer_supersteps_on_other_inputs_are_timed_if_they_are_long(superstep_s, runs):
    taken = []

    class Steady(Right):
        def timed_run(self, max_supersteps):
            taken.append(max_supersteps)
            return superstep_s * max_supersteps, RunStatistics(False, [Superstep(2, 2, "pull")] * max_supersteps)

    program, graph = trace(PageRank()), Graph.from_edges([0, 1], [1, 0], name="pair")
    given = Inputs({"teleport": np.array([[1.0], [2.0]], np.float32)}, {"damping": 0.85})
    engine = Steady(None)
    engine.prepare(program, graph, 1, Device("cpu", threads=1), Phases())
    samples = [20 * superstep_s] * 7
    statistics = RunStatistics(False, [Superstep(2, 2, "pull")] * 20)
    timing = Timing(samples, median_interval(samples), "count", statistics)
    assert varied_run(engine, program, graph, 1, given, 20, timing).slow == ""
    assert taken == runs


@pytest.mark.parametrize("by", [1, 5, 7, 23])
@pytest.mark.parametrize("bounds", [(0, 7), (0, 3, 7), (0, 0, 7), (0, 6, 7)])
def test_rows_are_rotated_within_their_side(bounds, by):
    array = np.arange(14).reshape(7, 2)
    expected = [np.roll(array[low:high], by, axis=0) for low, high in pairwise(bounds)]
    np.testing.assert_array_equal(_rotated(array, bounds, by), np.concatenate(expected))


def test_other_inputs_have_their_own_results_of_stages_that_run_once():
    """Degrees stay with their vertices; rotated ones would be 0 at vertices that have edges."""
    algorithm = WeightedWalks()
    graph = algorithm.prepare_graph(Graph.from_edges([0, 0, 0, 1], [1, 2, 3, 2], weights=[1.0] * 4, name="tree"))
    program = trace(algorithm)
    inputs = inputs_of(algorithm, program, graph, 2)
    found = varied_inputs(program, graph, 2, inputs)
    assert not np.array_equal(found.properties["start"], inputs.properties["start"])
    assert found.properties["strength"].tolist() == inputs.properties["strength"].tolist() == [3.0, 1.0, 0.0, 0.0]
    assert not found.properties["strength"].flags.writeable
