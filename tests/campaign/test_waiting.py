"""Waiting for a device that another cell holds, and the limit of the wait."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from importlib.metadata import EntryPoint

import pytest

from harness.campaign import child
from harness.campaign.cell import resolve_cell
from harness.campaign.child_report import read_report
from harness.campaign.lock import device_holder, device_lock, device_lock_path, file_lock, others_at_rest
from harness.contract import Device, Phases
from harness.plugins import load_plugins
from harness.records import read_records
from harness.records.outcome import Outcome
from harness.report.progress import Progress
from tests.campaign.test_cell import config
from tests.conftest import FAKES
from tests.processes import HANGS_S

CPU, GPU = Device("cpu", threads=1), Device("cuda")
HOLDER = """
import sys, threading
from harness.campaign.lock import device_lock
from harness.contract import Device
with device_lock(Device("cpu", threads=1), "a cell that hangs", float(sys.argv[1])):
    print("held", flush=True)
    threading.Event().wait()
"""


RESTING = """
import threading
from harness.campaign.lock import others_at_rest, rest
from harness.contract import Device
for _ in range(2):  # after every turn
    rest(Device("cuda"))
assert others_at_rest(Device("cuda", 1)) == 0
print(others_at_rest(Device("cuda")), flush=True)
threading.Event().wait()
"""


ENDING = """
import threading
from harness.campaign.lock import share_until_end
from harness.contract import Device
share_until_end(Device("cuda"))
print("held", flush=True)
threading.Event().wait()
"""


@pytest.fixture
def locks(tmp_path, monkeypatch):
    """Return a folder of locks that no other test uses."""
    folder = tmp_path / "locks"
    monkeypatch.setenv("ONYX_HARNESS_LOCKS", str(folder))
    return folder


def test_a_hanging_holder_ends_at_its_limit_without_a_supervisor(locks):
    holder = subprocess.run(
        [sys.executable, "-c", HOLDER, "0.3"], capture_output=True, text=True, timeout=HANGS_S, check=False
    )
    assert holder.returncode == 1
    assert "most recent call first" in holder.stderr  # where it hung
    with file_lock(device_lock_path(CPU), wait=False):
        pass


def test_the_holder_of_a_device_can_be_queried(locks):
    assert device_holder(CPU) == ""
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, "60"], stdout=subprocess.PIPE, text=True)
    assert holder.stdout.readline() == "held\n"
    assert device_holder(CPU) == f"process {holder.pid}: a cell that hangs"
    with pytest.raises(BlockingIOError), file_lock(device_lock_path(CPU), wait=False):
        pass
    holder.kill()
    holder.communicate()


def test_a_process_shares_its_gpu_until_it_has_ended(locks):
    ending = subprocess.Popen([sys.executable, "-c", ENDING], stdout=subprocess.PIPE, text=True)
    assert ending.stdout.readline() == "held\n"
    path = device_lock_path(GPU)
    with pytest.raises(BlockingIOError), file_lock(path, wait=False):
        pass
    with file_lock(path, wait=False, shared=True):
        pass  # other cells use the GPU meanwhile
    ending.kill()
    ending.communicate()
    with file_lock(path, wait=False):
        pass


def test_processes_that_rest_beside_a_gpu_are_counted_while_they_live(locks):
    assert others_at_rest(GPU) == 0
    resting = []
    for others in range(2):
        resting.append(subprocess.Popen([sys.executable, "-c", RESTING], stdout=subprocess.PIPE, text=True))
        assert resting[-1].stdout.readline() == f"{others}\n"  # a process does not count itself
    assert others_at_rest(GPU) == 2
    for process in resting:
        process.kill()
        process.communicate()
    assert others_at_rest(GPU) == 0
    assert not list(locks.rglob("*.resting"))


@pytest.mark.slow
def test_a_cell_stops_waiting_at_its_limit_and_names_the_holder(locks, command_here, tmp_path):
    limits = ("limits.time_s=8", "limits.wait_s=0.5")  # the first is for everything before the wait, and is used up
    with file_lock(device_lock_path(CPU)) as handle:
        device_lock_path(CPU).write_text("process 7: another cell")
        finished = command_here("algorithm=fake_spread", "graph=fake_ring", "engine=fake_right", *limits)
        assert handle
    assert finished.returncode == 1
    [(_, record)] = read_records(tmp_path / "results")
    assert (record["outcome"], record["stage"]) == ("timeout", "wait")
    assert "s for the cpu, held by process 7: another cell; end that, or raise limits.wait_s" in record["reason"]


def test_a_long_wait_is_reported_once_without_a_terminal(capsys):
    labels = {"graph": "ring", "algorithm": "spread", "engine": "right"}
    with Progress(1) as progress:
        progress.begun("a", labels, 3, 1)
        progress.waiting("a", 0.5, "process 7: [b]another[/b] cell")
        assert capsys.readouterr().out == ""
        for elapsed in (11.0, 12.0):
            progress.waiting("a", elapsed, "process 7: [b]another[/b] cell")
    line = "ring · spread · k=3 · right waits for its device behind process 7: [b]another[/b] cell\n"
    assert capsys.readouterr().out == line


def test_the_wait_for_the_end_of_a_cell_on_a_gpu_is_recorded(locks, tmp_path, monkeypatch):
    """The process waits, at its end, until no cell is timed; that is part of the phase *wait*."""
    monkeypatch.syspath_prepend(str(FAKES))
    fakes = EntryPoint("fakes", "onyx_fakes", "onyx_harness")
    request, report = tmp_path / "request", tmp_path / "report"
    cell = dataclasses.replace(resolve_cell(config(), load_plugins(found=[fakes])), device=GPU)
    request.write_text(json.dumps({"cell": cell.plain(), "folder": str(tmp_path), "memory_bytes": 0}))

    def run_cell(cell, child_report, folder, memory_bytes):
        child_report.stage("rate")
        child_report.end(Outcome.OK)
        phases = Phases()
        phases.seconds = {"open": 1.0, "wait": 2.0}
        return phases

    seen = []

    def end(device):
        seen.append((device, read_report(report)["stage"]))

    monkeypatch.setattr(child, "run_cell", run_cell)
    monkeypatch.setattr(child, "share_until_end", end)
    for opened, waits in ((False, []), (True, [(GPU, "wait")])):
        monkeypatch.setattr(child, "was_opened", lambda _, opened=opened: opened)
        assert child.main([str(request), str(report)]) == 0
        assert seen == waits
    fields = read_report(report)
    assert (fields["outcome"], fields["stage"]) == ("ok", "rate")
    assert fields["phases"]["open"] == 1.0
    assert fields["waited"] == fields["phases"]["wait"] > 2.0


def test_the_file_of_a_lock_has_its_last_holder_and_no_rest_of_another(locks):
    for holder in ("a cell with a long name", "short"):
        with device_lock(CPU, holder, 60.0):
            assert device_holder(CPU) == f"process {os.getpid()}: {holder}"
    assert device_holder(CPU) == f"process {os.getpid()}: short"
