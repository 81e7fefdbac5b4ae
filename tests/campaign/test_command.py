"""The command as a user runs it, on engines with every outcome."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys

import psutil
import pytest

from harness.campaign.resume import SWEEP_FILE, commands_of
from harness.records import read_records
from tests.processes import HANGS_S, gone, until_pending

CELL = ("algorithm=fake_spread", "graph=fake_ring", "baseline=fake_right", "measure.budget_s=0.01")
ENDINGS = {
    "fake_right": ("ok", ""),
    "fake_wrong": ("wrong", "off by 0.5 relative"),
    "fake_nan": ("diverged", "not finite where the reference's are"),
    "fake_raises": ("engine_error", "RuntimeError: the [red]kernel[/red] was refused"),
    "fake_segfault": ("crashed", "SIGSEGV in stage 'solve'"),
    "fake_exits": ("crashed", "exit status 7 in stage 'solve'"),
    "fake_hungry": ("out_of_memory", "no room for 8 arrays"),
    "fake_refuses": ("unsupported", "this engine takes no sums"),
    "fake_wants_much": ("out_of_memory", "the engine needs 1,000,000,000,000,000,000 bytes"),
    "fake_slow": ("out_of_memory", "raise limits.memory_gb"),
    "fake_absent": ("unsupported", "needs the Python module 'no_such_module'"),
    "fake_broken": ("engine_error", "onyx_fakes_engines:Nothing"),
}


def records(folder):
    return {record["config"]["engine"]: record for _, record in read_records(folder / "results")}


def single_error(finished):
    """Return the one line that a refused command ends with."""
    assert finished.returncode == 2, finished.stdout + finished.stderr
    assert "Traceback" not in finished.stderr
    [line] = [line for line in finished.stderr.splitlines() if line.startswith("onyx-harness: error:")]
    return finished.stderr[finished.stderr.index(line) :]


@pytest.mark.short_run(rows=1)
@pytest.mark.slow
def test_every_cell_leaves_a_record_however_it_ends(command, tmp_path):
    finished = command(*CELL, f"engine={','.join(ENDINGS)}", "limits.memory_gb=0.4")
    assert finished.returncode == 1
    assert not finished.stderr
    found = records(tmp_path)
    assert {name: record["outcome"] for name, record in found.items()} == {
        name: end for name, (end, _) in ENDINGS.items()
    }
    for name, (outcome, reason) in ENDINGS.items():
        assert reason in found[name]["reason"]
        assert f"{outcome}: {found[name]['reason']}" in finished.stdout or outcome == "ok"
    assert "refused" in found["fake_raises"]["output"]
    assert found["fake_segfault"]["stage"] == "solve"
    assert "| Fatal Python error: Segmentation fault" in finished.stdout
    assert found["fake_wrong"]["validation"]["error"] == pytest.approx(0.5, rel=1e-3)
    for name in ENDINGS:
        assert found[name]["solve"] is None or found[name]["outcome"] in ("ok", "wrong", "diverged")


def test_a_cell_that_hangs_is_ended_at_its_limit(command, tmp_path):
    finished = command(*CELL, "engine=fake_hangs", "limits.time_s=1.5")
    assert finished.returncode == 1
    assert records(tmp_path)["fake_hangs"]["outcome"] == "timeout"
    assert "timeout: not finished after 1.5 s, in stage" in finished.stdout


@pytest.mark.short_run(rows=1)
def test_an_ok_record_holds_the_whole_run(command, tmp_path):
    finished = command(
        *CELL, "engine=fake_right", "engine.direction=pull", "algorithm.scale=0.5", "measure.repetitions=4",
        "measure.budget_s=60", "measure.width=1e9",
    )  # fmt: skip
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert "fake_right (direction=pull)" in finished.stdout
    assert "fake_spread (scale=0.5)" in finished.stdout
    record = records(tmp_path)["fake_right"]
    assert record["features"] == 3  # auto: the algorithm's default for a ring
    assert record["graph"]["vertices"] == 12
    assert len(record["solve"]["samples"]) >= 4
    assert record["solve"]["minimum"] <= record["solve"]["median"]
    assert record["supersteps"] == [[12, 12, "pull"]] * 10
    assert set(record["phases"]) >= {"open", "trace", "inputs", "support", "compile", "warm_up", "download", "validate"}
    assert record["metrics"] == {"accuracy": pytest.approx(1 / 3, rel=1e-3)}
    assert record["artefacts"] == ["explain.txt", "picture.txt"]
    assert record["schedule"] == {"direction": "pull", "width": 1}
    assert record["environment"]["threads"] >= 1
    [folder] = [path.parent for path, _ in read_records(tmp_path / "results")]
    assert (folder / "picture.txt").read_text() == "a picture"
    description = json.loads((folder.parent / "sweep.json").read_text())
    assert [cell["cell"] for cell in description["cells"]] == [record["cell"]] == [folder.name]


def test_cells_differ_by_every_swept_key_and_are_shown_in_groups(command_here, tmp_path):
    finished = command_here(
        "algorithm=fake_spread", "graph=fake_ring,fake_path", "features=1,2", "engine=fake_right", "validate=false"
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert "4 cells" in finished.stdout
    found = [record for _, record in read_records(tmp_path / "results")]
    assert len({record["identity"] for record in found}) == 4
    assert {record["sweep"] for record in found} == {found[0]["sweep"]}
    assert all(record["validation"] is None for record in found)


@pytest.mark.short_run(rows=1)
def test_a_sweep_resumes_where_it_stopped(command_here, tmp_path):
    sweep = (*CELL, "engine=fake_right,fake_raises")
    first = command_here(*sweep)
    assert first.returncode == 1
    times = {record["config"]["engine"]: record["started"] for _, record in read_records(tmp_path / "results")}
    for path, record in read_records(tmp_path / "results"):
        if record["config"]["engine"] == "fake_right":
            kept = path.stat().st_mtime_ns, path
    again = command_here(*sweep)
    assert "2 cells, 1 on record" in again.stdout
    assert "[1/1] fake_ring · fake_spread · k=3 · fake_raises" in again.stdout
    assert "fake_right" in again.stdout
    assert kept[1].stat().st_mtime_ns == kept[0]
    assert set(times) == set(records(tmp_path))
    none = command_here(*sweep, "rerun=none")
    assert none.returncode == 1
    assert "2 on record" in none.stdout
    assert "[1/" not in none.stdout
    [described] = (tmp_path / "results").glob(f"*/{SWEEP_FILE}")
    assert "2 cells" in command_here(f"sweep.id={described.parent.name}", "baseline=fake_right").stdout
    assert commands_of(described) == [" ".join(sweep)]  # the last one requested no cells
    everything = command_here(*sweep, "rerun=all")
    assert "[2/2]" in everything.stdout
    assert kept[1].stat().st_mtime_ns != kept[0]


def test_half_a_record_is_never_taken_for_a_result(command_here, tmp_path):
    command_here(*CELL, "engine=fake_right")
    [(path, _)] = read_records(tmp_path / "results")
    path.write_text(path.read_text()[:200])
    finished = command_here(*CELL, "engine=fake_right")
    assert finished.returncode == 0
    assert "[1/1]" in finished.stdout
    assert records(tmp_path)["fake_right"]["outcome"] == "ok"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["engine=fake_rihgt"], "no engine called 'fake_rihgt'; did you mean 'fake_right'"),
        (["engine=fake_right,fake_rihgt"], "no engine called 'fake_rihgt'; did you mean 'fake_right'"),
        (["engine.name=fake_wrnog"], "no engine called 'fake_wrnog'; did you mean 'fake_wrong'"),
        (["algorithm=fake_spraed"], "no algorithm called 'fake_spraed'; did you mean 'fake_spread'"),
        (["graph=fake_rign"], "no graph called 'fake_rign'; did you mean 'fake_ring'"),
        (["device=cpuu"], "no device called 'cpuu'; did you mean 'cpu'"),
        (["engine.directon=pull"], "no schedule option 'directon'; did you mean 'direction'"),
        (["algorithm.scael=2"], "no parameter 'scael'; did you mean 'scale'"),
        (["graph.vertexes=2"], "no parameter 'vertexes'; did you mean 'vertices'"),
        (["features=0"], "features is 0"),
        (["featurs=3"], "no key 'featurs'; did you mean 'features'"),
        (["limits.time=3"], "limits has no key 'time'; did you mean 'time_s'"),
        (["rerun=fialed"], "rerun is 'fialed'; did you mean 'failed'"),
        (["features=[3"], "no viable alternative"),
        (["output=/proc/nothing/here"], "/proc/nothing/here cannot be written"),
    ],
)
def test_a_mistake_is_reported_in_one_sentence_before_anything_runs(command_here, tmp_path, arguments, message):
    finished = command_here(*CELL, "engine=fake_right", *arguments)
    assert message in single_error(finished)
    assert "sweep" not in finished.stdout
    assert not list(tmp_path.rglob("record.json"))


def test_an_output_folder_that_is_a_file_is_found_before_the_sweep(command_here, tmp_path):
    (tmp_path / "taken").write_text("a file")
    assert "output folder taken cannot be written" in single_error(
        command_here(*CELL, "engine=fake_right", "output=taken")
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["graph=fake_file", "graph.path=no/such.txt"], "no/such.txt: there is no such file; say graph.path=FILE"),
        (["graph=fake_file", "graph.path=present.txt"], "present.txt, line 1: this is no graph"),
        (["features=65"], "65 features are more than 64; say features=64"),
        (["graph=fake_path"], "no natural number of features on graph 'path'; set features=K"),
    ],
)
def test_unsuitable_input_is_reported_once_for_all_cells(command_here, tmp_path, arguments, message):
    (tmp_path / "present.txt").write_text("nonsense")
    finished = command_here(*CELL, "engine=fake_right,fake_wrong", *arguments)
    assert finished.returncode == 1
    assert finished.stdout.count(message) == 1
    assert "Traceback" not in finished.stdout + finished.stderr
    assert {record["outcome"] for record in records(tmp_path).values()} == {"invalid_input"}
    assert all(record["solve"] is None and record["identity"] is None for record in records(tmp_path).values())


def test_an_unsupported_cell_beside_an_ok_one_is_not_a_failure(command_here):
    finished = command_here(*CELL, "engine=fake_right,fake_refuses")
    assert finished.returncode == 0
    assert not finished.stderr
    assert "unsupported: this engine takes no sums" in finished.stdout


def test_a_sweep_in_which_nothing_ran_fails_unless_that_is_allowed(command_here):
    sweep = (*CELL, "engine=fake_refuses,fake_absent")
    finished = command_here(*sweep)
    assert finished.returncode == 1
    assert finished.stderr.startswith("onyx-harness: nothing ran: every cell is unsupported (allow_unsupported=true")
    again = command_here(*sweep, "allow_unsupported=true")
    assert again.returncode == 0
    assert "2 cells, 2 on record" in again.stdout
    assert not again.stderr


def test_blocked_plugins_are_gone(command_here):
    assert "no engine called 'fake_right'" in single_error(
        command_here(*CELL, "engine=fake_right", "plugins.block=[fakes]")
    )
    blocked = command_here(*CELL, "engine=fake_right", env={"ONYX_HARNESS_BLOCK": "fakes"})
    assert "fake_" in single_error(blocked)


def test_a_plugin_that_crashes_the_interpreter_at_import_is_named(command, tmp_path, harness_environment):
    (tmp_path / "crashing.py").write_text("import ctypes\nctypes.string_at(0)\n")
    information = tmp_path / "crashing-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: crashing\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text("[onyx_harness]\ncrashing = crashing\n")
    path = os.pathsep.join([str(tmp_path), harness_environment["PYTHONPATH"]])
    finished = command("list", env={"PYTHONPATH": path})
    assert finished.returncode == -signal.SIGSEGV
    assert f'File "{tmp_path / "crashing.py"}", line 2' in finished.stderr


def test_names_like_markup_are_shown_as_they_are(command_here):
    finished = command_here("algorithm=fake_spread", "graph='fake_[bold]'", "engine=fake_right", "features=2")
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert "fake_[bold]" in finished.stdout


def test_help_names_everything_that_is_installed(command):
    finished = command("--help")
    assert finished.returncode == 0, finished.stderr
    for line in (
        "fake_right",
        "fake_spread",
        "sums over in-edges",
        "fake_ring",
        "engine=",
        "device",
        "rerun",
        "--multirun",
    ):
        assert line in finished.stdout


def test_the_version_is_reported(command):
    from harness import __version__

    assert command("--version").stdout.strip() == f"onyx-harness {__version__}"


def test_the_configuration_is_shown_without_a_run(command_here, tmp_path):
    finished = command_here("--cfg", "job", *CELL, "engine=fake_right")
    assert finished.returncode == 0, finished.stderr
    assert "name: fake_right" in finished.stdout
    assert not (tmp_path / "results").exists()


def test_the_process_that_shows_the_table_loads_no_numerical_machinery(command, tmp_path, harness_environment):
    source = (
        "import sys\nfrom harness.campaign.application import main\n"
        "try:\n    main(sys.argv[1:])\nexcept SystemExit:\n    pass\n"
        "print('loaded:', [m for m in ('numba', 'cupy', 'scipy.sparse', 'torch') if m in sys.modules])"
    )
    finished = subprocess.run(
        [sys.executable, "-c", source, *CELL, "engine=fake_right"],
        cwd=tmp_path, env=harness_environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "loaded: []" in finished.stdout, finished.stdout + finished.stderr
    assert " ok " in finished.stdout


@pytest.mark.parametrize("times", [1, 2], ids=["once", "twice"])
def test_an_interruption_ends_the_cell_and_is_recorded(tmp_path, interruptible, times):
    pids = tmp_path / "pids"
    os.mkfifo(pids)
    process = interruptible(*CELL, "engine=fake_hangs", env={"FAKE_PID_FILE": str(pids)})
    started = pids.read_text().split()  # written once the engine runs
    supervisor = psutil.Process(int(started[0])).parent()
    if times == 2:  # the second arrives while the first is being handled: a stopped supervisor takes longer to end
        supervisor.suspend()
    try:
        process.send_signal(signal.SIGINT)
        if times == 2:
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it is continued at once and ends
                until_pending(supervisor.pid, signal.SIGTERM)
            process.send_signal(signal.SIGINT)
    finally:
        with contextlib.suppress(psutil.NoSuchProcess):
            supervisor.resume()
    output, _ = process.communicate(timeout=HANGS_S)
    assert process.returncode == 130
    assert "interrupted" in output
    assert records(tmp_path)["fake_hangs"]["outcome"] == "interrupted"
    assert all(map(gone, map(int, started)))


def test_a_baseline_must_be_an_engine(command_here):
    done = command_here("engine=fake_right", "algorithm=fake_spread", "graph=fake_ring", "baseline=scypi")
    assert done.returncode == 2
    assert "there is no engine called 'scypi'; did you mean 'scipy'?" in done.stderr


def test_a_cache_that_is_not_a_folder_is_an_error(command_here, tmp_path):
    (tmp_path / "cache").touch()
    tiny = ("engine=fake_right", "algorithm=fake_spread", "graph=fake_ring")
    done = command_here(*tiny, env={"ONYX_HARNESS_CACHE": str(tmp_path / "cache")})
    assert done.returncode == 2
    assert "the cache cannot be written" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("rerun", ["none", "failed"])
def test_a_record_of_a_later_version_is_not_overwritten(command_here, tmp_path, rerun):
    cell = (*CELL, "engine=fake_right", "features=1")
    assert command_here(*cell).returncode == 0
    [path] = (tmp_path / "results").glob("*/*/record.json")
    later = path.read_text().replace('"schema": ', '"schema": 9')
    path.write_text(later)
    done = command_here(*cell, f"rerun={rerun}")
    assert done.returncode == 2
    assert "install a newer one, or give another folder with output=" in done.stderr
    assert path.read_text() == later
