"""After any fault of an engine, a disk or a clock nothing is lost, and the record or the error names the fault."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time

import pytest

from harness.campaign.journal import Journal
from harness.records import read_records
from tests.processes import HANGS_S, gone

CELL = ("algorithm=fake_spread", "graph=fake_ring", "measure.budget_s=0.001", "measure.repetitions=1")
# In a separate mount namespace, so that other processes do not see the file system and nothing must be unmounted.
APART = ["unshare", "--map-root-user", "--mount", "sh", "-c"]


def records(folder):
    return {record["config"]["engine"]: record for _, record in read_records(folder)}


@pytest.mark.short_run(rows=1)
@pytest.mark.slow
def test_engines_that_misbehave_beside_their_answer(command_here, tmp_path):
    elsewhere, left = tmp_path / "elsewhere", tmp_path / "left"
    elsewhere.mkdir()
    engines = "fake_verbose,fake_binary,fake_straying,fake_deserting,fake_misshapen,fake_listing"
    finished = command_here(
        *CELL, f"engine={engines}", env={"FAKE_ELSEWHERE": str(elsewhere), "FAKE_LEFT_BEHIND": str(left)}
    )
    assert finished.returncode == 1, finished.stderr
    found = records(tmp_path / "results")
    assert {name: record["outcome"] for name, record in found.items()} == {
        "fake_verbose": "ok", "fake_binary": "crashed", "fake_straying": "ok", "fake_deserting": "ok",
        "fake_misshapen": "engine_error", "fake_listing": "engine_error",
    }  # fmt: skip
    misshapen = (
        "values('x') is an array of dtype float32 and shape (11, 3); it must be of dtype float32 and shape (12, 3)"
    )
    assert misshapen in found["fake_misshapen"]["reason"]
    assert "of type list; it must be a NumPy array" in found["fake_listing"]["reason"]
    assert "with exit status 3" in found["fake_binary"]["reason"]
    assert "\x1b" not in finished.stdout  # unprintable output is shown without its effects
    assert "picture.txt" in found["fake_straying"]["artefacts"]
    assert [path.name for path in elsewhere.iterdir()] == ["record.json"]
    assert all(map(gone, map(int, left.read_text().split())))
    folder = tmp_path / "results" / found["fake_verbose"]["sweep"] / found["fake_verbose"]["cell"]
    assert (folder / "output.txt").stat().st_size >= 2_000_000


WAYS = {  # way of damaging a work folder -> the outcome, and words of the reason
    "record": ("engine_error", "the engine, or another plugin, left a record.json, a name reserved for the harness"),
    "garbage": ("engine_error", "damaged report.jsonl"),
    "truncated": ("engine_error", "wrote an invalid record"),
    "fifo": ("ok", ""),
    "removed": ("engine_error", "removed or replaced its work folder"),
    "linked": ("engine_error", "removed or replaced its work folder"),
    "unmade": ("engine_error", "removed or replaced the folder of its artefacts"),
    "links": ("engine_error", "left link, which is neither a file nor a folder"),
    "closing": ("crashed", "with exit status 1 in stage"),
    "full": ("crashed", "with exit status 74"),
}


@pytest.mark.slow
def test_an_engine_that_damages_its_work_folder_fails_only_in_its_cell(command_here, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "made").mkdir(parents=True)
    (elsewhere / "made" / "mine").touch()
    ways = f"engine.direction={','.join(WAYS)}"
    finished = command_here(*CELL, "engine=fake_damaging", ways, env={"FAKE_ELSEWHERE": str(elsewhere)})
    assert finished.returncode == 1, finished.stderr
    found = {record["schedule"]["direction"]: record for _, record in read_records(tmp_path / "results")}
    assert found.keys() == WAYS.keys()
    for way, (outcome, reason) in WAYS.items():
        assert (found[way]["outcome"], reason in found[way]["reason"]) == (outcome, True), (way, found[way]["reason"])
    assert "on the way out" in found["removed"]["output"]
    assert sorted(path.name for path in elsewhere.rglob("*")) == ["made", "mine", "picture.txt"]
    [folder] = (tmp_path / "results").glob("*/")
    assert [path.name for path in (folder / ".running").iterdir()] == ["sweep.lock"]
    page = (folder / "report.html").read_text()
    assert all(f"direction={way}" in finished.stdout and f"direction={way}" in page for way in WAYS)


@pytest.mark.slow
def test_a_validated_answer_counts_even_if_its_process_hangs(command_here, tmp_path):
    finished = command_here(*CELL, "engine=fake_lingering", "limits.time_s=60")
    assert finished.returncode == 0, finished.stdout
    assert records(tmp_path / "results")["fake_lingering"]["seconds"] < 60


@pytest.mark.slow
def test_an_error_of_fifty_megabytes_is_shortened(command_here, tmp_path):
    finished = command_here(*CELL, "engine=fake_verbose_error")
    assert len(finished.stdout) < 30_000
    [(path, record)] = read_records(tmp_path / "results")
    assert record["reason"].startswith("RuntimeError: xxx")
    assert record["reason"].endswith(" characters left out]")
    assert path.stat().st_size < 50_000
    assert (path.parents[1] / "report.html").stat().st_size < 200_000


@pytest.mark.short_run(rows=1)
@pytest.mark.slow
def test_engines_that_would_falsify_a_comparison_end_in_their_own_cells(command_here, tmp_path):
    engines = "fake_moving,fake_overwriting,fake_quitting,fake_warped,fake_right"
    places = {"ONYX_HARNESS_CACHE": str(tmp_path / "cache"), "FAKE_ELSEWHERE": str(tmp_path / "elsewhere")}
    finished = command_here(*CELL, f"engine={engines}", env=places)
    assert finished.returncode == 1, finished.stderr
    found = records(tmp_path / "results")
    expected = {
        "fake_moving": ("ok", ""),
        "fake_overwriting": ("engine_error", "InputsChanged: the engine wrote to input start"),
        "fake_quitting": ("engine_error", "SystemExit: 0"),
        "fake_warped": ("implausible", "by the clock of the cell's process"),
        "fake_right": ("ok", ""),
    }
    for engine, (outcome, reason) in expected.items():
        assert (found[engine]["outcome"], reason in found[engine]["reason"]) == (outcome, True), found[engine]["reason"]
    assert 0 < found["fake_right"]["validation"]["error"] < 1e-6
    assert not (tmp_path / "elsewhere").exists()  # neither a cache nor locks


@pytest.mark.slow
def test_an_engine_that_prints_without_end_is_ended_and_fills_no_disk(command_here, tmp_path):
    finished = command_here(*CELL, "engine=fake_shouting", "limits.time_s=2")
    assert finished.returncode == 1
    record = records(tmp_path / "results")["fake_shouting"]
    assert record["outcome"] == "timeout"
    assert sum(path.stat().st_size for path in (tmp_path / "results").rglob("*")) < 2_300_000
    assert len(record["output"]) <= 20_000


@pytest.fixture
def on_its_own_disk(tmp_path, harness_environment):
    """Run the command with another file system mounted on its folder of results, which is then copied to ``kept``."""
    if shutil.which("unshare") is None or subprocess.run([*APART, "mount -t tmpfs none /mnt"], check=False).returncode:
        pytest.skip("mounting is not allowed here")

    def run(mount: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        script = f'{mount} && "$@"; status=$?; cp -r results kept; exit $status'
        return subprocess.run(
            [*APART, script, "sh", sys.executable, "-m", "harness", *arguments],
            cwd=tmp_path, env=harness_environment, capture_output=True, text=True, timeout=HANGS_S, check=False,
        )  # fmt: skip

    (tmp_path / "results").mkdir()
    return run


@pytest.mark.slow
def test_a_full_disk_is_reported_and_records_stay(on_its_own_disk, command_here, tmp_path):
    sweep = (*CELL, "engine=fake_right,fake_verbose,fake_wrong")
    finished = on_its_own_disk("mount -t tmpfs -o size=1500k none results", *sweep)
    assert finished.returncode == 2
    [error] = finished.stderr.splitlines()
    assert "output folder results cannot be written (No space left on device); free some space" in error
    assert records(tmp_path / "kept").keys() == {"fake_right", "fake_wrong"}
    assert "1 of 3 cells have not been run" in finished.stdout
    again = command_here(*sweep, "output=kept")
    assert "3 cells, 1 on record" in again.stdout
    outcomes = {name: record["outcome"] for name, record in records(tmp_path / "kept").items()}
    assert outcomes == {"fake_right": "ok", "fake_verbose": "ok", "fake_wrong": "wrong"}


@pytest.mark.slow
def test_a_cache_that_cannot_be_written_ends_the_sweep_and_blames_no_cell(command_here, tmp_path):
    cache = tmp_path / "cache"
    cache.mkdir()
    sweep, environment = (*CELL, "engine=fake_right,fake_wrong"), {"ONYX_HARNESS_CACHE": str(cache)}
    for part in ("entries", "graphs", "references"):
        if (cache / part).exists():
            shutil.rmtree(cache / part)
        (cache / part).touch()  # a file in the place of the folder
        finished = command_here(*sweep, env=environment)
        assert finished.returncode == 2, part
        [error] = finished.stderr.splitlines()
        assert f"error: {cache}: the cache cannot be written (" in error
        assert "free some space or set ONYX_HARNESS_CACHE; existing records are kept" in error
        assert not records(tmp_path / "results")
        (cache / part).unlink()
    again = command_here(*sweep, env=environment)
    assert again.returncode == 1
    assert {name: record["outcome"] for name, record in records(tmp_path / "results").items()} == {
        "fake_right": "ok", "fake_wrong": "wrong",
    }  # fmt: skip


def test_a_journal_on_a_full_disk_says_so_and_a_line_cut_short_is_passed_over(tmp_path):
    full = Journal(tmp_path / "full.journal")
    full.path.symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left on device"):
        full.begin("a1")
    torn = Journal(tmp_path / "torn.journal")
    torn.path.write_text("begin a1\nend a")
    torn.end("b2", "ok")
    torn.begin("c3")
    assert list(torn.news()) == [("begin", "a1", ""), ("begin", "c3", "")]


def test_too_little_room_is_found_before_the_sweep(on_its_own_disk):
    finished = on_its_own_disk("mount -t tmpfs -o size=100k none results", *CELL, "engine=fake_right,fake_wrong")
    assert finished.returncode == 2
    assert "bytes are free in output folder results, for 2 cells" in finished.stderr
    assert finished.stdout == ""


def test_a_read_only_store_is_found_before_the_sweep(on_its_own_disk, tmp_path):
    (tmp_path / "results" / "before.txt").write_text("here")
    mount = "mount --bind results results && mount -o remount,bind,ro results results"
    finished = on_its_own_disk(mount, *CELL, "engine=fake_right")
    assert finished.returncode == 2
    assert "output folder results cannot be written (Read-only file system)" in finished.stderr
    assert finished.stdout == ""
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["before.txt"]


CLOCK = """
import datetime, itertools, time
steps, true = itertools.count(1), time.time
time.time = lambda: true() - 3600 * next(steps)
time.time_ns = lambda: int(time.time() * 1e9)
class Backwards(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls.fromtimestamp(time.time(), tz)
datetime.datetime = Backwards
"""


@pytest.mark.slow
def test_a_clock_that_steps_back_changes_nothing(command, command_here, tmp_path):
    (tmp_path / "clock").mkdir()
    (tmp_path / "clock" / "sitecustomize.py").write_text(CLOCK)
    command_here(*CELL, "engine=fake_right,fake_raises")
    tomorrow = time.time() + 86_400
    for path in (tmp_path / "results").rglob("*"):
        os.utime(path, (tomorrow, tomorrow))
    before = {path: path.stat().st_mtime_ns for path, _ in read_records(tmp_path / "results")}
    path = os.pathsep.join([str(tmp_path / "clock"), command_path()])
    finished = command(*CELL, "engine=fake_right,fake_raises", env={"PYTHONPATH": path})
    assert finished.returncode == 1, finished.stderr
    assert "2 cells, 1 on record" in finished.stdout
    found = dict(read_records(tmp_path / "results"))
    assert {record["outcome"] for record in found.values()} == {"ok", "engine_error"}
    for path, record in found.items():
        assert (path.stat().st_mtime_ns == before[path]) is (record["outcome"] == "ok")
        assert record["seconds"] > 0
        assert min(record["phases"].values()) >= 0


def command_path():
    from tests.conftest import FAKES, ROOT

    return os.pathsep.join([str(ROOT), str(FAKES)])
