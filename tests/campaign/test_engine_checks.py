"""What engines may return, field by field: the accepted values as plain numbers, and whole messages of refusals."""

from __future__ import annotations

import json
import math
import re
from fractions import Fraction

import numpy as np
import pytest

from harness.campaign.engine_checks import (
    MOST,
    MalformedAnswer,
    checked_count,
    checked_metrics,
    checked_option,
    checked_phases,
    checked_statistics,
    checked_text,
    checked_transfers,
    malformed,
)
from harness.contract import Phases, RunStatistics, Transfers
from harness.supersteps import Choice, Superstep, choices_of

PUSH = Superstep(1, 2, "push")
RUN, STEPS = "run()", "run(): RunStatistics.supersteps"
COUNT = "an integer from 0 to 2**63 - 1"


class Unprintable:
    def __repr__(self):
        raise KeyError


def refused(message):
    return pytest.raises(MalformedAnswer, match=f"^{re.escape(message)}$")


@pytest.mark.parametrize(
    ("met", "shown"),
    [
        (3, "3 of type int"),
        ("x" * 99, f"'{'x' * 59}... of type str"),
        ("x" * 58, f"'{'x' * 58}' of type str"),
        (Unprintable(), "(its __repr__ raised KeyError) of type Unprintable"),
        ("a\x1b[0m", "'a\\x1b[0m' of type str"),
    ],
)
def test_a_message_has_the_field_a_short_value_and_its_type(met, shown):
    assert str(malformed("run()", met, "a bool")) == f"run() is {shown}; it must be a bool"


@pytest.mark.parametrize(
    ("statistics", "message"),
    [
        (None, f"{RUN} is None of type NoneType; it must be a RunStatistics"),
        ((True, [PUSH]), f"{RUN} is {str((True, [PUSH]))[:60]}... of type tuple; it must be a RunStatistics"),
        (RunStatistics(1, [PUSH]), "run(): RunStatistics.settled is 1 of type int; it must be a bool"),
        (RunStatistics(True, 3), f"{STEPS} is 3 of type int; it must be a list of Superstep"),
        (
            RunStatistics(True, [PUSH] * 3),
            f"{STEPS} has 3 supersteps; it must have at most the 2 that run() was called with",
        ),
        (RunStatistics(True, [PUSH, 5]), f"{STEPS}[1] is 5 of type int; it must be a Superstep"),
        (
            RunStatistics(True, [Superstep(1, 2, "sideways")]),
            f"{STEPS}[0].direction is 'sideways' of type str; it must be one of push, pull, dense, untracked",
        ),
        (
            RunStatistics(True, [Superstep(1, 2, None)]),
            f"{STEPS}[0].direction is None of type NoneType; it must be one of push, pull, dense, untracked",
        ),
        (
            RunStatistics(True, [Superstep(1.0, 2, "push")]),
            f"{STEPS}[0].active is 1.0 of type float; it must be {COUNT}",
        ),
        (RunStatistics(True, [Superstep(1, -2, "push")]), f"{STEPS}[0].edges is -2 of type int; it must be {COUNT}"),
        (
            RunStatistics(True, [PUSH], 5),
            "run(): RunStatistics.transfers is 5 of type int; it must be a Transfers, or None",
        ),
    ],
)
def test_statistics_that_are_not_of_the_contract(statistics, message):
    with refused(message):
        checked_statistics(statistics, 2)


def test_numbers_of_numpy_become_plain():
    steps = (
        Superstep(np.uint32(7), np.int64(9), "pull", Choice(np.int64(3), "few", np.float32(0.5), "given", 1, None)),
    )
    found = checked_statistics(RunStatistics(np.bool_(True), steps), 2)
    assert found == RunStatistics(True, [Superstep(7, 9, "pull")])
    assert found.supersteps[0].choice == Choice(3, "few", 0.5, "given", 1.0, None)
    assert json.dumps([[step.active, step.edges, step.choice.plain()] for step in found.supersteps]) == (
        '[[7, 9, [3, "few", 0.5, "given", 1.0, null]]]'
    )
    assert type(found.settled) is bool
    assert choices_of(found.supersteps) == [[3, "few", 0.5, "given", 1.0, None]]
    assert choices_of([*found.supersteps, PUSH]) == [], "not every direction was chosen"


CHOICE = {"edges": 3, "reason": "many", "share": 0.5, "by": "fitted", "push_s": 1.0, "pull_s": 0.5}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"reason": "often"}, "reason is 'often' of type str; it must be one of start, few, many, rebuild, confirm"),
        ({"reason": None}, "reason is None of type NoneType; it must be one of start, few, many, rebuild, confirm"),
        ({"by": "guess"}, "by is 'guess' of type str; it must be one of given, fitted, estimated"),
        ({"share": 1.5}, "share is 1.5 of type float; it must be a share from 0 to 1"),
        ({"share": -0.1}, "share is -0.1 of type float; it must be a share from 0 to 1"),
        ({"edges": None}, f"edges is None of type NoneType; it must be {COUNT}"),
        ({"push_s": math.inf}, "push_s is inf of type float; it must be a finite number of seconds, or None"),
        ({"pull_s": "1"}, "pull_s is '1' of type str; it must be a finite number of seconds, or None"),
    ],
)
def test_a_choice_of_a_direction(changes, message):
    steps = [PUSH, Superstep(1, 2, "pull", Choice(**CHOICE | changes))]
    with refused(f"{STEPS}[1].choice.{message}"):
        checked_statistics(RunStatistics(True, steps), 2)
    whole = [Superstep(1, 2, "pull", Choice(**CHOICE))]
    assert checked_statistics(RunStatistics(True, whole), 2).supersteps[0].choice == Choice(**CHOICE)
    with refused(f"{STEPS}[0].choice is 'few' of type str; it must be a Choice, or None"):
        checked_statistics(RunStatistics(True, [Superstep(1, 2, "pull", "few")]), 2)


TRANSFERS = {
    "visited": 8, "moved": {"read": 16}, "requests": {32: 1}, "subgraphs": {"low": 2}, "seconds": {"flags": 0.25},
    "data": {"useful": (1, 2)},
}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"visited": -1}, f"visited is -1 of type int; it must be {COUNT}"),
        ({"moved": [16]}, "moved is [16] of type list; it must be a mapping of str to numbers"),
        ({"moved": {1: 16}}, "moved is {1: 16} of type dict; it must be a mapping of str to numbers"),
        ({"moved": {"read": True}}, f"moved['read'] is True of type bool; it must be {COUNT}"),
        ({"requests": {"32": 1}}, "requests is {'32': 1} of type dict; it must be a mapping of int to numbers"),
        ({"requests": {32: 1.0}}, f"requests[32] is 1.0 of type float; it must be {COUNT}"),
        ({"subgraphs": {"low": None}}, f"subgraphs['low'] is None of type NoneType; it must be {COUNT}"),
        ({"seconds": 1.0}, "seconds is 1.0 of type float; it must be a mapping of str to seconds"),
        ({"seconds": {1: 1.0}}, "seconds is {1: 1.0} of type dict; it must be a mapping of str to seconds"),
        ({"seconds": {"a": math.nan}}, "seconds['a'] is nan of type float; it must be a finite number"),
        ({"data": [1]}, "data is [1] of type list; it must be a mapping of str to lists of numbers"),
        ({"data": {1: [1]}}, "data is {1: [1]} of type dict; it must be a mapping of str to lists of numbers"),
        ({"data": {"a": 1}}, "data['a'] is 1 of type int; it must be a list of numbers"),
        ({"data": {"a": [1, "2"]}}, f"data['a'] is '2' of type str; it must be {COUNT}"),
    ],
)
def test_transfers_field_by_field(changes, message):
    with refused(f"run(): RunStatistics.transfers.{message}"):
        checked_transfers(Transfers(**TRANSFERS | changes))


def test_right_transfers_are_plain():
    given = Transfers(**TRANSFERS | {"visited": np.int64(8), "seconds": {"flags": np.float32(0.25)}})
    found = checked_transfers(given)
    assert found == Transfers(**TRANSFERS | {"data": {"useful": [1, 2]}})
    assert found.seconds == {"flags": 0.25}
    assert type(found.visited) is int
    assert checked_transfers(None) is None


@pytest.mark.parametrize(
    ("seconds", "message"),
    [
        ([1.0], "Phases.seconds is [1.0] of type list; it must be a dict"),
        (
            {"sort": -0.1},
            "Phases.seconds['sort'] is -0.1 of type float; it must be a finite number of seconds, 0 or more",
        ),
        (
            {"sort": math.inf},
            "Phases.seconds['sort'] is inf of type float; it must be a finite number of seconds, 0 or more",
        ),
        (
            {"sort": 10**400},
            "Phases.seconds['sort'] is 1" + "0" * 59 + "... of type int; it must be a finite number of "
            "seconds, 0 or more",
        ),
    ],
)
def test_phases_that_are_no_times(seconds, message):
    phases = Phases()
    phases.seconds = seconds
    with refused(f"prepare(): {message}"):
        checked_phases(phases)


@pytest.mark.parametrize("name", ["validate", "open", "warm_up", "accuracy", "a\nb", 3])
def test_names_of_phases_are_the_engines_own(name):
    phases = Phases()
    phases.seconds = {"upload": 0, name: 1.0}
    with pytest.raises(
        MalformedAnswer,
        match=r"prepare\(\): the name of a phase is .*other than the harness's own phases \(accuracy, check",
    ):
        checked_phases(phases)
    phases.seconds = {"upload": 0, "sort": np.float32(0.5)}
    assert checked_phases(phases) == {"upload": 0.0, "sort": 0.5}


@pytest.mark.parametrize(
    ("metrics", "message"),
    [
        (None, "metrics() is None of type NoneType; it must be a mapping of names to numbers"),
        ({1: 2.0}, "metrics(): a name is 1 of type int; it must be printable text"),
        ({"a\n": 2.0}, "metrics(): a name is 'a\\n' of type str; it must be printable text"),
        ({"a": "2"}, "metrics()['a'] is '2' of type str; it must be a number"),
        ({"a": True}, "metrics()['a'] is True of type bool; it must be a number"),
        ({"a": Fraction(1, 2)}, "metrics()['a'] is Fraction(1, 2) of type Fraction; it must be a number"),
    ],
)
def test_metrics_are_numbers_by_name(metrics, message):
    with refused(message):
        checked_metrics(metrics)
    assert checked_metrics({"a": np.float32(0.5), "b": 3}) == {"a": 0.5, "b": 3.0}
    assert math.isnan(checked_metrics({"a": math.nan})["a"]), "a metric may not exist for an answer"


@pytest.mark.parametrize("value", [-1, MOST + 1, True, np.bool_(True), 1.0, "1", None])
def test_a_count_fits_into_64_bits(value):
    assert [checked_count("n", one) for one in (0, MOST, np.uint8(7))] == [0, MOST, 7]
    with refused(str(malformed("n", value, COUNT))):
        checked_count("n", value)


def test_resolved_options_are_those_of_the_schedule():
    assert checked_option("width", (1, 2), ["width"]) == [1, 2]
    assert checked_option("width", False, ["width"]) is False
    with refused("resolved_options(): a name is 'depth' of type str; it must be an option of the schedule: width, way"):
        checked_option("depth", 1, ["width", "way"])
    with refused("resolved_options(): a name is 'depth' of type str; it must be an option of the schedule: none"):
        checked_option("depth", 1, [])
    for value in (None, math.nan, {1, 2}):
        with refused(str(malformed("resolved_options()['width']", value, "data that JSON holds, not None"))):
            checked_option("width", value, ["width"])


def test_text_is_printable_and_not_empty():
    assert checked_text("explain()", "a\x1bb") == "a\N{REPLACEMENT CHARACTER}b"
    for value in ("", None, b"a"):
        with refused(str(malformed("explain()", value, "text, not empty"))):
            checked_text("explain()", value)
