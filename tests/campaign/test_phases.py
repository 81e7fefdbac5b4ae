"""Cells with a program of several phases: each is run, checked and timed, and the record combines them."""

from __future__ import annotations

import numpy as np
import pytest

from harness.campaign.cell import Warm
from harness.campaign.child_report import ChildReport
from harness.campaign.least_work import WORK
from harness.campaign.phase_report import PhaseReport, combined
from harness.campaign.solve_window import FIELD as SOLVE_WINDOW
from harness.contract import Yes
from harness.records.outcome import Outcome
from tests.campaign.one_cell import record_of  # noqa: F401  a fixture
from tests.campaign.test_guarded_engine import Right

OF_PHASES = {"algorithm": "fake_phases", "parameters": {}, "validate": True}


class Steady(Right):
    """Right, with a schedule that depends on the phase."""

    def prepare(self, program, graph, features, device, phases):
        super().prepare(program, graph, features, device, phases)
        self.phase = len(program.phases)

    def resolved_options(self):
        return {"direction": ["pull", "push"][self.phase - 1], "width": 1}


def test_the_record_combines_the_phases(record_of):  # noqa: F811
    record = record_of(Steady, save="arrays", **OF_PHASES)
    assert record["outcome"] == "ok", record["reason"]
    assert record["schedule"] == {"direction": ["pull", "push"], "width": 1}
    steps = len(record["supersteps"])
    assert record["settled"] is True
    assert steps > 2 + 2  # the levels of a ring, and two sums
    assert record["program"]["max_supersteps"] == 50 + 2
    assert record["program"]["bound"] == pytest.approx(1e-5)
    assert record["validation"]["against"].startswith("phase 1: the float64 reference; phase 2: the float64 reference")
    assert record["accuracy"] is None
    assert len(record["solve"]["samples"]) == 2
    assert record["metrics"]["farthest"] == 11.0  # a ring of 12 vertices
    assert record["metrics"]["most"] > 11.0
    assert {"answer.npz", "explain.txt", "explain-2.txt"} <= set(record["artefacts"])


def test_a_requested_limit_is_that_of_each_phase(record_of):  # noqa: F811
    record = record_of(Right, max_supersteps=3, **OF_PHASES)
    assert (record["outcome"], len(record["supersteps"]), record["settled"]) == ("ok", 3 + 2, False)
    assert record["program"]["max_supersteps"] == 3 + 2


class WrongAt(Right):
    """Wrong in one phase."""

    phase = 1

    def prepare(self, program, graph, features, device, phases):
        super().prepare(program, graph, features, device, phases)
        self.wrong = len(program.phases) == self.phase

    def values(self, name):
        return super().values(name) * (1.5 if self.wrong else 1.0)


class WrongSecond(WrongAt):
    phase = 2


@pytest.mark.parametrize(("engine", "number"), [(WrongAt, 1), (WrongSecond, 2)])
def test_a_wrong_phase_is_wrong(record_of, engine, number):  # noqa: F811
    record = record_of(engine, **OF_PHASES)
    assert record["outcome"] == "wrong"
    assert record["reason"].startswith(f"phase {number}: ")
    assert record["solve"] is None  # no time of a part
    assert record["validation"]["ok"] is False
    assert len(record["supersteps"]) >= 2
    assert record["bytes_needed"] == 1000


class Remembering(Right):
    """Starts the second phase from the levels of the wrong vertices."""

    def reset(self, inputs, state=None):
        if "level" in inputs.properties:
            inputs = type(inputs)({"level": np.roll(inputs.properties["level"], 1, axis=0)}, inputs.parameters)
        super().reset(inputs, state)


def test_a_phase_that_starts_from_other_values_is_wrong(record_of):  # noqa: F811
    assert record_of(Remembering, **OF_PHASES)["reason"].startswith("phase 2: ")


class RefusesSecond(Right):
    def supports(self, program, graph, features, device):
        from harness.contract import No

        return No("no second phases") if program.earlier else Yes(1000)


@pytest.mark.parametrize(("limit", "rated"), [(None, True), (3, False)])
def test_a_rating_of_a_settled_run_needs_every_phase_that_can_settle(record_of, monkeypatch, limit, rated):  # noqa: F811
    from onyx_fakes_problem import Phases

    monkeypatch.setattr(Phases, "rated_when_settled", True)
    record = record_of(Right, max_supersteps=limit, **OF_PHASES)
    assert (record["settled"], bool(record["metrics"])) == (rated, rated)


def test_a_refusal_names_the_phase(record_of):  # noqa: F811
    record = record_of(RefusesSecond, **OF_PHASES)
    assert (record["outcome"], record["reason"]) == ("unsupported", "phase 2: no second phases")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"warm": Warm(0.1, "delete", 0)}, "warm runs need a program of one phase"),
        ({"memory": "model"}, "memory transactions are counted for programs of one phase"),
    ],
)
def test_what_exists_for_one_phase_only_is_refused(record_of, changes, words):  # noqa: F811
    record = record_of(Right, **{**OF_PHASES, **changes})
    assert (record["outcome"], record["reason"]) == ("invalid_input", f"fake_phases has several phases: {words}")


def test_phases_are_sampled(record_of):  # noqa: F811
    record = record_of(Right, **{**OF_PHASES, "validate": "sampled"})
    assert record["outcome"] == "ok", record["reason"]
    assert record["validation"]["against"].count("in float64 at") == 2


def test_a_time_is_the_sum_of_one_run_of_each_phase():
    solves = [
        {"samples": samples, "stopped": stopped}
        for samples, stopped in (([1.0, 2.0, 3.0], "precise"), ([10.0, 20.0], "count"))
    ]
    transfers = [
        {"visited_bytes": 8, "moved_bytes": {"read": 16}, "requests": {"32": 2}, "subgraphs": {"high": 0},
         "seconds": {"values": 0.5}, "data": {"useful": [3, 5]}},
        {"visited_bytes": 8, "moved_bytes": {"read": 8, "copied": 8}, "requests": {"32": 1, "64": 1}, "subgraphs": {},
         "seconds": {"values": 0.25, "queue": 1.0}, "data": {"useful": [8]}},
    ]  # fmt: skip
    found = combined([
        {"solve": solves[0], "settled": True, "marks": ["busy"], "transfers": transfers[0], "lost_updates": None},
        {"solve": solves[1], "settled": None, "marks": ["noisy", "busy"], "transfers": transfers[1]},
    ])  # fmt: skip
    assert (found["solve"]["samples"], found["solve"]["median"]) == ([11.0, 22.0], 16.5)
    assert (found["settled"], found["marks"]) == (True, ["busy", "noisy"])
    assert found["transfers"] == {
        "visited_bytes": 16, "moved_bytes": {"read": 24, "copied": 8}, "amplification": 2.0,
        "requests": {"32": 3, "64": 1},
        "subgraphs": {"high": 0}, "seconds": {"values": 0.75, "queue": 1.0}, "data": {"useful": [3, 5, 8]},
    }  # fmt: skip
    assert "lost_updates" not in found


VALIDATIONS = [
    {"ok": True, "error": error, "bound": bound, "detail": str(number), "against": f"method {number}"}
    for number, (error, bound) in enumerate([(0.5, 1.0), (0.3, 0.4), (0.0, 0.0)])
]
WORKS = [
    {"bytes": [8, 9], "adds": 3, "wide": True, "launches": 2}, {"bytes": [7], "adds": 0, "wide": False, "launches": 1},
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "of_phases", "of_cell"),
    [
        ("supersteps", [[[1, 2, "push"]], [[3, 4, "pull"]]], [[1, 2, "push"], [3, 4, "pull"]]),
        ("supersteps", [[], [[3, 4, "pull"]]], []),  # of a phase that counts none
        ("choices", [[[1, "few", 0.5, "given", None, None]], []], [[1, "few", 0.5, "given", None, None]]),
        ("settled", [False, True], False),
        ("settled", [True, None, False], False),
        ("marks", [["busy"], [], ["noisy", "busy"]], ["busy", "noisy"]),
        ("validation", VALIDATIONS, {
            **VALIDATIONS[1], "against": "phase 1: method 0; phase 2: method 1; phase 3: method 2",
        }),
        ("schedule", [{"a": 1, "b": 2}, {"a": 1, "b": 3, "c": 4}], {"a": 1, "b": [2, 3], "c": 4}),
        ("resolution", [{"reason": "first"}, {"reason": "second"}], {"reason": "second"}),
        ("bytes_needed", [900, 100], 900),
        ("host_bytes", [900, None, 100], 900),
        ("lost_updates", [0.5, 0.25], 0.5),
        ("metrics_by_superstep", [{"rmse": [2.0]}, {"rmse": [1.0]}], {"rmse": [1.0]}),
        ("others", [2, 1], 2),
        ("gpu", [{"clock": 1}, {"clock": 2}], {"clock": 2}),
        (WORK, WORKS, {"bytes": [8, 9, 7], "adds": 3, "wide": True, "launches": 3}),
        (SOLVE_WINDOW, [1.5, 2.0], 3.5),
    ],
)  # fmt: skip
def test_every_field_of_the_phases_is_combined_in_its_way(name, of_phases, of_cell):
    assert combined([{name: value} for value in of_phases]) == {name: of_cell}


@pytest.mark.parametrize(
    ("reasons", "stopped"), [(["count", "count"], "count"), (["precise", "precise"], "precise"),
                             (["precise", "count"], "budget"), (["budget", "precise"], "budget")],
)  # fmt: skip
def test_phases_that_stopped_for_several_reasons_stopped_for_the_budget(reasons, stopped):
    solves = [{"solve": {"samples": [3.0, 1.0, 2.0], "stopped": reason}} for reason in reasons]
    solve = combined(solves)["solve"]
    assert (solve["samples"], solve["minimum"], solve["stopped"]) == ([6.0, 2.0, 4.0], 2.0, stopped)


class Kept(ChildReport):
    """Keep the reported fields."""

    def __init__(self):
        self.fields, self.ended = {}, []

    def tell(self, **fields):
        self.fields |= fields

    def end(self, outcome, reason=""):
        self.ended.append((outcome, reason))


@pytest.mark.parametrize("fields", [{"validation": VALIDATIONS[0]}, {}])
def test_a_phase_that_is_not_ok_leaves_its_own_validation_and_no_time(fields):
    kept = Kept()
    report = PhaseReport(kept, 2)
    report.tell(
        solve={"samples": [1.0], "stopped": "count"}, validation=VALIDATIONS[1], identity="whole", bytes_needed=5
    )
    report.end(Outcome.OK)
    assert (kept.fields, kept.ended) == ({"identity": "whole"}, [])
    report.next_phase()
    report.tell(
        identity="of a part", bytes_needed=3, phases={"solve": 1.0}, **{SOLVE_WINDOW: 1.0, WORK: WORKS[0]}, **fields
    )
    report.end(Outcome.WRONG, "off by 3")
    assert kept.ended == [(Outcome.WRONG, "phase 2: off by 3")]
    assert kept.fields == {
        "identity": "whole", "phases": {"solve": 1.0}, "bytes_needed": 5, "validation": fields.get("validation"),
    }  # fmt: skip


def test_the_last_phase_ends_the_cell():
    kept = Kept()
    report = PhaseReport(kept, 2)
    for seconds in (1.0, 2.0):
        report.tell(solve={"samples": [seconds], "stopped": "count"}, settled=True)
        report.end(Outcome.OK)
        report.next_phase()
    assert kept.ended == [(Outcome.OK, "")]
    assert (kept.fields["solve"]["samples"], kept.fields["settled"]) == ([3.0], True)
