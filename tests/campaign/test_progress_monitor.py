"""What the monitor of a sweep shows of its journal: cells that begin, wait and end."""

from __future__ import annotations

import json
import time
from types import SimpleNamespace

import pytest

from harness.campaign import progress_monitor
from harness.campaign.job import work_folder
from harness.campaign.journal import Journal
from harness.campaign.progress_monitor import ProgressMonitor
from harness.records import write_record
from tests.records.samples import record


class Shown:
    """A display that notes what it is told."""

    def __init__(self, total):
        self.calls = [("total", total)]

    def __enter__(self):
        self.calls.append("entered")
        return self

    def __exit__(self, *_):
        self.calls.append("left")

    def begun(self, *given):
        self.calls.append(("begun", *given))

    def ended(self, key, found, elapsed):
        assert elapsed >= 0
        self.calls.append(("ended", key, found["outcome"]))

    def waiting(self, *given):
        self.calls.append(("waiting", *given))


@pytest.fixture
def followed(tmp_path, monkeypatch):
    """Return a function that makes the monitor of cells with some keys, and their folders."""
    monkeypatch.setattr(progress_monitor, "Progress", Shown)
    monkeypatch.setattr(progress_monitor, "_INTERVAL_S", 0.001)

    def make(*keys):
        def planned(number, key):
            folder = tmp_path / "mine" / key
            cell = SimpleNamespace(labels={"engine": key}, features=number, round=number + 1)
            read = lambda: record(outcome="ok") if folder.is_dir() else None  # noqa: E731
            return SimpleNamespace(key=key, cell=cell, folder=folder, record=read)

        cells = [planned(number, key) for number, key in enumerate(keys)]
        journal = Journal(tmp_path / "a.journal")
        return ProgressMonitor(journal, cells), journal, {one.key: one.folder for one in cells}

    return make


def test_cells_are_shown_as_they_begin_and_end(followed):
    monitor, journal, folders = followed("a", "b")
    with monitor:
        journal.open("host/1/2")
        journal.begin("a")
        journal.begin("b")
        write_record(folders["a"], record())
        journal.end("a", "ok")
        journal.end("b", "crashed")  # its record cannot be read
    found = [call for call in monitor._progress.calls if call[0] != "waiting"]  # how often one looks is not fixed
    assert found == [
        ("total", 2), "entered", ("begun", "a", {"engine": "a"}, 0, 1), ("begun", "b", {"engine": "b"}, 1, 2),
        ("ended", "a", "ok"), "left",
    ]  # fmt: skip


def test_what_came_just_before_the_end_is_shown_too(followed):
    monitor, journal, folders = followed("a")
    write_record(folders["a"], record())
    journal.begin("a")
    journal.end("a", "ok")
    monitor._over.set()
    monitor._monitor()
    assert monitor._progress.calls[2:] == [("begun", "a", {"engine": "a"}, 0, 1), ("ended", "a", "ok"), "left"]


@pytest.mark.parametrize(
    ("fields", "seconds", "behind"),
    [
        ({"stage": "wait", "wait_began": 90.0, "waited": 2.5, "behind": "process 7: sssp"}, 12.5, "process 7: sssp"),
        ({"stage": "solve", "wait_began": None, "waited": 12.5, "behind": "process 7: sssp"}, 0.0, "process 7: sssp"),
        ({"stage": "open graph"}, 0.0, ""),
        ({}, 0.0, ""),
    ],
)
def test_a_running_cell_waits_while_that_is_its_stage(followed, monkeypatch, fields, seconds, behind):
    monkeypatch.setattr(time, "monotonic", lambda: 100.0)
    monitor, _, folders = followed("a", "b")
    work = work_folder(folders["a"])
    work.mkdir(parents=True)
    (work / "report.jsonl").write_text(json.dumps(fields) + "\n")
    monitor._tell_waits(["a"])
    assert monitor._progress.calls[1:] == [("waiting", "a", seconds, behind)]
