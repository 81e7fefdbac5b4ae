from __future__ import annotations

import gc
import itertools
import random

import numpy as np
import pytest

from harness.campaign.cell import Measure
from harness.campaign.measurement import Timing, marks_of, measure_engine, reset, spare_cores, watched_cores
from harness.contract import Device, Engine, Phases, RunStatistics, Superstep, Yes
from harness.language.warm import WarmStart
from harness.records.statistics import median_interval


@pytest.fixture(autouse=True)
def _clock(monkeypatch):
    """Return a clock on which a run takes one to three microseconds, however busy the machine is."""
    draw, now = random.Random(7), [0.0]

    def perf_counter():
        now[0] += draw.uniform(1e-6, 3e-6)
        return now[0]

    monkeypatch.setattr("harness.clock.perf_counter", perf_counter)


class Counting(Engine):
    """Records its calls; settles after ``length`` supersteps."""

    def __init__(self, length):
        super().__init__(None)
        self.length, self.calls, self.collected = length, [], []

    def supports(self, program, graph, features, device):
        return Yes(0)

    def prepare(self, program, graph, features, device, phases):
        pass

    def reset(self, inputs, state=None):
        self.calls.append("reset")
        self.left = self.length

    def run(self, max_supersteps):
        self.calls.append(max_supersteps)
        self.collected.append(gc.isenabled())
        steps = min(self.left, max_supersteps)
        self.left -= steps
        return RunStatistics(self.left == 0, [Superstep(1, 2, "push")] * steps)

    def values(self, name):
        raise NotImplementedError

    def close(self):
        pass


def test_a_phase_within_another_counts_once(monkeypatch):
    ticks = iter([0.0, 1.0, 4.0, 6.0, 8.0, 9.0])
    monkeypatch.setattr("harness.clock.perf_counter", lambda: next(ticks))
    phases = Phases()
    with phases("check"), phases("wait"):  # from 0 to 6, and from 1 to 4
        pass
    with phases("wait"):
        pass
    assert phases.seconds == {"check": 3.0, "wait": 4.0}


def measured(engine, supersteps=20, **measure):
    phases = Phases()
    timing = measure_engine(engine, None, supersteps, Measure(**measure), phases)
    return timing, phases


def test_a_warm_up_of_no_length_is_left_out():
    engine = Counting(8)
    measured(engine, repetitions=1, warmup_s=0, budget_s=1e-9)
    assert engine.calls == ["reset", 20]


def test_every_timed_run_starts_again_and_completes():
    engine = Counting(length=6)
    timing, _ = measured(engine, repetitions=3, budget_s=0.5, width=1e9)
    assert len(timing.samples) == 6
    assert engine.calls == ["reset", 2, 2, 2, *["reset", 20] * 6]
    assert len(timing.statistics.supersteps) == 6
    assert timing.statistics.settled


def test_the_warm_up_is_a_separate_phase_with_a_limit():
    engine = Counting(length=1000)
    _, phases = measured(engine, supersteps=1000, repetitions=1, budget_s=1e-9, warmup_s=1e-9)
    assert engine.calls == ["reset", 2, "reset", 1000]
    assert phases.seconds["warm_up"] > 0


def test_what_is_to_be_done_after_the_warm_up_is_done_once():
    engine = Counting(length=6)
    warmed = lambda: engine.calls.append("warmed")  # noqa: E731
    measure_engine(engine, None, 20, Measure(repetitions=2, width=1e9, budget_s=1e-9), Phases(), warmed=warmed)
    assert engine.calls == ["reset", 2, 2, 2, "warmed", *["reset", 20] * 2]


@pytest.mark.parametrize(("supersteps", "steps"), [(1, [1]), (5, [2, 2, 1]), (6, [2, 2, 2])])
def test_the_warm_up_never_runs_longer_than_the_run(supersteps, steps):
    engine = Counting(length=1000)
    measured(engine, supersteps=supersteps, repetitions=1, budget_s=1e-9)
    assert engine.calls == ["reset", *steps, "reset", supersteps]


def test_the_interval_is_looked_at_ever_more_rarely(monkeypatch):
    looks = []

    def looking(samples):
        looks.append(len(samples))
        return median_interval(samples)

    monkeypatch.setattr("harness.campaign.measurement.median_interval", looking)
    measured(Counting(length=1), repetitions=2, budget_s=1e9, width=1e-12)
    *looks, last = looks
    assert looks == [6, 9, 13, 19, 28, 42, 63, 94, 141, 211, 316, 474, 711]
    assert last == 1000, "the interval of the result"


class SlowResets(Counting):
    """Its resets take the seconds ``resets`` in turn, and runs one or two hundredths of a second."""

    def __init__(self, now, resets):
        super().__init__(1)
        self.now, self.resets, self.runs = now, itertools.cycle(resets), itertools.cycle([0.01, 0.02])

    def reset(self, inputs, state=None):
        super().reset(inputs, state)
        self.now[0] += next(self.resets)

    def run(self, max_supersteps):
        self.now[0] += next(self.runs)
        return super().run(max_supersteps)


@pytest.mark.parametrize(("resets", "samples", "shortest"), [([1.0], 11, 1.0), ([2.0, 0.5, 1.5], 8, 0.5)])
def test_resets_that_take_ten_budgets_end_the_measurement(monkeypatch, resets, samples, shortest):
    now = [0.0]
    monkeypatch.setattr("harness.clock.perf_counter", lambda: now[0])
    engine = SlowResets(now, resets)

    def first():
        now[0] += 100.0  # which is not a part of the measurement
        return 0.01, RunStatistics(True)

    measure = Measure(repetitions=2, warmup_s=0, budget_s=1.0, width=1e-12)
    timing = measure_engine(engine, None, 20, measure, Phases(), first=first)
    assert (len(timing.samples), timing.stopped) == (samples, "budget")
    assert timing.reset_s == pytest.approx(shortest)


def test_a_reset_sets_the_start_that_the_run_needs():
    class Starting(Counting):
        def reset(self, inputs, state=None):
            self.calls.append((inputs, state))

        def narrow(self, stale, senders):
            self.calls.append((stale, senders))

    state, stale, senders = {"x": np.zeros(3)}, np.array([True, False, False]), np.array([False, True, False])
    for start, calls in (
        (None, [("inputs", None)]),
        (WarmStart("restarted", restarted=True), [("inputs", {})]),
        (WarmStart("warm", state), [("inputs", state)]),
        (WarmStart("warm", state, stale, senders), [("inputs", state), (stale, senders)]),
    ):
        engine = Starting(1)
        reset(engine, "inputs", start)
        assert engine.calls == calls


def test_a_narrow_interval_ends_the_measurement_before_the_budget():
    timing, _ = measured(Counting(length=1), repetitions=2, budget_s=1e9, width=1e9)
    assert len(timing.samples) == 6


def test_a_wide_interval_ends_at_the_most_samples_that_are_worth_it():
    timing, _ = measured(Counting(length=1), repetitions=2, budget_s=1e9, width=1e-12)
    assert len(timing.samples) == 1000


def test_garbage_is_not_collected_while_the_clock_runs():
    engine = Counting(length=1)
    measured(engine, repetitions=3, budget_s=0.5, width=1e9)
    assert engine.collected[1:] == [False] * 6
    assert gc.isenabled()


def test_the_record_gets_every_sample():
    timing, _ = measured(Counting(length=1), repetitions=4, budget_s=0.5, width=1e9)
    plain = timing.plain()
    assert plain["samples"] == timing.samples
    assert plain["minimum"] == min(timing.samples)
    assert plain["low"] <= plain["median"] <= plain["high"]
    assert plain["confidence"] == 0.96875
    assert plain["stopped"] == "precise"


def test_the_budget_ends_the_measurement_only_after_the_fewest_samples():
    timing, _ = measured(Counting(length=1), repetitions=7, budget_s=1e-9)
    assert len(timing.samples) == 7
    assert timing.stopped == "budget"


def test_runs_of_which_six_do_not_fit_into_the_cap_are_not_repeated():
    timing, _ = measured(Counting(length=1), repetitions=7, cap_s=1e-6)
    assert len(timing.samples) == 1
    assert timing.stopped == "budget"
    assert not timing.interval.sufficient


def test_six_runs_that_fit_into_the_cap_are_timed_if_seven_do_not(monkeypatch):
    now = itertools.count(step=9.0)
    monkeypatch.setattr("harness.clock.perf_counter", lambda: float(next(now)))
    timing, _ = measured(Counting(length=1), repetitions=7, cap_s=60.0)
    assert timing.samples == [9.0] * 6
    assert timing.interval.sufficient


@pytest.mark.parametrize(("first_s", "samples"), [(11.0, [11.0]), (9.0, [9.5] * 6)])
def test_a_first_run_is_the_only_sample_if_runs_are_too_long_for_six(monkeypatch, first_s, samples):
    now = itertools.count(step=9.5)
    monkeypatch.setattr("harness.clock.perf_counter", lambda: float(next(now)))
    engine, seen = Counting(length=1), []

    def first():
        engine.calls.append("first")
        return first_s, RunStatistics(True, [Superstep(7, 7, "pull")])

    measure = Measure(repetitions=6, warmup_s=1.0, cap_s=60.0)
    timing = measure_engine(engine, {}, 3, measure, Phases(), look=seen.append, first=first)
    assert timing.samples == samples
    assert engine.calls.count("first") == 1
    assert len(seen) == len(samples)
    assert (seen[0].edges == 7) == (len(samples) == 1), "the statistics are those of the timed run"


def test_by_default_every_cell_gets_enough_samples_for_a_verdict():
    timing, _ = measured(Counting(length=1))
    assert timing.interval.sufficient


@pytest.mark.parametrize(
    ("samples", "other_cores", "marks"),
    [
        ([1.0] * 12, 0.0, []),
        ([1.0] * 12, 0.9, ["busy"]),
        ([1.0, 2.0, 1.0, 2.0, 1.0, 2.0], 0.0, ["noisy"]),
        ([1.0 + 0.05 * i for i in range(20)], 0.0, ["noisy", "drifting"]),
        ([2.0 - 0.05 * i for i in range(20)], 0.0, ["noisy", "drifting"]),
    ],
)
def test_caveats_of_times_are_marked(samples, other_cores, marks):
    timing = Timing(samples, median_interval(samples), "budget", RunStatistics(True))
    assert marks_of(timing, Measure(width=0.05), other_cores) == marks


@pytest.mark.parametrize(
    ("others", "spare", "throttled", "marks"),
    [
        (0.2, 0, False, []), (0.21, 0, False, ["busy"]), (3.2, 3, False, []), (3.25, 3, False, ["busy"]),
        (0.0, 0, True, ["throttled"]), (1.0, 0, True, ["busy", "throttled"]),
    ],
)  # fmt: skip
def test_other_work_and_quotas_are_marked(others, spare, throttled, marks):
    timing = Timing([1.0] * 12, median_interval([1.0] * 12), "budget", RunStatistics(True))
    assert marks_of(timing, Measure(), others, spare_cores=spare, throttled=throttled) == marks


@pytest.mark.parametrize(("usable", "spare"), [(1, 0), (2, 0), (3, 1), (16, 14)])
def test_a_gpu_leaves_all_usable_cores_but_two(monkeypatch, usable, spare):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(usable)))
    assert spare_cores(Device("cuda")) == spare
    assert watched_cores(Device("cuda")) == set(range(usable))
    assert (spare_cores(Device("cpu")), watched_cores(Device("cpu"))) == (0, None)


def test_a_run_on_a_gpu_needs_two_cores(monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(16)))
    timing = Timing([1.0] * 12, median_interval([1.0] * 12), "budget", RunStatistics(True))
    spare = spare_cores(Device("cuda"))
    assert [marks_of(timing, Measure(), others, spare_cores=spare) for others in (14.0, 14.5)] == [[], ["busy"]]
    assert spare_cores(Device("cpu", threads=1)) == 0


def test_the_minimum_is_that_of_the_samples_and_not_the_end_of_the_interval():
    samples = [float(number) for number in range(1, 21)]
    timing = Timing(samples, median_interval(samples), "count", RunStatistics(True))
    assert timing.interval.low > 1.0
    assert timing.plain()["minimum"] == 1.0
