"""Leftovers of killed sweeps in the folder of a sweep, and their cleanup."""

from __future__ import annotations

from harness.campaign.lock import file_lock
from harness.campaign.recovery import clean_up


def test_abandoned_files_are_removed_and_a_set_aside_record_is_restored(tmp_path):
    work = tmp_path / ".running"
    for name in ("aside", "made"):
        (work / "a" / name).mkdir(parents=True)
        (work / "a" / name / "record.json").write_text(name)
    (work / "a.lock").touch()
    (work / "1-abc.journal").write_text("begin a\n")
    (tmp_path / ".sweep.json-x").write_text("{")
    clean_up(tmp_path)
    assert list(work.iterdir()) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == [".running", "a"]
    assert (tmp_path / "a" / "record.json").read_text() == "aside"


def test_a_record_in_its_place_is_not_replaced(tmp_path):
    for folder in (tmp_path / "a", tmp_path / ".running" / "a" / "aside"):
        folder.mkdir(parents=True)
        (folder / "record.json").write_text(folder.name)
    clean_up(tmp_path)
    assert (tmp_path / "a" / "record.json").read_text() == "a"
    assert list((tmp_path / ".running").iterdir()) == []


def test_files_in_use_are_kept(tmp_path):
    work = tmp_path / ".running"
    (work / "a").mkdir(parents=True)
    with file_lock(work / "a.lock"), file_lock(work / "1-abc.journal"):
        before = sorted(work.rglob("*"))
        clean_up(tmp_path)
        assert sorted(work.rglob("*")) == before


def test_cells_that_nobody_runs_are_cleared_around_one_that_is_run(tmp_path):
    work = tmp_path / ".running"
    for cell in "abc":
        (work / cell / "aside").mkdir(parents=True)
        (work / cell / "aside" / "record.json").write_text(cell)
    with file_lock(work / "b.lock"):
        clean_up(tmp_path)
        assert sorted(path.name for path in work.iterdir()) == ["b", "b.lock"]
    assert (work / "b" / "aside" / "record.json").read_text() == "b"
    for cell in "ac":
        assert (tmp_path / cell / "record.json").read_text() == cell


def test_locks_of_cells_without_a_folder_are_removed_and_other_files_stay(tmp_path):
    work = tmp_path / ".running"
    work.mkdir()
    for name in ("gone.lock", "notes.txt", "sweep.lock", "held.lock"):
        (work / name).touch()
    with file_lock(work / "held.lock"):
        clean_up(tmp_path)
        assert sorted(path.name for path in work.iterdir()) == ["held.lock", "notes.txt", "sweep.lock"]
