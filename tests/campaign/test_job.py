"""A job leaves one record, whatever its process does: the process is replaced by a function that writes its report."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from importlib.metadata import EntryPoint
from types import SimpleNamespace

import pytest

from harness.campaign import job
from harness.campaign.cell import resolve_cell
from harness.campaign.child_report import STORE_STATUS
from harness.campaign.errors import CampaignError
from harness.campaign.job import Assignment, memory_bytes, run_cell, stamp, unwritable
from harness.campaign.process import Ending
from harness.plugins import load_plugins
from harness.records import read_record, write_record
from harness.records.outcome import Outcome
from harness.records.text import TEXT_LIMIT
from tests.campaign.test_cell import config
from tests.conftest import FAKES
from tests.records.samples import record, solved

ENDED = Ending(0, None, 2.5, 3_000_000_000)
OK = {
    "stage": "validate", "outcome": "ok", "reason": "", "identity": "i" * 32, "features": 4, "bytes_needed": 7,
    "graph": {"name": "ring", "vertices": 12, "edges": 12, "content_hash": "h"}, "solve": solved([0.1] * 7),
    "others": 0.25, "gpu_peak_bytes": None, "waited": 1.5,
}  # fmt: skip


@pytest.fixture
def assignment(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(FAKES))
    registry = load_plugins(found=[EntryPoint("fakes", "onyx_fakes", "onyx_harness")])
    settings = config(limits={"time_s": 10, "memory_gb": 4, "wait_s": 100}, algorithm__seed=None)
    del settings["algorithm"]["seed"]
    cell = dataclasses.replace(resolve_cell(settings, registry), round=2)
    (tmp_path / "mine").mkdir()
    return Assignment(cell, "mine", "c" * 24, tmp_path / "mine" / ("c" * 24), stamp(tmp_path / "mine" / ("c" * 24)))


@pytest.fixture
def run(assignment, monkeypatch):
    """Run a job whose process writes these fields and ends in this way; return its record."""

    def attempt(fields, ending=ENDED, also=lambda work: None, assignment=assignment):
        def child(given, work):
            assert given is assignment
            work.request.write_text("{}")
            work.report.write_text("".join(json.dumps({key: value}) + "\n" for key, value in fields.items()))
            also(work)
            if isinstance(ending, BaseException):
                raise ending
            return ending

        monkeypatch.setattr(job, "_run_child", child)
        return read_record(run_cell(assignment))

    return attempt


def test_the_record_of_a_correct_run(run, assignment):
    made = run(OK, also=lambda work: (work.made / "b.npz").write_text("x") and (work.made / "a.png").write_text("y"))
    cell = assignment.cell
    assert {name: made[name] for name in OK if name not in ("others", "gpu_peak_bytes", "waited")} == {
        name: value for name, value in OK.items() if name not in ("others", "gpu_peak_bytes", "waited")
    }
    assert (made["sweep"], made["cell"], made["round"], made["seconds"]) == ("mine", "c" * 24, 2, 2.5)
    assert made["artefacts"] == ["a.png", "b.npz"]
    assert (assignment.folder / "a.png").read_text() == "y"
    assert made["schedule"] == {"direction": "push", "width": 1}
    assert made["labels"] == cell.labels
    assert made["sources"] == cell.sources
    assert made["seeds"] == {}
    assert not {"labels", "sources", "graph_sources"} & set(made["config"])
    assert (made["config"]["engine"], made["config"]["features"]) == ("fake_right", 4)
    machine = made["environment"]
    assert (machine["threads"], machine["other_cores"], machine["peak_bytes"]) == (1, 0.25, 3_000_000_000)
    assert (machine["gpu"], machine["gpu_peak_bytes"]) == (None, None)
    assert "waited" not in made
    assert made["output"] == "", "only failures show it"
    assert made["started"].endswith("+00:00")
    assert not job.work_folder(assignment.folder).exists()


def test_a_record_has_what_ran_and_where(run, assignment):
    """The schedule is the resolved one; the peak and the state of the GPU are those that the cell reports."""
    parameters, graph_parameters = {"scale": 1.0, "seed": 5}, {"vertices": 12, "seed": 7}
    cell = dataclasses.replace(assignment.cell, parameters=parameters, graph_parameters=graph_parameters)
    gpu = {"name": "card", "others": 0}
    fields = {**OK, "schedule": {"direction": "pull", "width": 9}, "gpu": gpu, "gpu_peak_bytes": 123}

    def also(work):
        (work.made / "images").mkdir()
        (work.made / "images" / "one.png").write_text("x")
        work.output.write_text("a warning\n")

    made = run(fields, also=also, assignment=dataclasses.replace(assignment, cell=cell))
    assert made["seeds"] == {"algorithm.seed": 5, "graph.seed": 7}
    assert made["schedule"] == {"direction": "pull", "width": 9}
    assert made["config"]["schedule"] == {"direction": "push", "width": 1}
    assert (made["config"]["round"], made["config"]["parameters"]) == (2, parameters)
    assert (made["environment"]["gpu"], made["environment"]["gpu_peak_bytes"]) == (gpu, 123)
    assert made["artefacts"] == ["images"]
    assert (made["output"], (assignment.folder / "output.txt").read_text()) == ("", "a warning\n")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", made["started"])


@pytest.mark.parametrize("seed", [None, "random", 0.5])
def test_only_numbers_are_seeds_on_record(run, assignment, seed):
    cell = dataclasses.replace(assignment.cell, parameters={"seed": seed}, graph_parameters={"seed": 0})
    assert run(OK, assignment=dataclasses.replace(assignment, cell=cell))["seeds"] == {"graph.seed": 0}


@pytest.mark.parametrize(
    ("fields", "ending", "outcome", "reason"),
    [
        (
            {"stage": "rate"},
            Ending(-signal.SIGSEGV, None, 1.0, 0),
            "crashed",
            "the process died by SIGSEGV in stage 'rate'",
        ),
        ({}, Ending(3, None, 1.0, 0), "crashed", "the process died with exit status 3 in stage 'start'"),
        (
            {"stage": "upload"},
            Ending(-signal.SIGKILL, None, 1.0, 0),
            "crashed",
            "the process died by SIGKILL, as by the system when memory runs out, in stage 'upload'",
        ),
        (
            {"stage": "rate"},
            Ending(-9, Outcome.TIMEOUT, 11.5, 0),
            "timeout",
            "not finished after 10 s, in stage 'rate'; raise limits.time_s",
        ),
        (
            {"stage": "wait", "wait_began": None, "waited": 61.7, "behind": "process 7: sssp"},
            Ending(-9, Outcome.TIMEOUT, 110.0, 0),
            "timeout",
            "waited 62 s for the cpu, held by process 7: sssp; end that, or raise limits.wait_s",
        ),
        (
            {"stage": "inputs"},
            Ending(-9, Outcome.OUT_OF_MEMORY, 1.0, 4_120_000_000),
            "out_of_memory",
            "4.12 GB resident in stage 'inputs', and the limit is 4 GB; raise limits.memory_gb",
        ),
        ({"outcome": "wrong", "reason": "off by 3"}, Ending(-11, None, 1.0, 0), "wrong", "off by 3"),
        ({"outcome": "unsupported", "reason": "no"}, Ending(-9, Outcome.TIMEOUT, 1.0, 0), "unsupported", "no"),
        (OK, Ending(STORE_STATUS, None, 1.0, 0), "ok", ""),
        (
            {"stage": "rate"},
            Ending(STORE_STATUS, None, 1.0, 0),
            "crashed",
            "the process died with exit status 74 in stage 'rate'",
        ),
    ],
)
def test_how_a_process_ended(run, fields, ending, outcome, reason):
    made = run(fields, ending)
    assert (made["outcome"], made["reason"]) == (outcome, reason)
    assert made["stage"] == fields.get("stage", "start")


def damage_report(work):
    work.report.write_text(work.report.read_text() + "[1]\n")


def remove(work):
    shutil.rmtree(work.made)


@pytest.mark.parametrize(
    ("fields", "also", "outcome", "reason"),
    [
        (
            OK,
            damage_report,
            "engine_error",
            "the engine, or another plugin, damaged report.jsonl, in which the cell reports its results",
        ),
        (OK, remove, "engine_error", "the engine, or another plugin, removed or replaced the folder of its artefacts"),
        (
            {"outcome": "crashed", "reason": "it died", "stage": "rate"},
            remove,
            "crashed",
            "it died; the engine, or another plugin, removed or replaced the folder of its artefacts",
        ),
        (
            {"outcome": "wrong", "reason": "off", "stage": "rate"},
            remove,
            "engine_error",
            "the engine, or another plugin, removed or replaced the folder of its artefacts",
        ),
    ],
)
def test_damage_is_the_outcome_unless_the_process_was_ended(run, fields, also, outcome, reason):
    made = run(fields, also=also)
    assert (made["outcome"], made["reason"]) == (outcome, reason)


def test_an_invalid_record_is_the_engines_fault(run):
    made = run(OK | {"features": "four"})
    assert made["outcome"] == "engine_error"
    assert made["reason"].startswith(
        "the engine, or another plugin, wrote an invalid record: this is not a record: Exp"
    )
    assert (made["stage"], made["solve"]) == ("validate", None)


def test_a_clock_that_disagrees_makes_times_implausible(run, monkeypatch):
    monkeypatch.setattr(job, "wrong_clock", lambda fields, folder, offset: f"{fields['features']} s are wrong")
    made = run(OK)
    assert (made["outcome"], made["reason"]) == ("implausible", "4 s are wrong")
    assert run({**OK, "outcome": "wrong", "reason": "x"})["reason"] == "4 s are wrong", "the record is kept"


@pytest.mark.parametrize("outcome", [one for one in Outcome if one is not Outcome.OK])
def test_a_clock_that_disagrees_is_not_the_outcome_of_a_cell_that_failed(run, monkeypatch, outcome):
    monkeypatch.setattr(job, "wrong_clock", lambda *_: "the clock is wrong")
    made = run({**OK, "outcome": outcome.value, "reason": "its own"})
    assert (made["outcome"], made["reason"]) == (outcome.value, "its own")


def test_an_interrupted_cell_is_recorded_and_the_interruption_passed_on(run, assignment):
    with pytest.raises(KeyboardInterrupt):
        run({"stage": "rate", "features": 4}, KeyboardInterrupt())
    made = read_record(assignment.folder / "record.json")
    assert (made["outcome"], made["reason"]) == ("interrupted", "interrupted from outside")
    assert (made["stage"], made["features"], made["environment"]["peak_bytes"]) == ("rate", 4, 0)


@pytest.mark.parametrize(
    ("fields", "ending", "free", "message"),
    [
        ({"store_error": "no space left"}, ENDED, 10**9, "cannot be written (no space left); free some space"),
        ({}, Ending(STORE_STATUS, None, 1.0, 0), 999_999, "(the results of the cell could not be stored); free some"),
        ({"cache_error": "cache: full"}, ENDED, 10**9, "cache: full; existing records are kept"),
    ],
)
def test_a_disk_that_is_full_is_not_the_fault_of_a_cell(run, assignment, monkeypatch, fields, ending, free, message):
    monkeypatch.setattr(job.shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    with pytest.raises(CampaignError, match=re.escape(message)):
        run(fields, ending)
    assert not assignment.folder.exists()


def test_a_cell_that_may_write_no_more_is_not_at_fault(run, assignment, monkeypatch):
    """As under a quota, where the disk has room: the process deletes its request."""
    monkeypatch.setattr(job.shutil, "disk_usage", lambda _: SimpleNamespace(free=10**12))
    ending = Ending(STORE_STATUS, None, 1.0, 0)
    message = "(the results of the cell could not be stored); free some space"
    with pytest.raises(CampaignError, match=re.escape(message)):
        run({"stage": "rate"}, ending, lambda work: work.request.unlink())
    assert not assignment.folder.exists()
    for other, also in (
        (Ending(1, None, 1.0, 0), lambda work: work.request.unlink()),
        (ending, lambda work: shutil.rmtree(work.path)),
    ):
        assert run({"stage": "rate"}, other, also)["outcome"] == "crashed"


def test_a_process_that_cannot_write_its_report_deletes_its_request(assignment, tmp_path):
    request = tmp_path / "request.json"
    request.write_text(json.dumps({"cell": assignment.cell.plain(), "folder": str(tmp_path), "memory_bytes": 10**11}))
    module = [sys.executable, "-m", "harness.campaign.child", str(request), "/dev/full"]
    done = subprocess.run(module, capture_output=True, text=True, check=False)
    assert done.returncode == STORE_STATUS
    assert "No space left on device" in done.stderr
    assert not request.exists()


def test_the_last_lines_of_a_failure_are_on_record(run):
    text = "".join(f"line {number}\n" for number in range(100))
    made = run({"stage": "rate"}, Ending(1, None, 1.0, 0), lambda work: work.output.write_text(text))
    assert made["output"].splitlines() == [f"line {number}" for number in range(40, 100)]


def test_of_a_long_line_the_end_is_on_record(run):
    text = "a" * TEXT_LIMIT + "b" * TEXT_LIMIT
    made = run({"stage": "rate"}, Ending(1, None, 1.0, 0), lambda work: work.output.write_text(f"first\n{text}\n"))
    assert made["output"] == "b" * TEXT_LIMIT


@pytest.mark.parametrize(("status", "free"), [(STORE_STATUS, 1_000_000), (1, 0)])
def test_a_status_and_less_than_a_megabyte_mean_a_full_disk(run, monkeypatch, status, free):
    monkeypatch.setattr(job.shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    made = run({}, Ending(status, None, 1.0, 0))
    assert made["outcome"] == "crashed"
    assert made["reason"] == f"the process died with exit status {status} in stage 'start'"


def test_a_record_that_another_process_wrote_meanwhile_is_kept(run, assignment, monkeypatch):
    run(OK)
    other = dataclasses.replace(assignment, known="none")
    first = stamp(assignment.folder)
    monkeypatch.setattr(job, "_run_child", lambda *_: pytest.fail("the cell ran"))
    assert run_cell(other) == assignment.folder / "record.json"
    assert stamp(assignment.folder) == first
    again = dataclasses.replace(assignment, known=first)
    made = run({**OK, "features": 5}, assignment=again)
    assert made["features"] == 5
    assert stamp(assignment.folder) != first


def test_a_cell_whose_record_was_deleted_meanwhile_runs(run, assignment):
    run(OK)
    first = stamp(assignment.folder)
    (assignment.folder / "record.json").unlink()
    assert run({**OK, "features": 5}, assignment=dataclasses.replace(assignment, known=first))["features"] == 5


def test_an_interrupted_cell_that_damaged_its_folder_stays_interrupted(run, assignment):
    with pytest.raises(KeyboardInterrupt):
        run({"stage": "rate"}, KeyboardInterrupt(), remove)
    made = read_record(assignment.folder / "record.json")
    assert (made["outcome"], made["reason"].partition(";")[0]) == ("interrupted", "interrupted from outside")
    assert "removed or replaced" in made["reason"]


def test_a_record_that_was_set_aside_is_restored_and_replaced(run, assignment):
    aside = job.work_folder(assignment.folder) / "aside"
    aside.mkdir(parents=True)
    write_record(aside, record(reason="before"))
    made = run({**OK, "features": 6}, assignment=dataclasses.replace(assignment, known=stamp(aside)))
    assert made["features"] == 6


def test_a_stamp_is_that_of_the_record(tmp_path):
    assert stamp(tmp_path) == stamp(tmp_path / "absent") == "none"
    (tmp_path / "record.json").write_text("x")
    status = os.stat(tmp_path / "record.json")
    assert stamp(tmp_path) == f"{status.st_ino}-{status.st_mtime_ns}"
    assert stamp(tmp_path / "record.json") == "none"


def test_limits_of_memory(assignment, monkeypatch):
    assert memory_bytes(assignment.cell) == 4_000_000_000
    monkeypatch.setattr(job, "memory_total", lambda: 1000)
    free = dataclasses.replace(assignment.cell.limits, memory_gb=None)
    assert memory_bytes(dataclasses.replace(assignment.cell, limits=free)) == 800


def test_libraries_have_as_many_threads_as_the_cell(assignment, monkeypatch):
    monkeypatch.delenv(job.SPIN_VARIABLE, raising=False)
    cell = dataclasses.replace(assignment.cell, device=dataclasses.replace(assignment.cell.device, threads=3))
    assert job._child_environment(cell) == {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        job.SPIN_VARIABLE: job.SPIN_COUNT,
        "OMP_NUM_THREADS": "3",
        "OPENBLAS_NUM_THREADS": "3",
        "MKL_NUM_THREADS": "3",
        "NUMBA_NUM_THREADS": "3",
    }
    monkeypatch.setenv(job.SPIN_VARIABLE, "7")
    assert job._child_environment(cell)[job.SPIN_VARIABLE] == "7"


def test_the_process_gets_the_cell_its_limits_and_the_time_it_waited(assignment, monkeypatch):
    asked = {}

    def run_process(module, arguments, **given):
        work = job.work_folder(assignment.folder)
        asked.update(given, module=module, request=json.loads((work / "request.json").read_text()))
        (work / "report.jsonl").write_text('{"waited": 70.0}\n')
        asked["forgiven"] = given["forgiven_s"]()
        (work / "report.jsonl").write_text('{"waited": 170.0}\n')
        asked["at most"] = given["forgiven_s"]()
        return Ending(1, None, 1.0, 0)

    monkeypatch.setattr(job, "run_process", run_process)
    run_cell(assignment)
    assert (asked["module"], asked["time_s"], asked["memory_bytes"]) == ("harness.campaign.child", 10, 4_000_000_000)
    assert (asked["forgiven"], asked["at most"]) == (70.0, 100)
    assert asked["request"]["memory_bytes"] == 4_000_000_000
    assert asked["request"]["cell"] == json.loads(json.dumps(assignment.cell.plain()))
    assert asked["request"]["folder"].endswith("/made")


def test_the_error_of_a_folder_that_cannot_be_written(tmp_path):
    shown = str(unwritable(tmp_path, OSError(28, "No space left on device")))
    assert shown == (
        f"output folder {tmp_path} cannot be written (No space left on device); free some space or choose another with "
        "output=FOLDER; existing records are kept"
    )
    assert "(by hand)" in str(unwritable(tmp_path, OSError("by hand")))
