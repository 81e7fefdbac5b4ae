"""Time to equal accuracy of an engine whose error after each superstep is given: every field, by hand."""

from __future__ import annotations

import dataclasses
import math
from types import SimpleNamespace

import pytest

from harness.campaign import accuracy
from harness.campaign.accuracy import Distance, accuracy_of
from harness.campaign.cell import Measure
from harness.campaign.measurement import Timing
from harness.contract import RunStatistics, Superstep
from harness.records.statistics import Interval

ERRORS = (8.0, 4.0, 2.0, 1.0, 0.5, 0.25)  # after supersteps 1 to 6; the bound is 1
MEASURE = Measure(repetitions=3, warmup_s=0.5, budget_s=2.0, width=0.1, cap_s=16 * 2.0)
SETTINGS = {**dataclasses.asdict(MEASURE), "warmup_s": 0.0}  # the engine is warm


class Stepping:
    """Takes supersteps and returns their number."""

    stepwise = True

    def __init__(self):
        self.calls = []

    def reset(self, inputs):
        self.taken = 0
        self.calls.append(inputs)

    def run(self, most):
        self.taken += most
        self.calls.append(most)


def timed(median, supersteps, low=None, high=None):
    interval = Interval(median, median if low is None else low, median if high is None else high, 0.95)
    return Timing([median] * 3, interval, "count", RunStatistics(True, [Superstep(1, 1, "push")] * supersteps))


@pytest.fixture
def sought(monkeypatch):
    """Return a function that seeks the time: the fields, the timing, and the arguments of the earlier runs.

    ``earlier``: the timing of the runs to an earlier superstep. ``scatter``: the error of their last answer.
    """

    def seek(own, errors=ERRORS, *, earlier=None, scatter=1.0, cap_s=MEASURE.cap_s):
        engine, measured = Stepping(), []

        def distance(problem, target, values):
            error = scatter if measured else errors[engine.taken - 1]
            return Distance(error <= 1.0, error, 1.0)

        def measure_engine(engine, inputs, supersteps, measure, phases):
            measured.append((inputs, supersteps, dataclasses.asdict(measure)))
            return earlier

        monkeypatch.setattr(accuracy, "distance", distance)
        monkeypatch.setattr(accuracy, "measure_engine", measure_engine)
        monkeypatch.setattr(accuracy, "answer_of", lambda *_: None)
        problem = SimpleNamespace(inputs="inputs", program=SimpleNamespace(outputs=()))
        at_stop = Distance(errors[-1] <= 1.0, errors[-1], 1.0)
        target, measure = SimpleNamespace(method="by hand"), dataclasses.replace(MEASURE, cap_s=cap_s)
        fields, timing = accuracy_of(engine, problem, target, own, at_stop, measure)
        assert engine.calls[::2] == ["inputs"] * (len(engine.calls) // 2)  # every probe begins anew
        return fields, timing, measured

    return seek


def expected(**found):
    nothing = {
        "superstep": None,
        "tolerance": None,
        "error": 0.25,
        "error_before": pytest.approx(math.nan, nan_ok=True),
    }
    return {**nothing, "bound": 1.0, "against": "by hand", "solve": None, **found}


def test_the_runs_to_the_first_superstep_within_the_bound_are_timed_without_a_warm_up(sought):
    own, earlier = timed(2.0, 6), timed(1.5, 4)
    fields, timing, measured = sought(own, earlier=earlier)
    assert measured == [("inputs", 4, SETTINGS)]
    assert timing is earlier
    assert fields == expected(superstep=4, error=1.0, error_before=2.0, solve=earlier.plain())


@pytest.mark.parametrize("errors", [(2.0, 1.5, 1.0), (1.001, 0.999)])
def test_a_run_whose_last_superstep_is_the_first_within_the_bound_is_not_timed_again(sought, errors):
    own = timed(2.0, len(errors))
    fields, timing, measured = sought(own, errors)
    assert (timing, measured) == (own, [])
    found = {"superstep": len(errors), "error": errors[-1], "error_before": errors[-2], "solve": own.plain()}
    assert fields == expected(**found)


def test_nothing_is_before_the_first_superstep(sought):
    own, earlier = timed(2.0, 2), timed(1.0, 1)
    fields, timing, measured = sought(own, (0.5, 0.25), earlier=earlier)
    assert [supersteps for _, supersteps, _ in measured] == [1]
    assert fields == expected(superstep=1, error=0.5, solve=earlier.plain())
    assert timing is earlier


@pytest.mark.parametrize(("low", "used"), [(2.5, True), (2.501, False)])
def test_runs_to_an_earlier_superstep_count_unless_they_are_slower_beyond_both_intervals(sought, low, used):
    own, earlier = timed(2.0, 6, high=2.5), timed(3.0, 4, low=low, high=4.0)
    fields, timing, _ = sought(own, earlier=earlier)
    assert timing is (earlier if used else own)
    assert fields["solve"] == timing.plain()


@pytest.mark.parametrize(("scatter", "counts"), [(2.0, True), (2.001, False)])
def test_an_answer_of_the_timed_runs_may_be_off_by_two_bounds(sought, scatter, counts):
    earlier = timed(1.5, 4)
    fields, timing, _ = sought(timed(2.0, 6), earlier=earlier, scatter=scatter)
    if counts:
        assert (fields["superstep"], fields["error"], timing) == (4, 1.0, earlier)
    else:
        assert (fields, timing) == (expected(error=scatter), None)


@pytest.mark.parametrize(("cap_s", "searched"), [(32.0, True), (31.999, False)])
def test_sixteen_runs_must_fit_into_the_cap(sought, cap_s, searched):
    fields, timing, measured = sought(timed(2.0, 6), earlier=timed(1.5, 4), cap_s=cap_s)
    assert (timing is not None, bool(measured)) == (searched, searched)
    assert fields == expected() or searched


def test_a_run_that_stops_too_far_away_has_no_time(sought):
    fields, timing, measured = sought(timed(2.0, 2), (2.0, 1.001))
    assert (fields, timing, measured) == (expected(error=1.001), None, [])
