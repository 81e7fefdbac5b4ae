"""Which records are compared, and what two times say: ratios, obstacles, groups, notes."""

from __future__ import annotations

import pytest

from harness.records import Mark
from harness.records.statistics import CONFIDENCE, Interval, rounds_interval, trend
from harness.report.comparison import (
    Ratio,
    accuracy_note,
    accurate,
    baseline_of,
    changed_graph_notes,
    changed_graphs,
    confidence_note,
    disturbance_notes,
    disturbed,
    graph_name,
    group_of,
    grouped,
    interval_text,
    obstacle,
    ratio,
    ratio_of,
    sufficient,
)
from harness.report.page.model import page_model
from harness.report.series import comparisons, standings
from tests.records.samples import accurate_record, record, solved

SIX = [[1.0, 1.1, 0.9]] * 6


def rounds(*medians):
    return {**solved(list(medians)), "rounds": [[one] for one in medians]}


def test_independent_samples_have_the_widest_ratio():
    found = ratio_of(solved([1.0, 2.0, 2.0, 2.0, 2.0, 4.0]), solved([6.0, 8.0, 8.0, 8.0, 8.0, 10.0]))
    assert found == Ratio(4.0, 6.0 / 4.0, 10.0 / 1.0, 0.96875**2, True)
    assert (found.disturbed, found.conclusive, found.decided, found.doubt) == (False, True, True, "no difference")
    few = ratio_of(solved([2.0] * 5), solved([8.0] * 7))
    assert (few.sufficient, few.conclusive, few.decided, few.doubt) == (False, False, False, "too few samples")
    assert ratio_of(solved([0.0] * 7), solved([1.0] * 7)) is None
    assert ratio_of(solved([0.0, *[1.0] * 5]), solved([1.0] * 7)) is None


@pytest.mark.parametrize(("confidence", "enough"), [(CONFIDENCE, True), (0.999 * CONFIDENCE, False)])
def test_the_least_confidence_suffices(confidence, enough):
    one = {**solved([1.0] * 7), "confidence": confidence}
    assert sufficient(one) is enough
    assert ratio_of(one, solved([2.0] * 7)).sufficient is enough


def test_failures_on_the_page_name_graph_algorithm_features_and_engine():
    lost = record("fast", None, outcome="out_of_memory", reason="no room", features=None)
    [found] = page_model([record(), lost], None, 2)["failures"]
    assert found["cells"] == ["ring · flood · k = auto · fast"]
    assert (found["outcome"], found["style"], found["reason"]) == ("out of memory", "failed", "no room")
    [refused] = page_model([{**lost, "outcome": "unsupported", "features": 4}], None, 1)["failures"]
    assert (refused["cells"], refused["style"]) == (["ring · flood · k = 4 · fast"], "unsupported")


def test_rounds_are_compared_pair_by_pair():
    mine, theirs = rounds(1.0, 2.0, 1.0, 2.0, 1.0, 2.0), rounds(2.0, 4.4, 2.0, 4.0, 2.2, 4.0)
    found = ratio_of(mine, theirs)
    assert (found.value, found.low, found.high) == pytest.approx((2.0, 2.0, 2.2))
    assert (found.confidence, found.sufficient) == (0.96875, True)
    spread = ratio_of(rounds(*[1.0] * 6), rounds(2.0, 3.0, 3.5, 4.0, 4.5, 6.0))
    assert (spread.value, spread.low, spread.high) == (3.75, 2.0, 6.0)
    unpaired = ratio_of(mine, {**theirs, "rounds": theirs["rounds"][:5]})
    assert unpaired.low == 1.0
    five = ratio_of({**mine, "rounds": mine["rounds"][:5]}, {**theirs, "rounds": theirs["rounds"][:5]})
    assert five.low == 1.0
    short = ratio_of(rounds(1.0, 2.0, 1.0, 2.0, 1.0, 2.0) | {"rounds": [[0.0], *mine["rounds"][1:]]}, theirs)
    assert short.low == 1.0


@pytest.mark.parametrize(
    ("low", "high", "sufficient", "other", "decided", "doubt"),
    [
        (1.1, 2.0, True, False, True, "no difference"),
        (0.5, 0.9, True, False, True, "no difference"),
        (1.0, 2.0, True, False, False, "no difference"),
        (0.5, 1.0, True, False, False, "no difference"),
        (1.1, 2.0, True, True, False, "disturbed"),
        (1.1, 2.0, False, True, False, "too few samples"),
    ],
)
def test_when_a_ratio_is_decided(low, high, sufficient, other, decided, doubt):
    found = Ratio(1.5, low, high, 0.97, sufficient, other)
    assert (found.decided, found.doubt) == (decided, doubt)


SLOW = record("slow", (4.0, 3.9, 4.1))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, ""),
        ({"outcome": "wrong"}, ""),
        ({"settled": False}, "not comparable: did not converge"),
        ({"settled": None}, ""),
        (
            {"graph": {"name": "ring", "vertices": 1, "edges": 1, "content_hash": "x"}},
            "not comparable: another content of the graph",
        ),
    ],
)
def test_why_two_records_are_not_compared(changes, reason):
    fast = record("fast", (1.0, 0.9, 1.1), **changes)
    assert obstacle(fast, SLOW) == reason
    assert obstacle(fast, None) == ""
    assert (ratio(fast, SLOW) is None) == bool(reason or changes.get("outcome"))
    assert ratio(fast, fast) is None
    assert ratio(fast, None) is None


def test_sweeps_and_machines_are_compared_only_when_that_is_forced():
    for changes in ({"sweep": "f" * 12}, {"environment": {"cpu": "another", "cores": 2}}):
        fast = record("fast", (1.0, 0.9, 1.1), **changes)
        assert ratio(fast, SLOW) is None
        assert ratio(fast, SLOW, forced=True).value == 4.0


def test_times_to_equal_accuracy_are_compared_if_both_have_one():
    fast = accurate_record("fast", (1.0, 0.9, 1.1), 3, [0.5] * 7)
    slow = accurate_record("slow", (4.0, 3.9, 4.1), 9, [3.0] * 7)
    assert ratio(fast, slow).value == 6.0
    assert ratio(fast, slow, to_accuracy=False).value == 4.0
    assert ratio(fast, SLOW).value == 4.0
    assert accurate({**fast, "outcome": "wrong"}) is None
    assert accuracy_note([SLOW]) == ""
    assert accuracy_note([SLOW, fast]).startswith("To accuracy: the run to the first superstep")


@pytest.mark.parametrize(
    ("marks", "solve", "met"),
    [
        ([Mark.BUSY], {}, True),
        ([Mark.THROTTLED], {}, True),
        ([Mark.SHARED], {}, True),
        ([Mark.NOISY, Mark.DRIFTING], {}, False),
        ([Mark.BUSY], {"rounds": SIX[:5]}, True),
        ([Mark.BUSY], {"rounds": SIX}, False),
        ([], {}, False),
    ],
)
def test_whether_other_work_disturbed_a_time(marks, solve, met):
    one = record(marks=marks)
    one["solve"] = {**one["solve"], **solve}
    assert disturbed(one) is met
    assert bool(disturbance_notes([one])) is met
    assert disturbance_notes([{**one, "outcome": "wrong"}]) == []


def contents(label, content):
    labels = {"engine": "fast", "algorithm": "flood", "graph": label}
    graph = {"name": label, "vertices": 1, "edges": 1, "content_hash": content} if content else {}
    return record(labels=labels, graph=graph)


def test_graphs_that_changed_are_told_apart():
    one, other, same, unknown = (
        contents("ring", "a" * 40),
        contents("ring", "b" * 40),
        contents("path", "a" * 40),
        contents("ring", None),
    )
    assert changed_graphs([one, other, same, unknown, one]) == {"ring": ["a" * 40, "b" * 40]}
    assert changed_graphs([one, same, unknown]) == {}
    assert graph_name(one, "R", {"ring"}) == "R (contents aaaaaaaa)"
    assert graph_name(same, "P", {"ring"}) == "P"
    assert graph_name(unknown, "R", {"ring"}) == "R"
    assert changed_graph_notes([one, other]) == [
        "graph 'ring' had 2 different contents (aaaaaaaa, bbbbbbbb): it changed between cells; only cells of equal "
        "content are compared"
    ]
    groups = grouped([unknown, one, other])
    assert [(group[0], len(members)) for group, members in groups] == [
        ("ring (contents aaaaaaaa)", 2),
        ("ring (contents bbbbbbbb)", 1),
    ]
    assert groups[0][1] == [unknown, one], "in the order of the records"


def test_groups_are_of_graph_algorithm_features_and_limit():
    limited = record(config={**record()["config"], "max_supersteps": 5})
    assert group_of(record()) == ("ring", "flood", "8", "None")
    assert group_of(limited) == ("ring", "flood", "8", "5")
    assert group_of(record(features=None)) == ("ring", "flood", "auto", "None")
    early = record(features=None, config={**record()["config"], "features": 3})
    assert group_of(early)[2] == "3"
    auto = record("lost", None, features=None)
    assert [len(members) for _, members in grouped([record(), limited, auto])] == [2, 1]
    assert [len(members) for _, members in grouped([record(), early])] == [1, 1]


@pytest.mark.parametrize("order", [1, -1])
def test_a_record_without_features_or_contents_joins_the_group_of_what_it_knows(order):
    """A graph of two contents with two numbers of features; a record that knows neither joins the first group."""
    whole = [contents("ring", content) | {"features": k} for content in ("a" * 40, "b" * 40) for k in (1, 8)]

    def joined(content, k):
        config = {**record()["config"], "features": k}
        lost = {**contents("ring", content), "features": None, "config": config, "outcome": "crashed"}
        [found] = [members for _, members in grouped([*whole[::order], lost]) if any(one is lost for one in members)]
        return [one for one in found if one is not lost]

    for number, content in enumerate(("a" * 40, "b" * 40)):
        assert joined(content, None) == [whole[2 * number : 2 * number + 2][::order][0]]
        assert joined(content, 8) == [whole[2 * number + 1]]
        assert joined(content, 3) == []
    assert joined(None, 8) == [whole[1::2][::order][0]]
    assert joined(None, 3) == []
    assert joined(None, None) == [whole[::order][0]]
    assert joined("c" * 40, None) == []


def test_the_baseline_is_preferably_of_the_default_schedule():
    config = {**record()["config"], "engine": "slow"}
    variant = record("slow", labels={"engine": "slow (width=2)", "algorithm": "flood", "graph": "ring"}, config=config)
    default, lost = record("slow", config=config), record("slow", None, config=config)
    assert baseline_of([variant, default], "slow") is default
    assert baseline_of([variant, lost], "slow") is variant
    assert baseline_of([lost], "slow") is None
    assert baseline_of([default], "fast") is None
    assert baseline_of([default], None) is None


def test_notes_on_confidence():
    both = "Intervals hold the true median with at least {} confidence, those of speed-ups with {}."
    assert confidence_note([record(), record("lost", None)]) == both.format("98.4 %", "96.8 %")
    assert confidence_note([record(outcome="wrong")]) == ""
    paired = record()
    paired["solve"] = rounds(*[1.0] * 6)
    assert confidence_note([paired]) == both.format("96.8 %", "96.8 %")
    few = record(solve=solved([1.0] * 3))
    assert confidence_note([few, record()]).endswith(
        "1 of 2 times have fewer than 6 samples: no interval and no verdict is shown for them (measure.cap_s ended "
        "their measurement, or measure.repetitions is lower)."
    )
    assert interval_text(few["solve"]) == "3 of 6 samples"
    assert interval_text(record()["solve"]) == "[0.9, 1.1]"


def test_intervals_over_rounds():
    assert rounds_interval([[1.0], [2.0], [3.0], [4.0], [5.0], [6.0]]) == Interval(3.5, 1.0, 6.0, 0.96875)
    few = rounds_interval([[1.0, 1.0, 1.0, 1.0], [3.0, 3.0, 3.0, 9.0]])
    assert (few.median, few.low, few.high) == (2.0, 1.0, 9.0)
    assert few.confidence == rounds_interval([[1.0, 1.0, 1.0, 1.0, 3.0, 3.0, 3.0, 9.0]]).confidence


@pytest.mark.parametrize(
    ("samples", "met"),
    [
        ([1.0] * 20, 0.0),
        ([float(n) for n in range(1, 10)], 0.0),
        ([float(n) for n in range(1, 11)], 8.0 / 3.0 - 1),
        ([float(n) for n in range(10, 0, -1)], 3.0 / 8.0 - 1),
        ([1.0, 2.0] * 8, 0.0),
        ([0.0] * 6 + [1.0] * 6, 0.0),
        ([1.0] * 6 + [2.0] * 6, 0.0),
        ([1.0] * 10 + [2.0] * 10, 1.0),
        ([1.0] * 5 + [1.5] + [2.0] * 5, 1.0),
    ],
)
def test_a_steady_change_is_a_trend(samples, met):
    assert trend(samples) == pytest.approx(met)


def test_the_standing_of_an_engine_counts_ties_and_leaves_out_times_without_a_verdict():
    groups = []
    for k, mine in ((1, (2.0, 1.98, 2.02)), (2, (8.0, 7.9, 8.1)), (3, (3.99, 3.8, 4.2)), (4, (1.0, 0.9, 1.1))):
        fast = record("fast", mine, features=k, marks=[Mark.BUSY] if k == 4 else [])
        groups += comparisons([record("slow", (4.0, 3.9, 4.1), features=k), fast], "slow")
    slow, fast = standings(groups)
    assert (slow.engine, slow.ok, slow.cells, slow.fastest, slow.compared, slow.mean) == ("slow", 4, 4, 1, 4, 1.0)
    assert (fast.ok, fast.cells, fast.fastest, fast.compared, fast.undecided) == (4, 4, 1, 3, 1)
    assert fast.mean == pytest.approx((2.0 * 0.5 * (4.0 / 3.99)) ** (1 / 3))
    assert (fast.lowest, fast.highest) == (0.5, 2.0)
