"""Rounds, early stops, dry runs and launchers of a sweep."""

from __future__ import annotations

import importlib.util
import itertools
import os
import signal
import subprocess
import sys
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import psutil
import pytest
from rich.text import Text

from harness.campaign.errors import CampaignError
from harness.campaign.journal import Journal
from harness.campaign.plan import in_turns, quoted
from harness.campaign.sweep import _launch
from harness.records import read_records
from harness.report.progress import in_flight, time_left
from tests.processes import HANGS_S, never_ending, vanishes

CELL = ("algorithm=fake_spread", "graph=fake_ring", "baseline=fake_right", "measure.budget_s=0.001")
LAUNCHERS = {
    "joblib": ["hydra.launcher.n_jobs=2"],
    "submitit_local": [],
    "ray": ["+hydra.launcher.ray.init.num_cpus=2"],
}


def present(launcher: str) -> bool:
    package = launcher.partition("_")[0]
    return importlib.util.find_spec(f"hydra_plugins.hydra_{package}_launcher") is not None


def records(folder):
    return [record for _, record in read_records(folder / "results")]


def test_rounds_go_through_all_cells_again_and_are_shown_as_one(command_here, tmp_path):
    finished = command_here(*CELL, "engine=fake_right,fake_refuses", "rounds=3")
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert "6 cells" in finished.stdout
    found = sorted(records(tmp_path), key=lambda record: record["started"])
    assert sorted((record["round"], record["config"]["engine"]) for record in found) == [
        (turn, engine) for turn in (1, 2, 3) for engine in ("fake_refuses", "fake_right")
    ]
    shown = [line for line in finished.stdout.splitlines() if " · round " in line]
    assert [line.partition("round ")[2][0] for line in shown] == ["2", "2", "3", "3"]
    table = finished.stdout.partition("speed-up")[2]
    assert table.count(" fake_right ") == 1
    assert len({record["identity"] for record in found if record["outcome"] == "ok"}) == 1


def test_more_rounds_extend_the_same_sweep(command_here, tmp_path):
    command_here(*CELL, "engine=fake_right")
    finished = command_here(*CELL, "engine=fake_right", "rounds=2")
    assert "2 cells, 1 on record" in finished.stdout


def test_no_cell_starts_after_a_failure_if_requested(command_here, tmp_path):
    finished = command_here(*CELL, "engine=fake_refuses,fake_raises,fake_right", "fail_fast=true")
    assert finished.returncode == 1
    assert {record["config"]["engine"] for record in records(tmp_path)} == {"fake_refuses", "fake_raises"}
    assert "1 of 3 cells have not been run" in finished.stdout


def test_a_dry_run_shows_the_cells_and_the_reasons(command_here, tmp_path):
    command_here(*CELL, "engine=fake_right,fake_raises")
    before = sorted(path for path in (tmp_path / "results").rglob("*"))
    finished = command_here(
        *CELL, "engine=fake_right,fake_raises,fake_absent,fake_wrong", "dry_run=true", "sweep.id=null"
    )
    assert finished.returncode == 0
    assert "3 of 4 cells would be run" in finished.stdout
    named = command_here(*CELL, "engine=fake_right,fake_raises", "dry_run=true")
    assert "ok is on record, rerun=failed leaves it" in named.stdout
    assert "engine_error is on record, rerun=failed runs it again" in named.stdout
    assert "unsupported: engine 'fake_absent' needs the Python module 'no_such_module'" in finished.stdout
    assert sorted(path for path in (tmp_path / "results").rglob("*")) == before


@pytest.mark.slow
@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_any_launcher_runs_the_cells(command, tmp_path, launcher):
    if not present(launcher):
        pytest.skip(f"needs the extra {launcher.partition('_')[0]!r}")
    finished = command(
        *CELL, "engine=fake_right,fake_segfault", "features=2", f"hydra/launcher={launcher}", *LAUNCHERS[launcher]
    )
    assert finished.returncode == 1, finished.stdout + finished.stderr
    outcomes = {record["config"]["engine"]: record["outcome"] for record in records(tmp_path)}
    assert outcomes == {"fake_right": "ok", "fake_segfault": "crashed"}
    for number in (1, 2):
        assert f"[{number}/2]" in finished.stdout


@pytest.mark.slow
@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_killed_sweep_leaves_no_process_behind(tmp_path, harness_environment, launcher):
    if not present(launcher):
        pytest.skip(f"needs the extra {launcher.partition('_')[0]!r}")
    pids = tmp_path / "pids"
    os.mkfifo(pids)
    environment = {**harness_environment, "FAKE_PID_FILE": str(pids), "SWEEP_MARK": str(tmp_path)}
    process = subprocess.Popen(
        [sys.executable, "-m", "harness", *CELL, "engine=fake_hangs,fake_right",
         f"hydra/launcher={launcher}", *LAUNCHERS[launcher]],
        cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    assert len(pids.read_text().split()) == 2  # written once the engine runs
    ours = marked(tmp_path)
    assert len(ours) > 3
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not never_ending(one.pid for one in ours)
    for left in Path("/dev/shm").glob(f"*loky-{process.pid}-*"):
        assert vanishes(left)


def test_a_launcher_whose_worker_was_killed_says_how_to_resume():
    class Killed:
        def launch(self, jobs, initial_job_idx):
            raise BrokenProcessPool("A worker was killed\nwith a long list of processes")

    with pytest.raises(CampaignError, match=r"died \(A worker was killed\); the same command resumes the sweep"):
        _launch(Killed(), [], 0)


def marked(folder):
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("SWEEP_MARK") == str(folder):
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_sweep_records_what_it_stopped(tmp_path, interruptible, stop):
    pids = tmp_path / "pids"
    os.mkfifo(pids)
    process = interruptible(*CELL, "engine=fake_hangs,fake_right", env={"FAKE_PID_FILE": str(pids)})
    pids.read_text()
    process.send_signal(stop)
    output, _ = process.communicate(timeout=HANGS_S)
    assert process.returncode == {signal.SIGINT: 130, signal.SIGTERM: 143}[stop]
    assert "1 of 2 cells have not been run" in output
    [record] = records(tmp_path)
    assert record["outcome"] == "interrupted"


def test_a_journal_tells_each_line_once_and_half_a_line_later(tmp_path):
    journal = Journal(tmp_path / "a.journal")
    assert list(journal.news()) == []
    journal.begin("a")
    journal.end("a", "ok")
    assert list(journal.news()) == [("begin", "a", ""), ("end", "a", "ok")]
    assert list(journal.news()) == []
    assert not journal.failed()
    with journal.path.open("a") as file:
        file.write("end b cra")
    assert list(journal.news()) == []
    with journal.path.open("a") as file:
        file.write("shed\n")
    assert list(journal.news()) == [("end", "b", "crashed")]
    assert journal.failed()


@pytest.mark.parametrize(
    ("done", "total", "elapsed", "text"),
    [(1, 1, 5.0, ""), (1, 3, 5.0, ", about 10 s left"), (2, 4, 600.0, ", about 10 min left"),
     (1, 5, 3600.0, ", about 4.0 h left")],
)  # fmt: skip
def test_the_time_left_follows_from_the_time_taken(done, total, elapsed, text):
    assert time_left(done, total, elapsed) == text


def test_progress_shows_running_cells_and_otherwise_the_remaining_ones():
    assert in_flight([Text("a"), Text("b")], ", about 5 s left").plain == "running a, b, about 5 s left"
    assert in_flight([], ", about 5 s left").plain == "the next cell, about 5 s left"


@pytest.mark.parametrize("text", ["12e5", "a b", "it's", "back\\slash", "ends\\", "with\\'both", "comma,colon: {}"])
def test_a_quoted_text_comes_through_hydras_grammar(text):
    from hydra.core.override_parser.overrides_parser import OverridesParser

    [override] = OverridesParser.create().parse_overrides([f"key={quoted(text)}"])
    assert override.value() == text


def test_jobs_that_run_at_once_ask_for_different_problems(plan):
    found = plan(
        "engine=onyx,gunrock,tigr", "algorithm=pagerank,label_propagation", "features=2,4",
        "graph=small_social,small_road", "rounds=2",
    )  # fmt: skip
    cells = [planned.cell for planned in in_turns(found.cells)]
    assert sorted(map(id, cells)) == sorted(id(planned.cell) for planned in found.cells)
    for first in range(0, len(cells), 4):  # four problems on each graph
        window = cells[first : first + 4]
        assert len({(cell.algorithm, cell.features) for cell in window}) == 4
        assert len({(cell.round, cell.graph, cell.engine) for cell in window}) == 1
    assert [cell.round for cell in cells] == [1] * 24 + [2] * 24
    assert [cell.graph_parameters for cell in cells[:12]].count(cells[0].graph_parameters) == 12


def test_graphs_of_other_parameters_are_other_graphs_for_jobs_at_once(plan):
    """All cells of one graph come before those of the next, which need not be in memory at the same time."""
    found = plan("engine=onyx,gunrock", "algorithm=pagerank,label_propagation", "graph=grid", "graph.rows=5,6")
    rows = [planned.cell.graph_parameters["rows"] for planned in in_turns(found.cells)]
    assert [(number, len(list(cells))) for number, cells in itertools.groupby(rows)] == [(5, 4), (6, 4)]
