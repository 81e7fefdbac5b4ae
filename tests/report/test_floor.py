"""The share of the floor in the terminal's table and on the page."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.records import Mark
from harness.records.compaction import query
from harness.records.floor import Rates, Work, floor_of
from harness.records.store import write_record
from harness.report.page.model import page_model
from harness.report.summary import show_sweep
from harness.report.units import percent
from tests.records.samples import record

RATES = Rates(levels=[(0, 1e3)], on_chip=0, adds=None, wide_adds=None, launch=0.1)
FLOOR = floor_of(Work(bytes=[100, 270], adds=0, wide=False, launches=2), RATES)


def test_the_table_shows_the_floor_as_a_share_of_the_time(capsys):
    show_sweep([record("fast", floor=FLOOR), record("slow", (20.0, 19.0, 21.0))], 2, None, Path("results"), width=220)
    printed = capsys.readouterr().out
    assert " 37 % " in printed
    assert "floor: a lower bound of the time of a run" in printed


def test_a_sweep_without_floors_has_no_such_column(capsys):
    show_sweep([record("fast")], 1, None, Path("results"), width=220)
    assert "floor" not in capsys.readouterr().out


def test_the_page_shows_the_share_and_the_largest_term():
    model = page_model([record("fast", floor=FLOOR)], None, 1)
    place = [column.title for column in model["columns"]].index("floor")
    entry = model["rows"][0]["entries"][place]
    assert (entry.text, entry.value, entry.aside) == ("37 %", pytest.approx(0.37), "bytes")
    assert "cannot be exceeded" in model["floor"]


def test_a_time_below_its_floor_is_explained_below_the_table(capsys):
    show_sweep([record("fast", (0.3, 0.29, 0.31), floor=FLOOR, marks=[Mark.BELOW_FLOOR])], 1, None, Path("results"))
    printed = capsys.readouterr().out
    assert "123 %" in printed
    assert "below_floor" in printed
    assert "so that one of the two is wrong" in " ".join(printed.split())


def test_floors_can_be_queried(tmp_path):
    write_record(tmp_path / "a", record(floor=FLOOR))
    write_record(tmp_path / "b", record(floor=FLOOR, outcome="wrong"))
    assert query(tmp_path, "SELECT floor FROM records ORDER BY file")[1] == [(pytest.approx(0.37),), (None,)]


@pytest.mark.parametrize(
    ("share", "shown"), [(0.37, "37 %"), (0.0412, "4.1 %"), (0.996, "100 %"), (1.234, "123 %"), (0.0004, "0.04 %")]
)
def test_shares_have_two_digits(share, shown):
    assert percent(share) == shown
