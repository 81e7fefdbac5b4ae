"""Series derived from records: the fastest engine, activity, phases, edges per second."""

from __future__ import annotations

import itertools

import pytest

from harness.records.timing_caveat import DISTURBING
from harness.report.series import (
    active_vertices,
    comparisons,
    edges_per_second,
    feature_panels,
    phase_names,
    phase_seconds,
    standings,
)
from tests.records.samples import accurate_record, record, solved
from tests.report.sweeps import cell, failed


def fastest(*records):
    [group] = comparisons(records, None)
    found = group.fastest()
    return found and found["labels"]["engine"]


def test_the_fastest_is_that_to_equal_accuracy_if_every_engine_has_such_a_time():
    long = accurate_record("long", (4.0, 3.9, 4.1), 1, [1.0] * 7)
    short = accurate_record("short", (2.0, 1.9, 2.1), 9, [1.9] * 7)
    assert fastest(long, short) == "long"
    assert fastest(long, record("without", (2.5, 2.4, 2.6))) == "without"  # complete runs are compared
    assert fastest(long, record("without", (3.9, 3.8, 4.0))) is None


def test_one_time_has_no_fastest_engine_and_failures_do_not_count():
    alone, crash = cell("alone", "ring", "flood", 1, 1.0), failed("dead", "ring", "flood", 1, "crashed", "it died")
    wrong = cell("wrong", "ring", "flood", 1, 0.1, outcome="wrong")
    assert fastest(alone, crash, wrong) is None
    assert fastest(cell("slow", "ring", "flood", 1, 4.0), crash, wrong, alone) == "alone"


@pytest.mark.parametrize("number", [2, 3, 5])
@pytest.mark.parametrize("doubt", ["overlapping", "few samples", "disturbed", "another answer"])
def test_the_fastest_is_decided_against_every_other_engine_whichever_is_in_doubt(doubt, number):
    """Each of the slower engines in turn; the third and later ones, too."""
    clear = [cell(f"engine {place}", "ring", "flood", 1, 2.0**place) for place in range(number)]
    assert fastest(*clear) == "engine 0"
    for place in range(1, number):
        seconds = 2.0**place
        times = [seconds / 2**number if doubt == "overlapping" else 0.95 * seconds, *[seconds] * 5, 1.05 * seconds]
        changed = {
            "overlapping": {"solve": solved(times)},
            "few samples": {"solve": solved([seconds] * 3)},
            "disturbed": {"marks": [sorted(DISTURBING)[0]]},
            "another answer": {"settled": False},
        }[doubt]
        records = [*clear]
        records[place] = cell(f"engine {place}", "ring", "flood", 1, seconds, **changed)
        for order in (records, records[::-1]):
            assert fastest(*order) is None, f"engine {place} is in doubt"
            assert not any(one.fastest for one in standings(comparisons(order, None)))


def test_comparisons_are_sorted_by_their_number_of_features_within_their_block():
    pairs = [("flood", 8), ("drain", 2), ("flood", 128), ("drain", 1), ("flood", 16)]
    records = [cell("slow", "ring", algorithm, k, 1.0) for algorithm, k in pairs]
    found = [(group.algorithm, group.features) for group in comparisons(records, None)]
    assert found == [("flood", k) for k in ("8", "16", "128")] + [("drain", "1"), ("drain", "2")]


@pytest.mark.parametrize("most", [2, 3, 7, 12, 30])
def test_activity_is_thinned_evenly_from_the_first_superstep_to_the_last(most):
    steps = [[1000 - n, 50 * n, "push"] for n in range(30)]
    run = record(supersteps=steps)
    whole = active_vertices(run)
    assert whole == [(n + 1, 1000 - n) for n in range(30)]
    found = active_vertices(run, most)
    assert (len(found), found[0], found[-1]) == (most, whole[0], whole[-1])
    assert set(found) <= set(whole)
    gaps = [later - earlier for (earlier, _), (later, _) in itertools.pairwise(found)]
    assert max(gaps) - min(gaps) <= 1
    assert active_vertices(run, 31) == whole


def test_the_rate_is_of_edges_and_of_right_answers():
    assert edges_per_second(record(times=(2.0, 1.9, 2.1))) == 10_050.0
    assert edges_per_second(record(times=(2.0, 1.9, 2.1), outcome="wrong")) is None
    assert edges_per_second(record(times=None)) is None
    assert edges_per_second(record(supersteps=[])) is None


def test_phases_are_in_the_order_of_a_run_with_those_of_the_engine_between():
    phases = {"validate": 0.3, "sort": 0.5, "compile": 0.8, "open": 0.1, "warm_up": 1.0, "bin": 0.2}
    run = record(times=(2.0, 1.9, 2.1), phases=phases)
    names = ["open", "compile", "sort", "bin", "warm_up", "solve", "validate"]
    assert phase_seconds(run) == [(name, {**phases, "solve": 2.0}[name]) for name in names]
    assert phase_names([record(times=None, phases={"upload": 1.0}), run])[:3] == ["open", "compile", "upload"]


def test_known_phases_stand_in_the_order_of_a_run_and_others_before_the_wait():
    """Whatever order they were recorded in."""
    order = ["open", "trace", "inputs", "support", "transform", "lower", "compile", "context", "upload"]
    after = ["wait", "warm_up", "solve", "accuracy", "download", "validate"]
    phases = {name: 1.0 for name in sorted(["zeta", *order, *after]) if name != "solve"}
    assert phase_names([record(phases=phases)]) == [*order, "zeta", *after]


def test_lines_over_features_need_two_numbers_of_them():
    records = [cell("slow", "ring", "flood", k, float(k)) for k in (8, 1)]
    records += [cell("slow", "path", "flood", 1, 1.0), cell("fast", "ring", "flood", 1, 0.5, outcome="wrong")]
    [panel] = feature_panels(comparisons(records, None))
    assert panel.block[1:3] == ("ring", "flood")
    assert [line.engine for line in panel.lines] == ["slow"]
    assert panel.lines[0].points == ((1, 1.0, 0.95, 1.05), (8, 8.0, pytest.approx(7.6), 8.4))
