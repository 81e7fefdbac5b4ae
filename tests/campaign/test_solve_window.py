"""The duration of timed runs by the system's clock, whatever the clock of a cell's process shows."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest

from harness.campaign.solve_window import solve_window, system_offset, wrong_clock


@pytest.fixture
def marks(tmp_path):
    """Return the files of the two marks, an hour apart by the system's clock."""
    for name, second in ((".solve-began-0", 1_000), (".solve-ended-0", 4_600)):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (second, second))
    return tmp_path


@pytest.mark.parametrize(
    ("window", "samples", "message"),
    [
        (3_600.0, [1_000.0, 2_000.0], ""),
        (3_500.0, [3_400.0], ""),
        (3_780.0, [3_780.0], ""),  # up to 5 % and a tenth of a second
        (3_420.0, [3_420.0], ""),
        (3_781.0, [30.0], "took 3.78e+03 s by the clock of the cell's process"),
        (3_419.0, [30.0], "took 3.42e+03 s by the clock of the cell's process"),
        (3_600.0, [3_781.0], "the samples add up to 3.78e+03 s, and all timed runs took 3.6e+03 s"),
        (36.0, [30.0], "took 36 s by the clock of the cell's process and 3.6e+03 s by the system's"),
        (7_200.0, [30.0], "took 7.2e+03 s by the clock of the cell's process"),
        (3_600.0, [3_000.0, 3_000.0], "the samples add up to 6e+03 s, and all timed runs took 3.6e+03 s"),
    ],
)
def test_the_clock_of_a_cell_is_compared_with_the_systems(marks, window, samples, message):
    fields = {"solve_window": window, "solve": {"samples": samples}}
    found = wrong_clock(fields, marks, system_offset())
    assert message in found
    assert bool(message) == bool(found)
    assert not wrong_clock(fields, marks, system_offset() - 7.0)  # the time of day was set in between


def test_the_windows_of_all_phases_are_added_up(marks):
    for name, second in ((".solve-began-1", 5_000), (".solve-ended-1", 5_400)):
        (marks / name).touch()
        os.utime(marks / name, (second, second))
    offset = system_offset()
    assert wrong_clock({"solve_window": 4_000.0, "solve": {"samples": [3_900.0]}}, marks, offset) == ""
    assert "4e+03 s by the system's" in wrong_clock(
        {"solve_window": 3_600.0, "solve": {"samples": [1.0]}}, marks, offset
    )
    (marks / ".solve-ended-1").unlink()
    assert wrong_clock({"solve_window": 3_600.0, "solve": {"samples": [1.0]}}, marks, offset) == ""


@pytest.mark.parametrize("fields", [{}, {"solve_window": 3_600.0, "solve": None}, {"solve_window": 36, "solve": {}}])
def test_without_times_no_clock_is_compared(marks, fields):
    assert wrong_clock(fields, marks, system_offset()) == ""


def test_a_window_that_an_exception_ended_does_not_count(tmp_path):
    (tmp_path / "made").mkdir()
    reported = {}
    report = SimpleNamespace(tell=lambda **fields: reported.update(fields))
    with pytest.raises(KeyError), solve_window(report, tmp_path / "made"):
        raise KeyError
    with solve_window(report, tmp_path / "made"):
        pass
    fields = {**reported, "solve": {"samples": [3_000.0]}}
    assert "the samples add up to 3e+03 s" in wrong_clock(fields, tmp_path, system_offset())


def test_each_window_is_marked_at_its_two_ends(tmp_path, monkeypatch):
    """The window is that of the process's clock; its marks are beside the folder of the artefacts."""
    (tmp_path / "made").mkdir()
    now = iter([10.0, 13.5, 20.0, 20.25])
    monkeypatch.setattr("harness.clock.perf_counter", lambda: next(now))
    told = []
    report = SimpleNamespace(tell=lambda **fields: told.append(fields))
    found = []
    for number in range(2):
        with solve_window(report, tmp_path / "made"):
            found.append({path.name for path in tmp_path.glob(".solve-*")})
            assert f".solve-ended-{number}" not in found[-1]
    assert found == [{".solve-began-0"}, {".solve-began-0", ".solve-ended-0", ".solve-began-1"}]
    assert told == [{"solve_window": 3.5}, {"solve_window": 0.25}]
    assert list((tmp_path / "made").iterdir()) == []


@pytest.mark.parametrize("removed", [True, False])
def test_an_error_in_a_window_passes_although_its_mark_is_gone(tmp_path, removed):
    (tmp_path / "made").mkdir()
    with pytest.raises(ZeroDivisionError), solve_window(SimpleNamespace(tell=None), tmp_path / "made"):
        if removed:
            (tmp_path / ".solve-began-0").unlink()
        _ = 1 / 0
    assert not list(tmp_path.glob(".solve-*"))
