"""Processes and shared memory that a killed sweep leaves behind through its launcher, and their cleanup."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from harness.campaign import orphans
from harness.campaign.journal import Journal
from harness.campaign.orphans import OWNER_VARIABLE, end_orphans, this_process
from harness.campaign.recovery import clean_up
from tests.processes import HANGS_S, gone, never_ending, vanishes

SHARED = Path("/dev/shm")
# Starts a worker in a separate session, which ignores SIGTERM on request, and leaves a semaphore as joblib does.
OWNER = """
import os, signal, subprocess, sys
from pathlib import Path
from harness.campaign.orphans import marking_children
worker = "import signal, sys; signal.signal(signal.SIGTERM, getattr(signal, sys.argv[1])); print(0, flush=True); "
with marking_children() as owner:
    started = subprocess.Popen(
        [sys.executable, "-c", worker + "signal.pause()", sys.argv[1]], stdout=subprocess.PIPE, start_new_session=True
    )
    started.stdout.readline()
    Path(f"/dev/shm/sem.loky-{os.getpid()}-of0test").touch()
    print(owner, started.pid, flush=True)
    signal.pause()
"""


@pytest.fixture
def started():
    """Start an owner whose worker handles SIGTERM in the named way; return the owner, its name and the worker."""
    processes = []

    def start(handler):
        process = subprocess.Popen([sys.executable, "-c", OWNER, handler], stdout=subprocess.PIPE, text=True)
        processes.append(process)
        owner, worker = process.stdout.readline().split()
        processes.append(psutil.Process(int(worker)))
        return process, owner, int(worker)

    yield start
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()
            process.wait()
        if isinstance(process, subprocess.Popen):
            process.stdout.close()
            (SHARED / f"sem.loky-{process.pid}-of0test").unlink(missing_ok=True)


def semaphore(process):
    return SHARED / f"sem.loky-{process}-of0test"


def test_workers_and_semaphores_end_with_an_owner_that_is_killed(started, request):
    other = semaphore(os.getpid())
    other.touch()
    request.addfinalizer(other.unlink)
    process, _, worker = started("SIG_DFL")
    process.kill()
    assert not never_ending([worker])
    assert vanishes(semaphore(process.pid))
    assert other.exists()


def test_the_next_start_ends_leftovers_if_the_watch_was_killed_too(started, tmp_path, monkeypatch):
    monkeypatch.setattr(orphans, "_GRACE_S", 0.1)
    process, owner, worker = started("SIG_IGN")
    [watch] = [one for one in psutil.Process(process.pid).children() if one.pid != worker]
    watch.kill()
    assert not never_ending([watch.pid])
    process.kill()
    process.wait()
    assert not gone(worker)
    assert semaphore(process.pid).exists()
    journal = Journal(tmp_path / ".running" / "1-abc.journal")
    journal.path.parent.mkdir()
    journal.open(owner)
    clean_up(tmp_path)
    assert not never_ending([worker])
    assert not semaphore(process.pid).exists()
    assert not journal.path.exists()


def test_files_of_the_owner_itself_are_deleted(tmp_path, monkeypatch):
    """The owner had no other process."""
    monkeypatch.setattr(orphans, "_SHARED_MEMORY", tmp_path)
    name = "from harness.campaign.orphans import this_process; print(this_process())"
    owner = subprocess.run([sys.executable, "-c", name], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    number = int(owner.rsplit("/", 2)[1])
    own, other = (tmp_path / f"sem.loky-{process}-of0test" for process in (number, os.getpid()))
    for file in (own, other):
        file.touch()
    end_orphans(owner)
    assert list(tmp_path.iterdir()) == [other]


def test_processes_of_a_living_owner_are_kept(started):
    process, owner, worker = started("SIG_DFL")
    end_orphans(owner)
    assert not gone(worker)
    assert semaphore(process.pid).exists()


def test_an_owner_on_another_machine_is_none_of_ours(started):
    _, owner, worker = started("SIG_DFL")
    space, number, start = owner.rsplit("/", 2)
    end_orphans(f"another-{space}/{number}/{start}")
    assert not gone(worker)


def test_the_mark_is_taken_back(monkeypatch):
    monkeypatch.setattr(orphans, "_WATCHERS", {})
    monkeypatch.setattr(orphans, "_start_watcher", lambda _: os.getpid())
    monkeypatch.setenv(OWNER_VARIABLE, "outer")
    with orphans.marking_children() as owner:
        assert os.environ[OWNER_VARIABLE] == owner == this_process()
    assert os.environ[OWNER_VARIABLE] == "outer"
    monkeypatch.delenv(OWNER_VARIABLE)
    with orphans.marking_children():
        pass
    assert OWNER_VARIABLE not in os.environ


def test_a_journal_names_its_owner(tmp_path):
    journal = Journal(tmp_path / "a.journal")
    journal.open(this_process())
    journal.begin("a")
    assert journal.owner() == this_process()
    assert list(journal.news()) == [("begin", "a", "")]
    (tmp_path / "torn.journal").write_text("owner a/1")
    assert Journal(tmp_path / "torn.journal").owner() is None


def command_of(pid):
    """Return the command of a process that has just been started: the system shows none until the program is loaded."""
    until = time.monotonic() + HANGS_S
    while not (command := psutil.Process(pid).cmdline()) and not gone(pid) and time.monotonic() < until:
        os.sched_yield()
    return command


def test_one_process_watches_over_all_sweeps_of_an_owner(monkeypatch):
    monkeypatch.setattr(orphans, "_WATCHERS", {})
    for _ in range(3):
        with orphans.marking_children() as owner:
            pass
    [(_, first)] = orphans._WATCHERS.items()
    assert command_of(first)[-2:] == [orphans.__file__, owner]
    os.kill(first, signal.SIGKILL)
    os.waitid(os.P_PID, first, os.WEXITED | os.WNOWAIT)
    with orphans.marking_children():
        second = orphans._WATCHERS[owner]
    assert second != first
    os.kill(second, signal.SIGKILL)
    os.waitpid(second, 0)
