"""Evidence beside the last answer, by hand: readings and their times, resets, counts of supersteps, and verdicts."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest

from harness.campaign import plausibility, scrutiny
from harness.campaign import verdict as validation
from harness.campaign.plausibility import Witness, implausible, too_fast, worked_before
from harness.campaign.verdict import miscounted, verdict
from harness.contract import Device, RunStatistics, Superstep
from harness.language.algorithm import Answer
from harness.language.validation import Comparison
from harness.records.outcome import Outcome


@pytest.mark.parametrize(
    ("seconds", "expected", "found"),
    [
        (1.0, 0.1, False), (1.001, 0.1, True), (0.002, 0.0, False), (0.0021, 0.0, True),
        (0.0021, 0.0002, False),  # more than ten times as long, by less than 2 ms
    ],
)  # fmt: skip
def test_a_time_is_implausible_by_a_factor_and_by_some_milliseconds(seconds, expected, found):
    assert implausible(seconds, expected) is found


@pytest.fixture
def clock(monkeypatch):
    """Return a clock that stands still until its field ``now`` is changed."""
    made = SimpleNamespace(now=0.0)
    monkeypatch.setattr("harness.clock.perf_counter", lambda: made.now)
    return made


class Answers:
    """An engine with one answer after another, each read in a given number of seconds; the last ones stay."""

    def __init__(self, clock, answers, seconds=(0.0,), stepwise=True):
        self.clock, self.answers, self.seconds, self.stepwise = clock, list(answers), list(seconds), stepwise
        self.rows_read = []

    def _next(self, values):
        return values.pop(0) if len(values) > 1 else values[0]

    def values(self, name):
        assert name == "x"
        self.clock.now += self._next(self.seconds)
        return np.array(self._next(self.answers), np.float32)

    def rows(self, name, rows):
        self.rows_read.append(rows)
        return self.values(name)[rows]


def ran(steps, settled=False):
    return RunStatistics(settled, [Superstep(1, 1, "push")] * steps)


@pytest.mark.parametrize("stepwise", [True, False])
def test_the_first_answer_and_two_others_are_kept(clock, stepwise):
    witness = Witness(Answers(clock, [[1], [1], [2], [1], [3], [4]], stepwise=stepwise), ["x"])
    for number in range(1, 7):
        witness.look(ran(number, settled=number == 3))
    found = [(one.number, one.values["x"].tolist(), one.settled, one.supersteps) for one in witness.differing]
    assert found == [
        (1, [1], False, 1 if stepwise else None), (3, [2], True, 3 if stepwise else None),
        (5, [3], False, 5 if stepwise else None),
    ]  # fmt: skip


def test_answers_that_differ_in_the_sign_of_zero_or_in_nan_are_compared_by_their_bits(clock):
    witness = Witness(Answers(clock, [[math.nan], [math.nan], [0.0], [-0.0]]), ["x"])
    for _ in range(4):
        witness.look(ran(1))
    assert [one.number for one in witness.differing] == [1, 3, 4]


@pytest.mark.parametrize(("most", "reads", "differing"), [(8, 5, [1, 2]), (7, 3, [])])
def test_answers_beyond_a_size_are_read_after_the_first_runs_only(clock, monkeypatch, most, reads, differing):
    monkeypatch.setattr(plausibility, "WHOLE_BYTES", most)
    witness = Witness(Answers(clock, [[1, 1], [2, 2], [1, 1]], [1.0, 2.0, 3.0]), ["x"])
    for _ in range(5):
        witness.look(ran(1))
    assert witness.reads == [1.0, 2.0, 3.0, 3.0, 3.0][:reads]
    assert [one.number for one in witness.differing] == differing


def test_of_a_sample_only_its_rows_are_read(clock):
    sample = SimpleNamespace(results=lambda name: np.array([2, 0]))
    engine = Answers(clock, [[5, 6, 7], [5, 8, 7], [5, 6, 9]])
    witness = Witness(engine, ["x"], sample)
    witness.prime()
    assert witness.reads == []
    for _ in range(2):
        witness.look(ran(1))
    assert [rows.tolist() for rows in engine.rows_read] == [[2, 0]] * 3
    assert [one.values["x"].tolist() for one in witness.differing] == [[7, 5], [9, 5]]
    whole = Answers(clock, [[1], [2]])
    Witness(whole, ["x"]).prime()  # nothing is compiled for whole answers
    assert whole.answers == [[1], [2]]


LATE = (
    "reading the answer takes 1 s after a run of 0.001 s, and 0.01 s when it is read again: run() returns before the "
    "work is done; wait for it in run()"
)


@pytest.mark.parametrize(
    ("seconds", "median", "runs", "reason"),
    [
        ([1.0, 1.0, 1.0, 0.01, 0.0], 0.001, 2, LATE),
        ([1.0, 1.0, 1.0, 0.0, 0.2], 0.001, 2, ""),  # the slower one of two more readings counts
        ([1.0, 0.005], 0.001, 1, ""),  # a pause in the first reading
        ([1.0, 1.0, 0.0], 0.1, 0, ""),  # ten times as long as a run is not much longer
        ([1.0, 1.0, 1.0, 0.0], 0.0, 2, ""),
    ],
)
def test_an_answer_that_is_late_after_every_run_is_told(clock, seconds, median, runs, reason):
    witness, called = Witness(Answers(clock, [[1]], seconds), ["x"]), []
    witness.look(ran(1))
    assert witness.late(median, lambda: called.append(1) or ran(1)) == reason
    assert len(called) == runs


@pytest.mark.parametrize(
    ("reset_s", "median", "size", "resets", "called", "told"),
    [
        (1.0, 0.1, 0, [], 0, None),
        (1.0, 0.0, 10_000_000, [], 0, None),  # 0.1 s at 100 MB/s
        (1.1, 0.0, 10_000_000, [0.5], 1, None),
        (1.1, 0.0, 10_000_000, [2.0, 0.5], 2, None),
        (1.1, 0.0, 10_000_000, [2.0, 1.5], 2, "1.1"),
        (1.3, 0.0, 10_000_000, [1.2, 1.1], 2, "1.1"),
    ],
)
def test_resets_that_take_much_longer_than_copies_do_the_work(clock, reset_s, median, size, resets, called, told):
    made = []

    def reset():
        made.append(1)
        clock.now += resets[len(made) - 1]

    found = worked_before(reset_s, median, size, reset)
    assert len(made) == called
    expected = (
        f"reset() to the start takes {told} s before a run of 0 s, though inputs and state have 10,000,000 bytes: "
        "work of the run is done outside of the timed part; move it to run()"
    )
    assert found == ("" if told is None else expected)


@pytest.mark.parametrize(
    ("edges", "device", "reason"),
    [
        (640_000_000_000, Device("cpu", threads=2), ""),
        (640_000_000_001, Device("cpu", threads=2),
         "640,000,000,001 edges in 2 s are 3.2e+11 per second; 2 cores cannot exceed 3.2e+11"),
        (8_000_000_000_000, Device("cuda", threads=2), ""),
        (9_000_000_000_000, Device("cuda", threads=2),
         "9,000,000,000,000 edges in 2 s are 4.5e+12 per second; a GPU cannot exceed 4e+12"),
    ],
)  # fmt: skip
def test_the_limit_of_edges_is_that_of_the_device(edges, device, reason):
    assert too_fast(2.0, edges, device) == reason


@pytest.mark.parametrize("seconds", [0.0, -1.5])
def test_a_run_takes_time(seconds):
    assert too_fast(seconds, 0, Device("cpu", threads=1)) == f"a run took {seconds:g} s by the clock"


@pytest.mark.parametrize("warm", [True, False])
def test_all_evidence_is_gathered_in_order(monkeypatch, warm):
    """The fastest sample is compared with the device, the shortest reset with the median."""
    asked = {}

    def told(name, text):
        return lambda *given, **named: asked.update({name: (*given, *named.items())}) or text

    varied = SimpleNamespace(slow="slow on other inputs")
    monkeypatch.setattr(scrutiny, "too_fast", told("fast", "too fast"))
    monkeypatch.setattr(scrutiny, "worked_before", told("before", "worked before"))
    monkeypatch.setattr(scrutiny, "varied_run", lambda *given, in_order: asked.update(order=in_order) or varied)
    monkeypatch.setattr(scrutiny, "edge_steps", lambda program: (1,))
    timing = SimpleNamespace(
        samples=[3.0, 1.0, 2.0], interval=SimpleNamespace(median=2.0), statistics=SimpleNamespace(edges=7), reset_s=0.5
    )
    problem = SimpleNamespace(
        start=object() if warm else None, program=None, graph=None, features=1, inputs=None, max_supersteps=9,
        state_bytes=80,
    )  # fmt: skip
    witness = SimpleNamespace(differing=[1, 2], sample="sample")
    cell = SimpleNamespace(validate=True, device="device")
    found = scrutiny.gather(None, cell, problem, timing, witness, "late", None)
    assert asked["fast"] == (1.0, 7, "device")
    assert asked["before"][:3] == (0.5, 2.0, 80)
    assert asked.get("order") is (None if warm else True)
    assert (found.differing, found.read, found.varied) == ((1, 2), "sample", None if warm else varied)
    assert found.implausible == "late; worked before; too fast" + ("" if warm else "; slow on other inputs")
    monkeypatch.setattr(scrutiny, "too_fast", told("fast", ""))
    monkeypatch.setattr(scrutiny, "worked_before", told("before", ""))
    varied.slow = ""
    assert scrutiny.gather(None, cell, problem, timing, witness, "", None).implausible == ""


@pytest.mark.parametrize(
    ("settles", "settled", "supersteps", "least", "reason"),
    [
        (True, True, 11, 0, ", more than the 10 that it was given"),
        (True, True, 10, 10, ""),
        (True, False, 10, 0, ""),
        (True, False, 9, 0, " and that the run is not settled; such a run has all 10"),
        (True, True, 4, 5, "; a settled run has at least 5, as a superstep carries values over one edge"),
        (True, True, 5, 5, ""),
        (False, False, 9, 0, ", but the program runs exactly 10"),
        (False, True, 9, 0, ", but the program runs exactly 10"),
        (False, True, 10, 0, ""),
    ],
)
def test_supersteps_are_as_many_as_a_run_can_have(settles, settled, supersteps, least, reason):
    control = SimpleNamespace(settles=settles)
    problem = SimpleNamespace(max_supersteps=10, program=SimpleNamespace(control=control))
    found = miscounted(problem, settled, supersteps, least)
    assert found == (f"the engine reports {supersteps} supersteps{reason}" if reason else "")


@pytest.fixture
def judged(monkeypatch):
    """Return a function that validates the values of ``x`` against the finite reference [1, 2, 3]."""
    reference = Answer({"x": np.array([1.0, 2.0, 3.0])}, "a loop")
    compared = Comparison(True, 0.25, 0.5, "")
    monkeypatch.setattr(validation, "library_answer", lambda problem: None)
    monkeypatch.setattr(validation, "expected", lambda problem, settled: reference)
    monkeypatch.setattr(validation, "compare", lambda *_: compared)
    problem = SimpleNamespace(
        start=None, by_residual=False, max_supersteps=10, graph=SimpleNamespace(num_edges=5),
        program=SimpleNamespace(control=SimpleNamespace(settles=True)),
    )  # fmt: skip

    def judge(values, *, validate=True, **given):
        cell = SimpleNamespace(validate=validate)
        values = {"x": np.array(values, np.float32)}
        return verdict(cell, problem, values, **{"settled": False, "supersteps": 10, **given})

    return judge


FIELDS = {"validation": {"ok": True, "error": 0.25, "bound": 0.5, "detail": "", "against": "a loop"}}


@pytest.mark.parametrize(
    ("values", "lost"), [([1, 2, 3], 0), ([1, math.inf, 3], 1), ([-math.inf, math.nan, 3], 2), ([math.inf] * 3, 3)]
)
def test_values_that_are_not_finite_where_the_reference_s_are_have_diverged(judged, values, lost):
    reason = f"{lost} values of x are not finite where the reference's are"
    assert judged(values) == ((Outcome.DIVERGED, reason, FIELDS) if lost else (Outcome.OK, "", FIELDS))


def test_without_validation_only_values_that_are_not_numbers_are_found(judged):
    assert judged([math.inf, 7, 8], validate=False) == (Outcome.OK, "", {})
    nan = (Outcome.DIVERGED, "x holds values that are not numbers", {})
    assert judged([1, math.nan, 3], validate=False) == nan
    assert judged([], validate=False) == (Outcome.OK, "", {})
    assert judged([1, 2, 3], validate=False, supersteps=99) == (Outcome.OK, "", {})


def test_a_run_that_miscounts_is_wrong_before_its_values_are_compared(judged):
    reason = "the engine reports 11 supersteps, more than the 10 that it was given"
    assert judged([math.inf, 2, 3], supersteps=11) == (Outcome.WRONG, reason, {})
    assert judged([1, 2, 3], supersteps=None) == (Outcome.OK, "", FIELDS)


@pytest.mark.parametrize(("edges", "whole"), [(100, True), (101, False)])
def test_with_a_sample_whole_answers_are_for_graphs_of_some_size(monkeypatch, judged, edges, whole):
    monkeypatch.setattr(validation, "EDGES_OF_LIBRARY", 100)
    library = Answer({"x": np.array([1.0])}, "a library", least_supersteps=3)
    monkeypatch.setattr(validation, "library_answer", lambda problem: library)
    sampled = Comparison(True, 0.1, 0.5, "")
    checked = SimpleNamespace(worst=lambda problem: (sampled, "supersteps"))
    problem = SimpleNamespace(
        start=None, by_residual=False, max_supersteps=10, graph=SimpleNamespace(num_edges=edges),
        program=SimpleNamespace(control=SimpleNamespace(settles=True)),
    )  # fmt: skip
    cell, values = SimpleNamespace(validate="sampled"), {"x": np.ones(1, np.float32)}
    outcome, _, fields = verdict(cell, problem, values, settled=True, supersteps=5, checked=checked)
    found = fields["validation"]
    assert (outcome, found["against"]) == (Outcome.OK, "a library; supersteps" if whole else "supersteps")
    assert found["error"] == (0.25 if whole else 0.1)
    sampled = Comparison(False, 2.0, 0.5, "superstep 1: off")
    outcome, reason, fields = verdict(cell, problem, values, settled=True, supersteps=5, checked=checked)
    assert (outcome, reason, fields["validation"]["against"]) == (Outcome.WRONG, "superstep 1: off", "supersteps")
    values["x"][0] = math.nan
    assert verdict(cell, problem, values, settled=True, supersteps=5, checked=checked)[0] is Outcome.DIVERGED


@pytest.mark.parametrize(
    ("start", "tolerance", "kept", "settles", "compared"),
    [
        (None, "eps", ("x",), False, True),
        (None, "eps", ("x",), True, False),  # the answer of the reference is a fixed point itself
        (None, None, ("x",), False, False),
        ("warm", "eps", ("x",), False, False),
        (None, "eps", ("x", "hidden"), False, False),
    ],
)
@pytest.mark.parametrize("rests", [True, False])
@pytest.mark.parametrize("settled", [True, False])
def test_a_settled_answer_must_rest_if_the_reference_does_not_settle(
    monkeypatch, judged, start, tolerance, kept, settles, compared, rests, settled
):
    asked = []
    rest = Comparison(rests, 0.125, 0.5, "" if rests else "x of vertex 1 moves")
    monkeypatch.setattr(validation, "kept_properties", lambda program: kept)
    monkeypatch.setattr(validation, "converged", lambda problem: "a fixed point" if settles else None)
    monkeypatch.setattr(validation, "residual", lambda *given: asked.append(given) or rest)
    program = SimpleNamespace(control=SimpleNamespace(settles=True, tolerance=tolerance))
    problem = SimpleNamespace(
        start=start, by_residual=False, max_supersteps=10, graph=SimpleNamespace(num_edges=5), program=program,
        features=3, inputs="inputs",
    )  # fmt: skip
    values = {"x": np.array([1, 2, 3], np.float32)}
    found = verdict(SimpleNamespace(validate=True), problem, values, settled=settled, supersteps=10)
    if compared and settled:
        assert asked == [(program, problem.graph, 3, "inputs", values)]
        assert found[0] is (Outcome.OK if rests else Outcome.WRONG)
        assert found[1] == rest.detail
        against = "its own next superstep in float64, as the reference does not settle"
        if not rests:
            assert found[2]["validation"] == {
                "ok": False, "error": 0.125, "bound": 0.5, "detail": rest.detail, "against": against
            }  # fmt: skip
    else:
        assert asked == []
    if not (compared and settled) or rests:
        assert found == (Outcome.OK, "", FIELDS)
