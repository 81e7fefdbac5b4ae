"""Transfers of edges in records, in the terminal's table and on the page."""

from __future__ import annotations

import pytest

from harness.campaign.engine_checks import MalformedAnswer, checked_statistics
from harness.contract import RunStatistics, Superstep, Transfers
from harness.report.page import render_page
from harness.report.summary import show_sweep
from harness.report.transfers import HEADINGS, headings, transfer_rows
from tests.records.samples import record

REQUESTS = {32: 3, 64: 0, 96: 1, 128: 5}
MOVED = Transfers(visited=400, moved={"zero_copy": 32 * 3 + 96 + 5 * 128}, requests=REQUESTS)
SHOWN = ("832 zero_copy", "2.08", "832", "400")  # in a run of one second


def test_the_plain_form_has_bytes_and_amplification():
    assert MOVED.amplification == 832 / 400
    assert MOVED.plain() == {
        "visited_bytes": 400, "moved_bytes": {"zero_copy": 832}, "amplification": 2.08,
        "requests": {"32": 3, "64": 0, "96": 1, "128": 5}, "subgraphs": {},
        "seconds": {}, "data": {},
    }  # fmt: skip
    assert Transfers(0, {}).amplification is None


def test_a_sweep_shows_transfers_of_ok_runs(capsys, tmp_path):
    moved = record("moving", transfers=MOVED.plain())
    wrong = record("wrong", outcome="wrong", transfers=MOVED.plain())
    assert len(transfer_rows([moved, record("still"), wrong])) == 1
    show_sweep([moved, record("still"), wrong], 3, None, tmp_path)
    shown = capsys.readouterr().out
    assert "Amplification: moved over visited" in shown
    for text in SHOWN:
        assert text in shown
    page = render_page([moved, record("still")], None, 2)
    for text in ('id="transfers"', *SHOWN):
        assert text in page
    assert 'id="transfers"' not in render_page([record("still")], None, 1)


def test_every_text_of_a_run_with_several_means_and_sizes():
    """Rates are those of the median time, here of two seconds."""
    found = Transfers(
        visited=4_000_000, moved={"zero_copy": 6_000_000, "copied": 2_000_000},
        requests={32: 1, 64: 22_000, 128: 444}, subgraphs={"low": 3, "high": 12_345}, seconds={"queue": 0.5, "a": 1.0},
    )  # fmt: skip
    [row] = transfer_rows([record("moving", (2.0, 1.9, 2.1), transfers=found.plain())])
    assert dict(zip(HEADINGS, row, strict=True)) == {
        "graph": "ring", "algorithm": "flood", "k": "8", "engine": "moving", "visited": "4 M",
        "moved": "6 M zero_copy, 2 M copied", "amplification": "2", "moved/s": "4 M",
        "32 B": "1", "64 B": "22 k", "96 B": "-", "128 B": "444", "subgraphs": "3 low, 12.3 k high",
        "parts of the time": "50 % a, 25 % queue",
    }  # fmt: skip
    [none] = transfer_rows([record("still", (2.0, 1.9, 2.1), transfers=Transfers(0, {}).plain())])
    assert none == ("ring", "flood", "8", "still", "0", "-", "-", "-", "-", "-", "-", "-", "-")


def test_parts_of_the_time_have_a_column_if_a_run_has_them():
    timed = record("timed", transfers=Transfers(8, {"copied": 8}, seconds={"values": 0.015, "flags": 0.25}).plain())
    moved = record("moving", transfers=MOVED.plain())
    plain, both = transfer_rows([moved]), transfer_rows([moved, timed])
    assert headings(plain) == HEADINGS[:-1]
    assert [len(row) for row in (*plain, *both)] == [len(HEADINGS) - 1, len(HEADINGS), len(HEADINGS)]
    assert [row[-1] for row in both] == ["-", "25 % flags, 1.5 % values"], "of a run of one second"
    assert "25 % flags, 1.5 % values" in render_page([moved, timed], None, 2)
    assert "parts of the time" not in render_page([moved], None, 1)


def test_statistics_with_transfers_are_checked():
    steps = [Superstep(1, 2, "push")]
    kept = checked_statistics(RunStatistics(True, steps, MOVED), 3).transfers
    assert kept == MOVED
    for wrong, named in (
        (Transfers(-1, {}), "transfers.visited"), (Transfers(1, {"read": -2}), r"transfers.moved\['read'\]"),
        (Transfers(1, {}, {"32": 1}), "transfers.requests"),
        (Transfers(1, {}, {}, {"low": 1.5}), "transfers.subgraphs"),
        (Transfers(1, {}, seconds={"values": float("inf")}), r"transfers.seconds\['values'\]"),
        (Transfers(1, {}, data={"useful": [1, -2]}), r"transfers.data\['useful'\]"),
        (Transfers(1, {}, data={"useful": 3}), "a list of numbers"),
        ((1, {}), "a Transfers, or None"),
    ):  # fmt: skip
        with pytest.raises(MalformedAnswer, match=named):
            checked_statistics(RunStatistics(True, steps, wrong), 3)


@pytest.mark.parametrize("counted", [True, False])
def test_what_several_runs_moved_is_known_if_each_of_them_counted(counted):
    one, idle = Transfers(5, {"copied": 5}, subgraphs={"low": 1}), Transfers(0, {})
    other = Transfers(2, {"copied": 3}, subgraphs={"low": 2}) if counted else Transfers(2, {})
    found = Transfers.total(iter([one, other, idle]))
    assert found.visited == 7
    assert (found.moved, found.subgraphs) == (({"copied": 8}, {"low": 3}) if counted else ({}, {}))
    assert found.amplification == (8 / 7 if counted else None)
