"""Claims about ratios of columns, their bounds, and whether records show that they hold."""

from __future__ import annotations

import pytest

from harness.records import read_records, write_json, write_record
from harness.report.__main__ import main
from harness.report.claims import WHAT, Claim
from harness.report.console import as_text
from harness.report.layout import Layout, LayoutError
from harness.report.layout_figure import write_layout_figure
from harness.report.layout_tables import notes_of, table_of
from harness.report.ratios import Lacking, measured, reasons
from tests.records.samples import record

COLUMNS = {
    "fast": {"engine": "fast", "way": "one"}, "other": {"engine": "fast", "way": "two"}, "slow": {"engine": "slow"},
}  # fmt: skip


def layout(*ratios, columns=COLUMNS):
    return Layout.from_plain({"title": "Ratios", "kind": "ratios", "columns": columns, "ratios": list(ratios)})


def cell(column, median, algorithm="flood", graph="ring", **changes):
    options = dict(COLUMNS[column])
    engine = options.pop("engine")
    config = {"engine": engine, "algorithm": algorithm, "graph": graph, "features": 1, "max_supersteps": None,
              "schedule": options, "device": {"kind": "cpu"}}  # fmt: skip
    labels = {"engine": column, "algorithm": algorithm, "graph": graph}
    times = None if median is None else (median, 0.99 * median, 1.01 * median)
    given = {"config": config, "labels": labels, "features": 1, "environment": {}}
    return record(engine, times, **{**given, **changes})


def moved(nbytes, visited=100, requests=7):
    return {"visited_bytes": visited, "moved_bytes": {"copied": nbytes}, "amplification": nbytes / visited,
            "requests": {"32": requests}, "subgraphs": {}, "seconds": {}, "data": {}}  # fmt: skip


def verdicts(records, *ratios):
    return [(one.verdict, one.cells) for one in measured(layout(*ratios), records)]


FASTER = {"claim": "faster", "of": "fast", "over": "slow", "at_least": 2}


def test_a_claim_about_some_features_leaves_out_the_others():
    records = [
        cell(name, seconds, features=k)
        for k, slow in ((16, 1.5), (64, 4.0))
        for name, seconds in (("fast", 1.0), ("slow", slow))
    ]
    found = verdicts(records, FASTER, {**FASTER, "features": [64]}, {**FASTER, "features": [16]})
    assert found == [("no", "1 of 2"), ("yes", "1 of 1"), ("no", "0 of 1")]


@pytest.mark.parametrize(
    ("slow", "bound", "holds"),
    [
        (4.0, {"at_least": 3}, "yes"), (4.0, {"at_least": 5}, "no"), (4.0, {"at_least": 4}, "cannot tell"),
        (4.0, {"at_most": 5}, "yes"), (4.0, {"at_most": 3}, "no"), (4.0, {"at_most": 4.01}, "cannot tell"),
    ],
)  # fmt: skip
def test_the_interval_of_a_ratio_decides(slow, bound, holds):
    claim = {"claim": "faster", "of": "fast", "over": "slow", **bound}
    assert verdicts([cell("fast", 1.0), cell("slow", slow)], claim) == [(holds, f"{int(holds == 'yes')} of 1")]


def test_a_claim_must_hold_in_all_cells_in_a_share_or_in_the_mean():
    records = [
        made
        for graph, slow in (("a", 8.0), ("b", 4.0), ("c", 1.0))
        for made in (cell("fast", 1.0, graph=graph), cell("slow", slow, graph=graph))
    ]
    share = {**FASTER, "share": 0.66}
    mean, high = {**FASTER, "mean": True}, {**FASTER, "mean": True, "at_least": 3.3}  # 32 ** (1 / 3) = 3.17
    found = verdicts(records, FASTER, share, mean, high, {**FASTER, "graphs": ["a", "b"]})
    assert found == [("no", "2 of 3"), ("yes", "2 of 3"), ("yes", "3 of 3"), ("no", "3 of 3"), ("yes", "2 of 2")]
    [every, _, of_all, *_] = measured(layout(FASTER, share, mean), records)
    assert every.text.endswith("(flood, c)")
    assert of_all.mean.value == pytest.approx(32 ** (1 / 3))
    assert of_all.mean.low == pytest.approx(32 ** (1 / 3) * 0.99 / 1.01)


def test_the_best_of_several_columns_is_compared():
    records = [cell("fast", 1.0), cell("other", 2.0), cell("slow", 9.0)]
    claim = {"claim": "best", "of": "fast", "over": ["slow", "other"], "at_least": 3}
    assert verdicts(records, claim) == [("no", "0 of 1")]
    refused = [records[0], cell("other", None, outcome="unsupported", reason="no form"), records[2]]
    assert verdicts(refused, claim) == [("yes", "1 of 1")]
    assert verdicts([records[0], records[2]], claim) == [("yes", "1 of 1")]
    failed = [records[0], cell("other", None, outcome="wrong"), records[2]]
    assert verdicts(failed, claim) == [("not measured", "")], "it may have been the best"


@pytest.mark.parametrize("mean", [True, False])
def test_a_failed_run_leaves_the_claim_open_and_a_refused_one_is_left_out(mean):
    ok = [cell("fast", 1.0), cell("slow", 4.0)]
    claim, others = {**FASTER, "mean": mean}, {"graph": "line"}
    failed = [*ok, cell("fast", 1.0, **others), cell("slow", None, outcome="timeout", **others)]
    assert verdicts(failed, claim) == [("cannot tell", "1 of 2")]
    assert "failed: flood, line: slow: timeout" in notes_of(layout(claim), failed)
    refused = [*ok, cell("fast", 1.0, **others), cell("slow", None, outcome="unsupported", **others)]
    assert verdicts(refused, claim) == [("yes", "1 of 1")]
    assert notes_of(layout(claim), refused)[2:] == ["left out: flood, line: slow: unsupported"]
    [nothing] = measured(layout(claim), refused[2:])
    assert (nothing.verdict, nothing.text) == ("not measured", "flood, line: slow: unsupported")
    assert len(notes_of(layout(claim), refused[2:])) == len(notes_of(layout(claim), failed[2:])) == 2, (
        "it is in the table"
    )


@pytest.mark.parametrize("mean", [True, False])
def test_inputs_that_are_invalid_for_every_engine_are_left_out(mean):
    ok = [cell("fast", 1.0), cell("slow", 4.0)]
    claim, others = {**FASTER, "mean": mean}, {"graph": "line"}
    fast, slow = (cell(name, None, outcome="invalid_input", **others) for name in ("fast", "slow"))
    assert verdicts([*ok, fast, slow], claim) == [("yes", "1 of 1")]
    assert notes_of(layout(claim), [*ok, fast, slow])[2:] == ["left out: flood, line: slow: invalid_input"]
    assert verdicts([*ok, fast], claim) == [("yes", "1 of 1")], "the other one was not run"
    assert verdicts([*ok, cell("fast", 1.0, **others), slow], claim) == [("cannot tell", "1 of 2")]
    assert verdicts([*ok, fast, cell("slow", 4.0, **others)], claim) == [("cannot tell", "1 of 2")]
    unsupported = cell("slow", None, outcome="unsupported", **others)
    assert verdicts([*ok, fast, unsupported], claim) == [("cannot tell", "1 of 2")]


def test_few_samples_and_other_work_allow_no_verdict():
    few = cell("slow", 4.0)
    few["solve"] = {**few["solve"], "confidence": 0.5}
    for slow in (few, cell("slow", 4.0, marks=["busy"])):
        for mean in (True, False):
            assert verdicts([cell("fast", 1.0), slow], {**FASTER, "mean": mean})[0][0] == "cannot tell"


def test_bytes_requests_and_amplification_are_compared_exactly():
    records = [cell("fast", 1.0, transfers=moved(150)), cell("slow", 1.0, transfers=moved(300, requests=21))]
    claims = [
        {"claim": "bytes", "of": "fast", "over": "slow", "what": "moved", "at_most": 0.5},
        {"claim": "bytes", "of": "fast", "over": "slow", "what": "moved", "at_most": 0.49},
        {"claim": "requests", "of": "slow", "over": "fast", "what": "requests", "at_least": 3},
        {"claim": "amplification", "of": "fast", "what": "amplification", "at_most": 1.5},
        {"claim": "amplification", "of": "slow", "what": "amplification", "at_most": 1.5},
    ]
    assert [holds for holds, _ in verdicts(records, *claims)] == ["yes", "no", "yes", "yes", "no"]
    [uncounted] = measured(layout(claims[0]), [records[0], cell("slow", 1.0)])
    assert (uncounted.verdict, uncounted.text) == ("not measured", "flood, ring: moved not counted")


def test_bytes_of_all_means_and_requests_of_all_sizes_are_added():
    mine = {**moved(0), "moved_bytes": {"copied": 100, "zero_copy": 200}, "requests": {"32": 5, "128": 10}}
    theirs = {**moved(0), "moved_bytes": {"copied": 150, "zero_copy": 50}, "requests": {"32": 8, "128": 2}}
    records = [cell("fast", 1.0, transfers=mine), cell("slow", 1.0, transfers=theirs)]
    claims = [
        {"claim": "x", "of": "fast", "over": "slow", "what": what, "at_least": 1} for what in ("moved", "requests")
    ]
    assert [one.found[0].value for one in measured(layout(*claims), records)] == [1.5, 1.5]


def test_the_table_of_claims_has_its_columns():
    table = table_of(layout(FASTER), [cell("fast", 1.0), cell("slow", 4.0)])
    [texts] = zip(*(column.cells for column in table.columns), strict=True)
    assert {str(column.header): str(text) for column, text in zip(table.columns, texts, strict=True)} == {
        "claim": "faster", "bound": ">= 2x", "measured": "4x [3.92, 4.08] (flood, ring)",
        "cells": "1 of 1", "holds": "yes",
    }  # fmt: skip
    assert [column.header for column in table.columns if column.justify == "right"] == ["cells"]


def test_a_claim_without_an_engine_is_listed_with_its_reason():
    given = layout({"claim": "a cache", "missing": "no engine has one"}, FASTER)
    text = " ".join(as_text(table_of(given, [cell("fast", 1.0), cell("slow", 4.0)])).split())
    for word in ("a cache", "no engine has one", "not measured", "faster", ">= 2x", "4x", "yes"):
        assert word in text
    assert Layout.from_plain(given.plain()) == given
    assert given.column_of(cell("other", 1.0)) == "other"


@pytest.mark.parametrize(
    ("claim", "message"),
    [
        ({"claim": "x", "of": "nobody", "over": "slow", "at_least": 1}, "names 'nobody', not one of the columns"),
        (
            {"claim": "x", "of": "fast", "over": "slow", "at_least": 1, "at_most": 2},
            "needs one of at_least and at_most",
        ),
        ({"claim": "x", "of": "fast", "over": "slow"}, "needs one of at_least and at_most"),
        ({"claim": "x", "of": "fast", "over": "slow", "at_most": 0}, "a number above 0"),
        ({"claim": "x", "of": "fast", "over": "slow", "at_least": 1, "share": 2}, "share is at most 1"),
        ({"claim": "x", "of": "fast", "over": "slow", "at_least": 1, "what": "joy"}, f"one of {', '.join(WHAT)}"),
        ({"claim": "x", "of": "fast", "at_least": 1}, "speed is over another column"),
        ({"claim": "x", "of": "fast", "over": "slow", "what": "amplification", "at_least": 1}, "is of one column"),
        ({"claim": "x", "missing": "y", "of": "fast"}, "and other keys; omit one"),
        ({"of": "fast", "over": "slow", "at_least": 1}, "it must have a claim"),
        ({**FASTER, "colour": "red"}, "no keys but claim, of"),
    ],
)
def test_an_invalid_claim_names_its_key(claim, message):
    with pytest.raises(LayoutError, match=r"layout.ratios\[0\]") as error:
        layout(claim)
    assert message in str(error.value)


def test_ratios_belong_to_their_kind_of_layout():
    with pytest.raises(LayoutError, match="layout.ratios lists no claim"):
        layout()
    with pytest.raises(LayoutError, match="layout.ratios are of kind: ratios, not table"):
        Layout.from_plain({"columns": COLUMNS, "ratios": [FASTER]})


def test_the_commands_write_the_table_and_no_figure(tmp_path, capsys):
    records = [cell("fast", 1.0), cell("slow", 4.0)]
    for number, made in enumerate(records):
        write_record(tmp_path / "demo" / str(number), made)
    listed = [{"cell": str(number), "overrides": ["+experiment=demo"]} for number in range(2)]
    description = {"sweep": "demo", "baseline": "slow", "layout": layout(FASTER).plain(), "cells": listed}
    write_json(tmp_path / "demo" / "sweep.json", description)
    assert main(["layout", str(tmp_path / "demo")]) == 0
    assert "faster" in (tmp_path / "demo" / "layout.txt").read_text()
    assert not list(tmp_path.rglob("*.svg"))
    assert write_layout_figure(tmp_path / "x", layout(FASTER), records) == []
    assert main(["page", str(tmp_path / "demo")]) == 0
    assert "&gt;= 2x" in (tmp_path / "demo" / "report.html").read_text()
    assert len(list(read_records(tmp_path))) == 2
    pytest.importorskip("duckdb", reason="published records need the extra 'query'")
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "page.md").write_text("<!-- sweep: demo -->\n<!-- end of sweep -->\n")
    assert main(["publish", str(tmp_path / "demo"), "--docs", str(docs)]) == 0
    assert r"| faster | \>= 2x | 4x" in (docs / "page.md").read_text()
    capsys.readouterr()


@pytest.mark.parametrize(("cells", "share", "least"), [(20, 0.55, 11), (25, 0.56, 14), (100, 0.07, 7), (3, 0.67, 3)])
def test_a_share_of_the_cells_is_rounded_up_to_whole_cells_and_no_further(cells, share, least):
    """0.55 of 20 cells is 11, and 11.000000000000002 in floating point."""
    for faster, holds in ((least, "yes"), (least - 1, "no")):
        records = [
            made
            for number in range(cells)
            for made in (cell("fast", 1.0, graph=f"g{number}"),
                         cell("slow", 4.0 if number < faster else 1.0, graph=f"g{number}"))
        ]  # fmt: skip
        assert verdicts(records, {**FASTER, "share": share}) == [(holds, f"{faster} of {cells}")]


def test_a_mean_needs_a_verdict_of_every_ratio():
    disturbed = cell("slow", 4.0, graph="b", marks=["busy"])
    records = [cell("fast", 1.0), cell("slow", 4.0), cell("fast", 1.0, graph="b"), disturbed]
    [found] = measured(layout({**FASTER, "mean": True}), records)
    assert (found.verdict, found.text) == ("cannot tell", "4x, no verdict")


@pytest.mark.parametrize(
    ("bound", "text"), [({"at_least": 2}, "2x [1.96, 2.04] (flood, b)"), ({"at_most": 9}, "8x [7.84, 8.16] (flood, a)")]
)
def test_the_ratio_that_is_worst_for_the_claim_is_shown(bound, text):
    records = [
        made
        for graph, slow in (("a", 8.0), ("b", 2.0), ("c", 4.0))
        for made in (cell("fast", 1.0, graph=graph), cell("slow", slow, graph=graph))
    ]
    [found] = measured(layout({"claim": "x", "of": "fast", "over": "slow", **bound}), records)
    assert found.text == text


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"settled": False}, "not comparable: did not converge"),
        ({"solve": None}, "no time"),
        ({"sweep": "s"}, "no time"),
    ],
)
def test_runs_that_cannot_be_compared_say_why(changes, reason):
    [found] = measured(layout(FASTER), [cell("fast", 1.0), {**cell("slow", 4.0), **changes}])
    assert (found.verdict, found.text) == ("not measured", f"flood, ring: {reason}")
    assert found.failed == (Lacking("flood, ring", reason),)


@pytest.mark.parametrize(
    ("what", "value", "text"),
    [("speed", 1.2345, "1.23x"), ("edges", 1.2e8, "120 M edges/s"), ("edges", 1234.4, "1,234 edges/s")],
)
def test_numbers_of_claims_have_their_units(what, value, text):
    assert Claim("x", what=what).number(value) == text


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, ">= 1.5x"), ({"least": False}, "<= 1.5x"), ({"mean": True}, ">= 1.5x in the mean"),
        ({"share": 0.9}, ">= 1.5x in 90 % of cells"), ({"missing": "no"}, ""),
    ],
)  # fmt: skip
def test_bounds_are_written_with_what_they_hold_for(changes, text):
    assert Claim("x", **{"bound": 1.5, **changes}).bound_text == text


@pytest.mark.parametrize(("share", "holds"), [(1.0, "no"), (0.75, "no"), (0.5, "cannot tell"), (0.25, "yes")])
def test_a_share_of_the_cells_is_decided_by_those_that_are_certain(share, holds):
    """Of four cells one holds, one may, and two do not."""
    records = [
        made
        for graph, slow in (("a", 3.0), ("b", 2.0), ("c", 1.5), ("d", 1.0))
        for made in (cell("fast", 1.0, graph=graph), cell("slow", slow, graph=graph))
    ]
    assert verdicts(records, {**FASTER, "share": share}) == [(holds, "1 of 4")]


@pytest.mark.parametrize("ratios", [{"claim": "x"}, "x", 5, []])
def test_claims_are_a_list(ratios):
    with pytest.raises(LayoutError, match=r"layout\.ratios lists no claim; give"):
        Layout.from_plain({"title": "T", "kind": "ratios", "columns": COLUMNS, "ratios": ratios})


def test_a_reason_of_many_cells_is_given_once():
    few, many = ([Lacking(f"bfs, {graph}", why) for graph in "abcde"[:number]] for why, number in (("x", 3), ("y", 4)))
    assert reasons([]) == []
    assert reasons([*few, many[0], *many]) == [
        "bfs, a: x", "bfs, b: x", "bfs, c: x", "y (in 4 cells; the first: bfs, a)",
    ]  # fmt: skip
