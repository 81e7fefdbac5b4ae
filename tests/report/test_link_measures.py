"""Claims about the link to the host: rates, overlap, counted bytes, parts of the time, and cached shares, by hand."""

from __future__ import annotations

import pytest

from harness.report.ratios import measured
from tests.report.test_ratios import FASTER, cell, layout, moved

LINK = {"copy": 200.0, "in_place": {}, "read": None, "run_bytes": 160}


def found(records, **claim):
    """Return the values, verdict and text of a claim about the column *fast*."""
    [one] = measured(layout({"claim": "x", "of": "fast", **claim}), records)
    return [value.value for value in one.found], one.verdict, one.text


def test_a_rate_is_that_of_the_useful_bytes_over_the_rate_of_copies():
    run = cell("fast", 1.0, transfers=moved(150, visited=160), link=LINK)
    values, verdict, _ = found([run], what="rate", at_least=0.7)
    assert (values, verdict) == ([pytest.approx(150 / 200)], "yes")
    wasteful = {**run, "transfers": moved(150, visited=120)}
    assert found([wasteful], what="rate", at_least=0.7)[0] == [pytest.approx(120 / 200)]
    assert found([run], what="rate", at_least=0.75)[1] == "cannot tell", "the bound is in the interval"
    uncounted = {**moved(0, visited=100), "moved_bytes": {}}
    assert found([{**run, "transfers": uncounted}], what="rate", at_least=0.7)[0] == [pytest.approx(0.5)]
    from_a_file = {**LINK, "copy": None, "read": 300.0}
    assert found([{**run, "link": from_a_file}], what="rate", at_least=0.7)[0] == [pytest.approx(0.5)]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"link": None}, "the rate of the link is not recorded"),
        ({"link": {**LINK, "copy": None}}, "the rate of the link is not recorded"),
        ({"transfers": None}, "bytes are not counted"),
    ],
)
def test_a_rate_that_cannot_be_computed_says_why(changes, reason):
    run = cell("fast", 1.0, **{"transfers": moved(150), "link": LINK, **changes})
    assert found([run], what="rate", at_least=0.7) == ([], "not measured", f"flood, ring: {reason}")


@pytest.mark.parametrize(("kernels", "wanted"), [(0.5, 1.0 / 0.75), (0.9, 1.0 / 0.9)])
def test_a_run_is_compared_with_the_longer_of_copies_and_kernels(kernels, wanted):
    records = [cell("fast", 1.0, transfers=moved(150), link=LINK), cell("slow", kernels)]
    values, verdict, _ = found(records, what="overlap", over="slow", at_most=1.08)
    assert (values, verdict) == ([pytest.approx(wanted)], "no")
    assert found(records, what="overlap", over="slow", at_most=1.5)[1] == "yes"


@pytest.mark.parametrize(
    ("requests", "counted"),
    [({"32": 2, "128": 3}, 2 * 52 + 3 * 148), ({"64": 7}, 7 * 84), ({}, 448 + 35)],
)
def test_modelled_bytes_and_headers_are_compared_with_the_bytes_of_the_link(requests, counted):
    """Every request is a packet with 20 bytes besides its payload; copies have a packet for every 256 bytes."""
    transfers = {**moved(448), "requests": requests}
    run = cell("fast", 1.0, transfers=transfers, link={**LINK, "run_bytes": 2 * counted})
    for bound in ({"at_least": 0.5}, {"at_most": 0.5}):
        assert found([run], what="counted", **bound)[:2] == ([0.5], "yes")
    unknown = {**run, "link": {**LINK, "run_bytes": None}}
    assert "the GPU does not count the bytes of its link" in found([unknown], what="counted", at_least=0.95)[2]


def test_parts_of_the_time_are_summed():
    run = cell("fast", 2.0, transfers={**moved(150), "seconds": {"values": 0.01, "queue": 0.02, "flags": 0.3}})
    values, verdict, _ = found([run], what="parts", parts=["values", "queue"], at_most=0.02)
    assert (values, verdict) == ([pytest.approx(0.015)], "yes")
    assert "no part of the time: packing" in found([run], what="parts", parts=["packing"], at_most=1)[2]


def test_a_cache_saves_its_share_of_the_time():
    """10,000 of 20,000 edges of 4 bytes are cached: the time may be 0.55 of that of the other run."""
    steps = [[1, 25, "push"]]
    run = cell("fast", 1.0, transfers=moved(0, visited=100), schedule={"cache_mb": 0.04}, supersteps=steps)
    values, verdict, _ = found([run, cell("slow", 2.0)], what="cached", over="slow", at_most=1)
    assert (values, verdict) == ([pytest.approx(0.5 / 0.55)], "yes")
    assert found([run, cell("slow", 1.5)], what="cached", over="slow", at_most=1)[1] == "no"
    unvisited = {**moved(0), "visited_bytes": 0}
    graph = {**run["graph"], "edges": 0}
    for change in ({"schedule": {}}, {"transfers": unvisited}, {"supersteps": []}, {"graph": graph}):
        text = found([{**run, **change}, cell("slow", 2.0)], what="cached", over="slow", at_most=1)[2]
        assert "the cached share of the edges is not known" in text


@pytest.mark.parametrize("order", [("slow", "other"), ("other", "slow")])
def test_the_fastest_of_several_runs_is_compared(order):
    steps, records = [[1, 25, "push"]], [cell("slow", 3.0), cell("other", 2.0)]
    run = cell("fast", 4.0, transfers=moved(150), link=LINK, supersteps=steps, schedule={"cache_mb": 0.04})
    assert found([run, *records], what="overlap", over=list(order), at_most=3)[0] == [pytest.approx(2.0)]
    of_cache = {**run, "transfers": moved(0, visited=100)}
    wanted = [pytest.approx(4.0 / 2.0 / 0.55)]
    assert found([of_cache, *records], what="cached", over=list(order), at_most=3)[0] == wanted


@pytest.mark.parametrize("what", ["overlap", "cached"])
@pytest.mark.parametrize("disturbed", ["fast", "slow"])
def test_times_beside_other_work_allow_no_verdict(what, disturbed):
    transfers, steps = moved(150, visited=100), [[1, 25, "push"]]
    given = {"transfers": transfers, "link": LINK, "supersteps": steps, "schedule": {"cache_mb": 0.04}}
    records = [cell("fast", 1.0, **given), cell("slow", 2.0)]
    assert found(records, what=what, over="slow", at_most=3)[1] == "yes"
    marked = [{**one, "marks": ["busy"]} if one["labels"]["engine"] == disturbed else one for one in records]
    assert found(marked, what=what, over="slow", at_most=3)[1] == "cannot tell"


@pytest.mark.parametrize(
    ("claim", "low", "high"),
    [
        ({"what": "rate"}, 0.5 / 1.01, 0.5 / 0.99),
        ({"what": "parts", "parts": ["queue"]}, 0.25 / 1.01, 0.25 / 0.99),
        ({"what": "overlap", "over": "slow"}, 0.5 * 0.99 / 1.01, 0.5 * 1.01 / 0.99),
        ({"what": "cached", "over": "slow"}, 0.5 * 0.99 / 1.01 / 0.55, 0.5 * 1.01 / 0.99 / 0.55),
    ],
)
def test_intervals_hold_for_both_ends_of_all_times(claim, low, high):
    """Every time is known to 1 %; a run of one second is compared with one of two."""
    transfers = {**moved(100, visited=100), "seconds": {"queue": 0.25}}
    run = cell("fast", 1.0, transfers=transfers, link=LINK, supersteps=[[1, 25, "push"]], schedule={"cache_mb": 0.04})
    [one] = measured(layout({"claim": "x", "of": "fast", "at_least": 1, **claim}), [run, cell("slow", 2.0)])
    assert (one.found[0].low, one.found[0].high) == pytest.approx((low, high))


def test_copies_that_take_longer_than_kernels_have_no_interval_of_their_own():
    records = [cell("fast", 1.0, transfers=moved(150), link=LINK), cell("slow", 0.5)]
    [one] = measured(layout({"claim": "x", "of": "fast", "what": "overlap", "over": "slow", "at_most": 2}), records)
    assert (one.found[0].low, one.found[0].high) == pytest.approx((0.99 / 0.75, 1.01 / 0.75))


def test_a_cache_of_more_than_all_edges_leaves_the_slack():
    steps = [[1, 25, "push"]]
    run = cell("fast", 1.0, transfers=moved(0, visited=100), schedule={"cache_mb": 10}, supersteps=steps)
    assert found([run, cell("slow", 2.0)], what="cached", over="slow", at_most=1)[0] == [pytest.approx(0.5 / 0.05)]


def test_claims_are_about_devices_and_numbers_of_features():
    records = [cell("fast", 1.0), cell("slow", 4.0)]
    [gpu, wide, one] = measured(
        layout({**FASTER, "device": "cuda"}, {**FASTER, "features": [32]}, {**FASTER, "features": [1]}), records
    )
    assert (gpu.verdict, gpu.text) == ("not measured", "flood, ring: it needs device=cuda")
    assert (wide.verdict, one.verdict) == ("not measured", "yes")


@pytest.mark.parametrize(
    ("what", "change", "reason"),
    [
        ("overlap", {"link": None}, "the rate of the link is not recorded"),
        ("overlap", {"transfers": None}, "bytes are not counted"),
        ("overlap", {"transfers": moved(0)}, "bytes are not counted"),
        ("cached", {"transfers": None}, "the cached share of the edges is not known"),
        ("cached", {"link": None}, None),
    ],
)
def test_a_comparison_that_is_not_possible_says_why(what, change, reason):
    given = {"transfers": moved(150, visited=100), "link": LINK, "supersteps": [[1, 25, "push"]]}
    run = cell("fast", 1.0, **{**given, "schedule": {"cache_mb": 0.04}, **change})
    shown = found([run, cell("slow", 2.0)], what=what, over="slow", at_most=3)
    if reason is None:
        assert shown[:2] == ([pytest.approx(0.5 / 0.55)], "yes"), "it needs no rate of the link"
    else:
        assert shown == ([], "not measured", f"flood, ring: {reason}")
