"""Claims about supersteps: edges a second, shares of the rate of copies, preparation, times to a metric; by hand."""

from __future__ import annotations

import pytest

from harness.report.layout import LayoutError
from harness.report.ratios import measured
from tests.report.test_ratios import cell, layout

STEPS = [[10, 100, "dense"]] * 4
RATES = {"levels": [(0, 900.0), (50, 200.0)], "on_chip": 0, "adds": None, "wide_adds": None, "launch": None}
FLOOR = {"seconds": 0.1, "largest": "bytes", "terms": {}, "bytes": 1, "adds": 0, "launches": 0, "rates": RATES}
COPIES = {"what": "copies", "edge_bytes": 12, "feature_bytes": 16, "at_least": 0.5}


def found(records, **claim):
    """Return the values, verdict and text of a claim about the column *fast*."""
    [one] = measured(layout({"claim": "x", "of": "fast", **claim}), records)
    return [value.value for value in one.found], one.verdict, one.text


def test_edges_a_second_are_those_of_all_supersteps():
    run = cell("fast", 2.0, supersteps=STEPS)
    values, verdict, text = found([run], what="edges", at_least=190)
    assert (values, verdict) == ([pytest.approx(200)], "yes")
    assert text.startswith("200 edges/s [198 edges/s, 202 edges/s]")
    assert found([run], what="edges", at_least=200)[1] == "cannot tell", "the bound is in the interval"
    assert found([run], what="edges", at_most=150)[1] == "no"
    [one] = measured(layout({"claim": "x", "of": "fast", "what": "edges", "at_least": 120e6}), [run])
    assert one.claim.bound_text == ">= 120 M edges/s"


@pytest.mark.parametrize("claim", [{"what": "edges", "at_most": 150}, COPIES])
def test_a_run_without_recorded_supersteps_has_no_edges_a_second(claim):
    values, verdict, text = found([cell("fast", 2.0, supersteps=[], features=4, floor=FLOOR)], **claim)
    assert not values
    assert verdict == "not measured"
    assert text.endswith("the visited edges are not recorded")


def test_copies_compare_the_bytes_of_edges_with_the_memory_and_not_with_a_cache():
    run = cell("fast", 2.0, supersteps=STEPS, features=4, floor=FLOOR)
    values, verdict, _ = found([run], **COPIES)
    assert (values, verdict) == ([pytest.approx(200 * (12 + 4 * 16) / 200)], "yes")
    assert found([{**run, "floor": None}], **COPIES)[2].endswith("the rate of the device's memory is not recorded")


def test_preparation_is_added_to_both_times():
    records = [cell("fast", 1.0, phases={"transform": 3.0, "compile": 9.0}), cell("slow", 2.0, phases={})]
    claim = {"over": "slow", "at_most": 1}
    values, verdict, _ = found(records, what="prepared", **claim)
    assert (values, verdict) == ([pytest.approx(4.0 / 2.0)], "no")
    assert found(records, **claim, what="speed")[0] == [pytest.approx(2.0)], "speed is the other's time over its own"
    other = cell("other", 0.5, phases={"transform": 0.5})
    assert found([*records, other], what="prepared", over=["slow", "other"], at_most=4.2)[:2] == ([4.0], "yes")


def test_the_sooner_run_reaches_the_worse_of_the_best_values_first():
    curve, slower = {"rmse": [3.0, 2.0, 1.0, 1.5]}, {"rmse": [4.0, 3.0, 2.5, 2.0]}
    records = [
        cell("fast", 2.0, supersteps=STEPS, metrics_by_superstep=curve),
        cell("slow", 4.0, supersteps=STEPS, metrics_by_superstep=slower),
    ]
    values, verdict, _ = found(records, what="sooner", metric="rmse", over="slow", at_most=0.3)
    assert (values, verdict) == ([pytest.approx(2.0 * 2 / 4 / 4.0)], "yes")
    nothing = [{**one, "supersteps": [], "metrics_by_superstep": {"rmse": []}} for one in records]
    assert found(nothing, what="sooner", metric="rmse", over="slow", at_most=1)[2].endswith("after each superstep")
    early = [{**records[0], "metrics_by_superstep": {"rmse": [3.0]}}, records[1]]
    for given, metric in ((early, "rmse"), (records, "mae")):
        told = found(given, what="sooner", metric=metric, over="slow", at_most=1)[2]
        assert told.endswith(f"{metric} is not recorded after each superstep")


def test_few_samples_and_other_work_allow_no_verdict():
    run = cell("fast", 2.0, supersteps=STEPS)
    assert found([{**run, "marks": ["busy"]}], what="edges", at_least=1)[1] == "cannot tell"
    few = {**run, "solve": {**run["solve"], "confidence": 0.5}}
    assert found([few], what="edges", at_least=1)[1] == "cannot tell"
    assert found([{**run, "solve": None}], what="edges", at_least=1)[2].endswith("no time")


@pytest.mark.parametrize(
    ("claim", "message"),
    [
        ({"what": "copies", "edge_bytes": 12, "at_least": 1}, "feature_bytes belongs to what: copies"),
        ({"what": "edges", "edge_bytes": 12, "at_least": 1}, "edge_bytes belongs to what: copies"),
        ({"what": "sooner", "over": "slow", "at_most": 1}, "metric belongs to what: sooner"),
        ({"what": "prepared", "at_most": 1}, "prepared is over another column"),
        ({"what": "edges", "over": "slow", "at_least": 1}, "edges is of one column"),
    ],
)
def test_an_invalid_claim_names_its_key(claim, message):
    with pytest.raises(LayoutError, match=r"layout.ratios\[0\]") as error:
        layout({"claim": "x", "of": "fast", **claim})
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("claim", "value", "low", "high"),
    [
        ({"what": "edges"}, 200, 200 / 1.01, 200 / 0.99),
        (COPIES, 76, 76 / 1.01, 76 / 0.99),
        ({"what": "prepared", "over": "slow"}, 2.5 / 4, (1.98 + 0.5) / 4.04, (2.02 + 0.5) / 3.96),
        ({"what": "sooner", "metric": "rmse", "over": "slow"}, 1 / 4, 0.99 / 4.04, 1.01 / 3.96),
    ],
)
def test_intervals_hold_for_both_ends_of_all_times(claim, value, low, high):
    """Every time is known to 1 %. The first run reaches in its second superstep what the other reaches at its end."""
    curve, slower = {"rmse": [3.0, 2.0, 1.0, 1.5]}, {"rmse": [4.0, 3.0, 2.5, 2.0]}
    given = {"supersteps": STEPS, "features": 4, "floor": FLOOR}
    records = [
        cell("fast", 2.0, phases={"transform": 0.5}, metrics_by_superstep=curve, **given),
        cell("slow", 4.0, phases={}, metrics_by_superstep=slower, **given),
    ]
    [one] = measured(layout({"claim": "x", "of": "fast", "at_least": 1, **claim}), records)
    [only] = one.found
    assert (only.value, only.low, only.high) == pytest.approx((value, low, high))
