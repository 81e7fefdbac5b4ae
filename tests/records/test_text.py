from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.campaign.child_report import ChildReport, read_report
from harness.plain_text import printable
from harness.records import RECORD_FILE, read_record, write_record
from harness.records.outcome import Outcome
from harness.records.text import REASON_LIMIT, TEXT_LIMIT, bounded, shortened
from harness.report.page import render_page
from tests.records.samples import record

LONG = "x" * 5_000_000


@given(st.text(), st.integers(60, 80))
def test_a_text_is_shortened_once_and_says_by_how_much(text, limit):
    short = shortened(text * 20, limit)
    assert len(short) <= limit
    assert shortened(short, limit) == short
    if short != text * 20:
        kept, _, note = short.rpartition(" [... ")
        assert (text * 20).startswith(kept)
        assert int(note.removesuffix(" characters left out]").replace(",", "")) == len(text * 20) - len(kept)


@pytest.mark.parametrize(("field", "limit"), [("reason", REASON_LIMIT), ("output", TEXT_LIMIT), ("stage", TEXT_LIMIT)])
def test_a_record_is_written_with_its_texts_shortened(tmp_path, field, limit):
    path = write_record(tmp_path, {**record(times=None), field: LONG})
    assert path.stat().st_size < 30_000
    assert len(read_record(path)[field]) == limit


def test_a_text_inside_a_field_is_shortened_too(tmp_path):
    validation = {"ok": False, "error": 1.0, "bound": 0.1, "detail": LONG, "against": "a plain loop"}
    path = write_record(tmp_path, {**record(times=None), "validation": validation, "phases": {LONG: 1.0}})
    assert path.stat().st_size < 50_000


@pytest.mark.parametrize("kind", [list, tuple])
def test_texts_in_lists_are_shortened_and_made_printable(kind):
    long = "y" * (TEXT_LIMIT + 1)
    assert bounded({"output": kind(["a\x00", long, 3]), "reason": "z" * REASON_LIMIT}) == {
        "output": [printable("a\x00"), shortened(long, TEXT_LIMIT), 3], "reason": "z" * REASON_LIMIT,
    }  # fmt: skip
    assert printable("a\x00") != "a\x00"
    assert bounded({"reason": "z" * (REASON_LIMIT + 1)})["reason"] == shortened("z" * (REASON_LIMIT + 1), REASON_LIMIT)


def test_the_page_of_an_old_record_with_a_long_reason_is_short(tmp_path):
    (tmp_path / RECORD_FILE).write_text(json.dumps({**record(times=None), "reason": LONG, "output": LONG}))
    page = render_page([read_record(tmp_path / RECORD_FILE)], None)
    assert len(page) < len(render_page([record(times=None)], None)) + 10_000
    assert "characters left out]" in page


def test_a_child_tells_no_long_text(tmp_path):
    with (tmp_path / "report").open("wb", buffering=0) as file:
        ChildReport(file).end(Outcome.ENGINE_ERROR, LONG)
    assert (tmp_path / "report").stat().st_size < 3_000
    assert read_report(tmp_path / "report")["reason"].endswith(" [... 4,998,036 characters left out]")
