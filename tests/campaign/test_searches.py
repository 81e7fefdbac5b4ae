"""Searches for equal accuracy by hand, when sampling stops, defaults, and the end of a cell."""

from __future__ import annotations

import dataclasses
import io
import json
import math
from types import SimpleNamespace

import numpy as np
import pytest
from omegaconf import OmegaConf

from harness.campaign import judgement, scrutiny
from harness.campaign.accuracy import Crossing, Distance, _interpolated, first_within, loosest_within
from harness.campaign.cell import Limits, Measure
from harness.campaign.child_report import ChildReport
from harness.campaign.degrees import shares_of_edges
from harness.campaign.judgement import judge
from harness.campaign.measurement import _enough, _too_long
from harness.campaign.scrutiny import scrutinize
from harness.contract import Phases
from harness.language.validation import Comparison
from harness.records.outcome import Outcome
from tests.conftest import ROOT


def off(error, bound=1.0):
    return Distance(error <= bound, error, bound)


def probing(errors):
    """Return a probe of these errors, by what is probed, and the list of what it was asked."""
    asked = []

    def probe(at):
        asked.append(at)
        return off(errors(at))

    return probe, asked


def test_the_tolerance_doubles_and_the_interval_is_halved_twice():
    probe, asked = probing(lambda factor: factor / 10)
    factor, at, beyond = loosest_within(probe, off(0.1))
    assert factor == pytest.approx(8 * 2**0.25)
    assert asked == pytest.approx([2, 4, 8, 16, 8 * 2**0.5, 8 * 2**0.25])
    assert (at.error, beyond.error) == pytest.approx((0.8 * 2**0.25, 0.8 * 2**0.5))
    probe, asked = probing(lambda factor: factor / 12)
    factor, at, beyond = loosest_within(probe, off(0.1))
    assert asked == pytest.approx([2, 4, 8, 16, 8 * 2**0.5, 8 * 2**0.75])
    assert factor == pytest.approx(8 * 2**0.5)
    assert (at.error, beyond.error) == pytest.approx((8 * 2**0.5 / 12, 8 * 2**0.75 / 12))


def test_an_error_that_does_not_change_ends_the_search():
    probe, asked = probing(lambda factor: 0.1)
    assert loosest_within(probe, off(0.1)) == (1.0, off(0.1), None)
    assert asked == [2, 4, 8, 16, 32, 64]
    probe, asked = probing(lambda factor: 0.1 if factor < 64 else 0.2)
    assert loosest_within(probe, off(0.1)) == (4096, off(0.2), None)
    assert asked[-1] == 4096
    probe, asked = probing(lambda factor: 2.0)
    assert loosest_within(probe, off(0.5))[0] == 1.0
    assert asked == pytest.approx([2, 2**0.5, 2**0.25])


@pytest.mark.parametrize("last", [1, 2, 3, 10, 97])
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_the_first_superstep_within_the_bound(last, share):
    first = max(1, round(share * last))
    probe, asked = probing(lambda step: 2.0 ** (first - step - 0.5))
    found = first_within(probe, last, off(2.0 ** (first - last - 0.5)))
    assert found.superstep == first
    assert found.at == off(2.0**-0.5)
    if first > 1:
        assert found.before == off(2.0**0.5)
    assert len(asked) <= 2 * max(1, math.ceil(math.log2(last)))
    assert len(asked) == len(set(asked))


def test_a_run_of_one_superstep_is_not_probed():
    probe, asked = probing(lambda step: 0.0)
    assert first_within(probe, 1, off(0.5)) == Crossing(1, off(0.5), None)
    assert asked == []


@pytest.mark.parametrize(
    ("low", "above", "high", "below", "guess"),
    [
        (0, 2.0**3.5, 10, 2.0**-6.5, 4),
        (0, 16.0, 8, 2.0**-4, 4),
        (2, 8.0, 6, 2.0**-1, 5),
        (0, 2.0, 10, 2.0**-9, 1),
        (0, 512.0, 10, 0.5, 9),
        (0, 1.0, 10, 1.0, 5),
        (0, math.inf, 10, 0.5, 5),
        (0, 2.0, 10, 0.0, 1),
        (0, 4.0, 9, 8.0, 4),
    ],
)
def test_the_next_guess_is_interpolated_in_the_logarithm(low, above, high, below, guess):
    assert _interpolated(low, off(above), high, off(below)) == guess


MEASURE = Measure(repetitions=7, budget_s=10.0, width=0.05, cap_s=60.0)


@pytest.mark.parametrize(
    ("samples", "look", "stop"),
    [
        ([1.0] * 6, True, None),
        ([1.0] * 7, True, "precise"),
        ([1.0] * 7, False, None),
        ([1.0] * 10, False, "budget"),
        ([1.0] * 9, False, None),
        ([1.5] * 7, False, "budget"),
        ([10.1], False, "budget"),
        ([10.0], False, None),
        ([0.5, 1.0] * 4, True, None),
        ([11.0] * 2, True, "budget"),
        ([8.6] * 6, False, "budget"),
        ([8.5] * 6, False, None),
        ([1e-3] * 999, False, None),
        ([1e-3] * 1000, False, "count"),
    ],
)
def test_when_sampling_stops(samples, look, stop):
    assert _enough(samples, MEASURE, look=look) == stop


@pytest.mark.parametrize(
    ("seconds", "samples", "repetitions", "long"),
    [
        (10.0, 1, 7, False),
        (10.01, 1, 7, True),
        (20.0, 1, 3, False),
        (20.1, 1, 3, True),
        (6.0, 9, 7, False),
        (6.1, 9, 7, True),
    ],
)
def test_how_long_runs_may_be(seconds, samples, repetitions, long):
    measure = dataclasses.replace(MEASURE, repetitions=repetitions)
    assert _too_long(seconds, measure, samples) is long


def test_defaults_of_the_code_are_those_of_the_configuration():
    config = OmegaConf.to_container(OmegaConf.load(ROOT / "conf" / "config.yaml"))
    assert config["measure"] == dataclasses.asdict(Measure())
    assert config["limits"] == dataclasses.asdict(Limits())


@pytest.mark.parametrize(
    ("degrees", "bounds", "shares"),
    [
        ([1, 2, 3, 4], [1, 2, 3], [0.1, 0.3, 0.6]), ([0, 0], [1, 2], [0.0, 0.0]), ([5, 5], [4, 5], [0.0, 1.0]),
        ([100, 1], [1, 8], [1 / 101, 1 / 101]), ([], [8], [0.0]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("chunk", [1, 2, 100])
def test_shares_of_edges_by_degree(monkeypatch, degrees, bounds, shares, chunk):
    monkeypatch.setattr("harness.campaign.degrees._CHUNK", chunk)
    assert shares_of_edges(np.cumsum([0, *degrees]), bounds) == pytest.approx(shares)


REPETITION = SimpleNamespace(number=3, values={}, settled=True, supersteps=4)


def evidence(*, differing=(), varied=None, implausible=""):
    return SimpleNamespace(differing=differing, read=None, varied=varied, implausible=implausible)


@pytest.mark.parametrize(
    ("excess", "outcome"), [(0.5, Outcome.OK), (1.9, Outcome.OK), (2.0, Outcome.OK), (2.1, Outcome.WRONG)]
)
def test_two_answers_within_a_bound_are_at_most_two_bounds_apart(monkeypatch, excess, outcome):
    found = Comparison(excess <= 1, excess, 1.0, "they differ")
    monkeypatch.setattr(scrutiny, "compare", lambda *_: found)
    cell, problem = SimpleNamespace(validate=True), SimpleNamespace(program=None)
    met = scrutinize(cell, problem, {}, evidence(differing=[REPETITION]), object())
    text = "timed run 3: its answer differs from that of the last run: they differ"
    assert met == (outcome, "" if outcome is Outcome.OK else text)


def test_evidence_is_weighed_in_order(monkeypatch):
    answers = {"repetition": (Outcome.WRONG, "off by 3", {}), "varied": "it is remembered"}
    monkeypatch.setattr(scrutiny, "verdict", lambda *_, **given: answers["repetition"])
    monkeypatch.setattr(scrutiny, "_varied", lambda *_: answers["varied"])
    cell = SimpleNamespace(validate=True)
    all_of_it = evidence(differing=[REPETITION], varied=object(), implausible="too fast")
    assert scrutinize(cell, None, {}, all_of_it, None) == (Outcome.WRONG, "timed run 3: off by 3")
    answers["repetition"] = (Outcome.OK, "", {})
    assert scrutinize(cell, None, {}, all_of_it, None) == (Outcome.WRONG, "it is remembered")
    answers["varied"] = ""
    assert scrutinize(cell, None, {}, all_of_it, None) == (Outcome.IMPLAUSIBLE, "too fast")
    assert scrutinize(cell, None, {}, evidence(differing=[REPETITION], varied=object()), None) == (Outcome.OK, "")
    unchecked = SimpleNamespace(validate=False)
    answers.update(repetition=(Outcome.WRONG, "off by 3", {}), varied="it is remembered")
    assert scrutinize(unchecked, None, {}, all_of_it, None) == (Outcome.IMPLAUSIBLE, "too fast")
    assert scrutinize(unchecked, None, {}, evidence(varied=object()), None) == (Outcome.OK, "")


class Rated:
    """An algorithm whose metrics and artefacts are given."""

    rated_when_settled = True

    def __init__(self, metrics=None, error=None):
        self.found, self.error, self.calls = metrics, error, []

    def metrics(self, graph, values):
        self.calls.append(("metrics", graph, values))
        if self.error is not None:
            raise self.error
        return self.found

    def artefacts(self, graph, values, folder):
        self.calls.append(("artefacts", graph, values, folder))


@pytest.fixture
def ended(monkeypatch):
    """Return a function that judges a cell: (whether it is ok, the fields of its report, what was saved)."""

    def run(
        algorithm, *, outcome=(Outcome.OK, "", {"validation": None}), scrutiny=(Outcome.OK, ""), save="none", **changes
    ):
        saved = []
        monkeypatch.setattr(judgement, "verdict", lambda *_, **__: outcome)
        monkeypatch.setattr(judgement, "scrutinize", lambda *_: scrutiny)
        monkeypatch.setattr(judgement, "save_answer", lambda *given: saved.append(given))
        control = SimpleNamespace(settles=True)
        problem = SimpleNamespace(
            algorithm=algorithm, carried={"early": 1}, later=(), start=None, several_phases=False, unsettled=False,
            program=SimpleNamespace(control=control), graph="changed", given="given",
        )  # fmt: skip
        solved = SimpleNamespace(values={"x": 2}, settled=True, supersteps=3, checked=None, ordered=None, evidence=None,
                                 sample=None)  # fmt: skip
        for name, value in changes.items():
            setattr(problem if hasattr(problem, name) else solved, name, value)
        file = io.BytesIO()
        cell = SimpleNamespace(algorithm="rated", save=save)
        done = judge(cell, problem, solved, ChildReport(file), Phases(), "folder")
        fields = {}
        for line in file.getvalue().splitlines():
            fields.update(json.loads(line))
        return done, fields, saved

    return run


ANSWERS = {"early": 1, "x": 2}


def test_a_right_answer_is_rated_and_saved(ended):
    algorithm = Rated({"share": 0.5})
    done, fields, saved = ended(algorithm, save="answer")
    assert done is True
    assert (fields["outcome"], fields["reason"], fields["metrics"]) == ("ok", "", {"share": 0.5})
    assert fields["stage"] == "save the answer"
    assert algorithm.calls == [("metrics", "given", ANSWERS), ("artefacts", "given", ANSWERS, "folder")]
    [(folder, kind, _, graph, answers)] = saved
    assert (folder, kind, graph, answers) == ("folder", "answer", "changed", ANSWERS)
    assert "validate" in fields["phases"]


@pytest.mark.parametrize(
    ("changes", "outcome", "rated"),
    [
        ({"outcome": (Outcome.WRONG, "off", {})}, ("wrong", "off"), False),
        ({"scrutiny": (Outcome.IMPLAUSIBLE, "too fast")}, ("implausible", "too fast"), False),
        ({"later": (1,)}, ("ok", ""), False),
        ({"start": object()}, ("ok", ""), False),
        ({"settled": False}, ("ok", ""), None),
        ({"several_phases": True, "unsettled": True}, ("ok", ""), None),
        ({"several_phases": True}, ("ok", ""), True),
        ({}, ("ok", ""), True),
    ],
    ids=lambda one: "-".join(one) if isinstance(one, dict) else "",
)
def test_only_right_and_settled_answers_to_the_given_graph_are_rated(ended, changes, outcome, rated):
    algorithm = Rated({"share": 0.5})
    done, fields, _ = ended(algorithm, **changes)
    assert (fields["outcome"], fields["reason"]) == outcome
    assert done is (outcome[0] == "ok")
    assert [call[0] for call in algorithm.calls] == {True: ["metrics", "artefacts"], None: ["artefacts"], False: []}[
        rated
    ]
    assert fields.get("metrics") == {True: {"share": 0.5}, None: {}, False: None}[rated]


@pytest.mark.parametrize(
    ("algorithm", "reason"),
    [
        (Rated({"share": "half"}), "algorithm 'rated': metrics()['share'] is 'half' of type str; it must be a number"),
        (Rated(error=ZeroDivisionError("by hand")), "algorithm 'rated': ZeroDivisionError: by hand"),
        (Rated(error=SystemExit(3)), "algorithm 'rated': SystemExit: 3"),
    ],
)
def test_errors_of_metrics_are_the_algorithms(ended, algorithm, reason):
    done, fields, saved = ended(algorithm, save="answer")
    assert (done, fields["outcome"], fields["reason"], saved) == (False, "invalid_input", reason, [])
    assert fields["stage"] == "rate"


def test_memory_errors_pass(ended):
    with pytest.raises(MemoryError):
        ended(Rated(error=MemoryError()))
