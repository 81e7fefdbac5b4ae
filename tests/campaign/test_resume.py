"""A sweep that is killed at any instant resumes where it was, also beside another sweep on the same store."""

from __future__ import annotations

import contextlib
import json
import random
import signal
import subprocess
import sys
import time
from collections import Counter

import psutil
import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

from harness.campaign.resume import SWEEP_FILE, commands_of, continued, lasting
from harness.records import read_records
from tests.processes import HANGS_S, LOOK_EVERY_S, never_ending

FEATURES = (1, 2, 3, 4)
SWEEP = (
    "algorithm=fake_spread", "graph=fake_ring", "engine=fake_right", f"features={','.join(map(str, FEATURES))}",
    "measure.budget_s=0.001", "measure.repetitions=1",
)  # fmt: skip


@pytest.fixture
def sweep(tmp_path, harness_environment):
    """Start the sweep in the folder of the test, with its output in a file."""
    environment = {**harness_environment, "FAKE_RUN_LOG": str(tmp_path / "runs.txt"), "SWEEP_MARK": str(tmp_path)}

    def start(*more: str) -> subprocess.Popen[bytes]:
        with (tmp_path / "printed.txt").open("ab") as printed:
            return subprocess.Popen(
                [sys.executable, "-m", "harness", *SWEEP, *more],
                cwd=tmp_path, env=environment, stdout=printed, stderr=subprocess.STDOUT,
            )  # fmt: skip

    return start


def finished(process, folder):
    assert process.wait(timeout=HANGS_S) == 0, (folder / "printed.txt").read_text()


def stored(folder):
    """Return k -> (cell, modification time) of every record."""
    found = [(record["features"], record["cell"], path) for path, record in read_records(folder / "results")]
    assert len({k for k, _, _ in found}) == len(found), "a cell has two records"
    return {k: (cell, path.stat().st_mtime_ns) for k, cell, path in found}


def runs(folder):
    """Return how often each k was begun."""
    log = folder / "runs.txt"
    return Counter(int(line.split()[0]) for line in log.read_text().splitlines()) if log.exists() else Counter()


def until_it_has_run(process, folder, cells):
    """Return once that number of runs has begun, or the process has ended."""
    until = time.monotonic() + HANGS_S
    while sum(runs(folder).values()) < cells and time.monotonic() < until:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=LOOK_EVERY_S)
            return


def left_over(folder):
    """Return the processes of the sweep that still exist."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("SWEEP_MARK") == str(folder) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


@pytest.mark.slow
def test_a_sweep_killed_again_and_again_ends_whole(sweep, tmp_path):
    """Each kill comes a little after the sweep has begun another cell."""
    known, kills = {}, 2
    draw = random.Random(11)
    for _ in range(kills):
        process, begun = sweep(), sum(runs(tmp_path).values())
        until_it_has_run(process, tmp_path, begun + 1)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=draw.uniform(0.0, 0.4))
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert not never_ending(one.pid for one in left_over(tmp_path))
        now = stored(tmp_path)
        assert now.items() >= known.items(), "a record was lost or rewritten"
        known = now
    finished(sweep(), tmp_path)
    now = stored(tmp_path)
    assert set(now) == set(FEATURES)
    assert now.items() >= known.items()
    begun = runs(tmp_path)
    assert sum(begun.values()) <= len(FEATURES) + kills  # only cells in flight run again
    [folder] = (tmp_path / "results").glob("*/")
    assert not [path for path in (folder / ".running").iterdir() if path.is_dir()]


@pytest.mark.slow
def test_two_sweeps_at_once_share_the_work(sweep, tmp_path):
    both = [sweep(), sweep()]
    for process in both:
        finished(process, tmp_path)
    assert set(stored(tmp_path)) == set(FEATURES)
    assert runs(tmp_path) == Counter(FEATURES)


@pytest.mark.slow
def test_of_two_sweeps_at_once_one_may_be_killed(sweep, tmp_path):
    draw = random.Random(5)
    stays, goes = sweep(), sweep()
    for _ in range(2):
        try:
            goes.wait(timeout=draw.uniform(0.8, 1.6))
        except subprocess.TimeoutExpired:
            goes.send_signal(signal.SIGKILL)
            goes.wait()
        goes = sweep()
    finished(stays, tmp_path)
    finished(goes, tmp_path)
    assert set(stored(tmp_path)) == set(FEATURES)
    assert sum(runs(tmp_path).values()) <= len(FEATURES) + 2


@pytest.mark.full
@pytest.mark.parametrize("seed", range(20))
def test_many_instants(sweep, tmp_path, seed):
    draw = random.Random(seed)
    for _ in range(8):
        process = sweep()
        try:
            process.wait(timeout=draw.uniform(0.3, 3.0))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
    finished(sweep(), tmp_path)
    assert set(stored(tmp_path)) == set(FEATURES)


def test_a_finished_sweep_runs_nothing(command_here, monkeypatch, tmp_path):
    assert command_here(*SWEEP).returncode == 0
    before = stored(tmp_path)
    monkeypatch.setattr("harness.campaign.sweep.run_cell", lambda *_, **__: pytest.fail("a cell was run"))
    again = command_here(*SWEEP)
    assert again.returncode == 0, again.stdout + again.stderr
    assert f"{len(FEATURES)} on record" in again.stdout
    assert stored(tmp_path) == before


def test_cells_can_be_added_to_a_sweep_with_a_given_id(command_here, tmp_path):
    cells = ("algorithm=fake_spread", "graph=fake_ring", "sweep.id=mine", "measure.budget_s=0.001")
    assert command_here(*cells, "engine=fake_right").returncode == 0
    added = command_here(*cells, "engine=fake_right,fake_refuses")
    assert "2 cells, 1 on record" in added.stdout
    assert {record["sweep"] for _, record in read_records(tmp_path / "results")} == {"mine"}
    assert len(list(read_records(tmp_path / "results" / "mine"))) == 2


def test_a_sweep_resumes_by_its_id(command_here, tmp_path):
    sweep = ("algorithm=fake_spread", "graph=fake_ring", "engine=fake_right,fake_raises", "measure.budget_s=0.001")
    assert command_here(*sweep).returncode == 1
    before = {record["cell"]: record["outcome"] for _, record in read_records(tmp_path / "results")}
    [folder] = (tmp_path / "results").glob("*/")
    again = command_here(f"sweep.id={folder.name}", "rerun=none")
    assert "2 cells, 2 on record" in again.stdout
    failed = command_here(f"sweep.id={folder.name}")
    assert "2 cells, 1 on record" in failed.stdout
    assert "engine_error" in failed.stdout
    assert {record["cell"]: record["outcome"] for _, record in read_records(tmp_path / "results")} == before
    more = command_here(f"sweep.id={folder.name}", "rounds=2")
    assert "4 cells, 1 on record" in more.stdout
    assert commands_of(folder / SWEEP_FILE) == [" ".join(sweep)]


def overrides(*lines):
    return OverridesParser.create().parse_overrides(list(lines))


def test_settings_of_the_command_that_resumes_come_last_and_win(tmp_path):
    cells = [{"cell": name, "overrides": ["engine=onyx", "limits.time_s=9", "rounds=2"]} for name in ("a", "b")]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / SWEEP_FILE).write_text(json.dumps({"cells": cells}), "utf-8")
    now = ["sweep.id=mine", "limits.time_s=5", "rounds=2"]
    found = continued(overrides(*now), str(tmp_path))
    assert found == [["engine=onyx", "limits.time_s=9", *now]] * 2
    assert continued(overrides(*now, "engine=scipy"), str(tmp_path)) is None
    assert continued(overrides("sweep.id=other"), str(tmp_path)) is None


@pytest.mark.parametrize(
    ("line", "resumes"),
    [
        ("output={folder}", True), ("rerun=all", True), ("fail_fast=true", True), ("dry_run=true", True),
        ("allow_unsupported=true", True), ("baseline=scipy", True), ("rounds=3", True), ("more_rounds=disturbed", True),
        ("limits.time_s=5", True), ("limits.memory_gb=5", True), ("rounds=2,3", False), ("measure.width=0.1", False),
        ("engine=scipy", False), ("features=8", False), ("validate=false", False), ("sweep.cell=a", False),
    ],
)  # fmt: skip
def test_an_id_with_the_manner_of_running_names_no_cells(tmp_path, line, resumes):
    (tmp_path / "mine").mkdir()
    cells = [{"cell": "a", "overrides": ["engine=onyx"]}]
    (tmp_path / "mine" / SWEEP_FILE).write_text(json.dumps({"cells": cells}), "utf-8")
    now = ["sweep.id=mine", line.format(folder=tmp_path)]
    assert continued(overrides(*now), str(tmp_path)) == ([["engine=onyx", *now]] if resumes else None)


def test_what_applies_to_one_command_is_not_kept():
    once = ["sweep.id=mine", "output=there", "rerun=all", "fail_fast=true", "dry_run=true", "allow_unsupported=true"]
    kept = ["engine=onyx", "rounds=2", "limits.time_s=9"]
    assert lasting([*once, *kept]) == kept


def test_an_id_must_be_a_name(command):
    refused = command("engine=fake_right", "sweep.id='../elsewhere'")
    assert refused.returncode == 2
    assert "sweep.id is '../elsewhere'; it must be letters" in refused.stderr
