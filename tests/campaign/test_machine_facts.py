"""Facts of the machine with a clock and files by hand, rates of devices, graphs built ahead, phases together."""

from __future__ import annotations

import io
import json
import logging
from types import SimpleNamespace

import pytest
from omegaconf import OmegaConf

from harness.campaign import device_rates, environment, phase_report
from harness.campaign.child_report import ChildReport
from harness.campaign.device_rates import rates_of
from harness.campaign.environment import Bystanders, memory_total
from harness.campaign.graphs_ahead import to_build
from harness.campaign.phase_report import PhaseReport, combined
from harness.campaign.process import Ending
from harness.contract import Device
from harness.device import figures
from harness.records.floor import Rates
from harness.records.outcome import Outcome
from tests.records.samples import solved


def test_other_processes_are_the_busy_cores_without_this_one(monkeypatch):
    now = {
        "clock": 10.0,
        "own": 1.0,
        "busy": {"user": 50.0, "system": 5.0, "idle": 100.0, "steal": 1.0},
        "throttled": 3,
    }
    monkeypatch.setattr(environment.time, "perf_counter", lambda: now["clock"])
    monkeypatch.setattr(environment.time, "process_time", lambda: now["own"])
    monkeypatch.setattr(environment.psutil, "cpu_times", lambda: SimpleNamespace(**now["busy"]))
    monkeypatch.setattr(environment, "times_throttled", lambda: now["throttled"])
    met = Bystanders()
    now.update(
        clock=14.0, own=3.0, busy={"user": 56.0, "system": 6.0, "idle": 900.0, "steal": 2.0, "irq": 1.0, "iowait": 50.0}
    )
    assert met.cores() == (6 + 1 + 1 + 1 - 2) / 4
    assert not met.throttled()
    now.update(throttled=4)
    assert met.throttled()
    now.update(own=99.0)
    assert met.cores() == 0.0
    now.update(clock=10.0, own=1.0)
    assert met.cores() == pytest.approx(9.0 / 1e-9)


@pytest.mark.parametrize(
    ("kind", "counts"),
    [
        ("user", True), ("nice", True), ("system", True), ("irq", True), ("softirq", True), ("steal", True),
        ("idle", False), ("iowait", False), ("guest", False),  # the time of guests is part of that of users
    ],
)  # fmt: skip
def test_a_core_is_busy_unless_it_waits(monkeypatch, kind, counts):
    monkeypatch.setattr(environment.psutil, "cpu_times", lambda: SimpleNamespace(**{kind: 3.0}))
    assert environment._busy_seconds(None) == (3.0 if counts else 0.0)


@pytest.mark.parametrize(("limit", "total"), [(None, 1000), (600, 600), (4000, 1000)])
def test_the_memory_is_that_of_the_machine_or_of_the_group(monkeypatch, limit, total):
    monkeypatch.setattr(environment.psutil, "virtual_memory", lambda: SimpleNamespace(total=1000))
    monkeypatch.setattr(environment, "memory_limit", lambda: limit)
    assert memory_total() == total


def test_the_clock_of_the_processor(tmp_path, monkeypatch):
    monkeypatch.setattr(environment, "_FREQUENCY", tmp_path)
    assert (environment._governor(), environment._most_clock()) == (None, None)
    (tmp_path / "scaling_governor").write_text("performance\n")
    (tmp_path / "cpuinfo_max_freq").write_text("3500000\n")
    assert (environment._governor(), environment._most_clock()) == ("performance", 3500.0)
    assert environment.installed_version("no-such-package") is None
    assert environment.installed_version("numpy") is not None


@pytest.mark.parametrize(("status", "commit"), [("", "abc"), (" M file", "abc+")])
def test_the_commit_says_whether_the_checkout_was_changed(monkeypatch, tmp_path, status, commit):
    package = tmp_path / "harness" / "campaign" / "environment.py"
    monkeypatch.setattr(environment, "__file__", str(package))
    assert environment._commit() is None
    (tmp_path / ".git").mkdir()
    asked = []

    def git(root, *arguments):
        asked.append((root, arguments))
        return "abc" if arguments[0] == "rev-parse" else status

    monkeypatch.setattr(environment, "_git", git)
    assert environment._commit() == commit
    assert asked[0] == (tmp_path, ("rev-parse", "HEAD"))
    assert asked[1] == (tmp_path, ("status", "--porcelain", "--untracked-files=no"))

    def fails(root, *arguments):
        raise FileNotFoundError("git")

    monkeypatch.setattr(environment, "_git", fails)
    assert environment._commit() is None


def rates(speed, adds=None, launch=None):
    return Rates(levels=[(0, speed)], on_chip=64, adds=adds, wide_adds=None, launch=launch)


@pytest.fixture
def measured(monkeypatch, tmp_path):
    """Return the results that measurements give, one after another, and the devices that were measured."""
    monkeypatch.setenv("ONYX_HARNESS_CACHE", str(tmp_path))
    monkeypatch.setattr(device_rates, "_failed", set())
    results, asked = [], []

    def measure(device, child_environment):
        asked.append(device)
        return results.pop(0)

    monkeypatch.setattr(device_rates, "_measured", measure)
    return results, asked


CPU, GPU, FACTS = (
    Device("cpu", threads=2),
    Device("cuda"),
    {"uuid": "GPU-1", "driver": "5", "most_clock": 1, "power_cap": 2},
)


def test_rates_are_measured_once_and_the_higher_ones_are_kept(measured):
    results, asked = measured
    results += [rates(10.0, 5.0, 0.2), rates(8.0, 7.0, 0.1)]
    assert rates_of(CPU, None, {}) == rates(10.0, 5.0, 0.2)
    assert rates_of(CPU, None, {}) == rates(10.0, 5.0, 0.2)
    assert asked == [CPU]
    assert rates_of(CPU, None, {}, again=True) == rates(10.0, 7.0, 0.1)
    assert rates_of(CPU, None, {}) == rates(10.0, 7.0, 0.1)
    assert len(asked) == 2
    results.append(rates(3.0))
    assert rates_of(Device("cpu", threads=1), None, {}) == rates(3.0)
    assert len(asked) == 3


def test_rates_of_a_gpu_are_by_its_facts_and_none_without_a_name(measured):
    results, asked = measured
    assert rates_of(GPU, None, {}) is rates_of(GPU, {"driver": "5"}, {}) is None
    assert asked == []
    results += [rates(1.0), rates(2.0)]
    assert rates_of(GPU, FACTS, {}) == rates(1.0)
    assert rates_of(GPU, {**FACTS, "others": 3}, {}) == rates(1.0)
    assert rates_of(GPU, {**FACTS, "power_cap": 3}, {}) == rates(2.0)


def test_a_measurement_that_fails_is_not_repeated(measured):
    results, asked = measured
    results.append(None)
    assert rates_of(CPU, None, {}) is rates_of(CPU, None, {}) is None
    assert len(asked) == 1


@pytest.mark.parametrize("damage", ["{", "[]", '{"rates": 3, "digest": "x"}', '{"digest": "x"}'])
def test_damaged_rates_are_measured_again(measured, tmp_path, caplog, damage):
    results, asked = measured
    results += [rates(1.0), rates(2.0)]
    rates_of(CPU, None, {})
    [file] = (tmp_path / "rates").glob("*.json")
    file.write_text(damage)
    with caplog.at_level(logging.WARNING):
        assert rates_of(CPU, None, {}) == rates(2.0)
    assert "the rates cannot be read" in caplog.text
    assert len(asked) == 2


@pytest.mark.parametrize(
    ("written", "output", "warning"),
    [
        (b"", "first\nthe last line\n", "the last line"),
        (None, "", "exit status 7"),
        (b"{}", "", "Object missing required"),
    ],
)
def test_a_failed_process_is_logged_with_its_last_line(monkeypatch, caplog, written, output, warning):
    def process(module, arguments, **given):
        assert module == "harness.campaign.rates_process"
        assert arguments[:3] == ["cpu", "0", "2"]
        given["output"].write_text(output)
        if written is not None:
            device_rates.Path(arguments[-1]).write_bytes(written)
        return Ending(7, None, 1.0, 0)

    monkeypatch.setattr(device_rates, "run_process", process)
    with caplog.at_level(logging.WARNING):
        assert device_rates._measured(CPU, {}) is None
    assert f"the rates of the cpu are unknown, and so are floors of times: {warning}" in caplog.text


def cell(graph, kind="cuda", **parameters):
    return SimpleNamespace(graph=graph, graph_parameters=parameters, device=Device(kind))


JOBLIB = SimpleNamespace(config=OmegaConf.create({"hydra": {"launcher": {"n_jobs": 4}}}))


@pytest.mark.parametrize(
    ("launcher", "found"),
    [
        (JOBLIB, 3),
        (None, 0),
        (SimpleNamespace(), 0),
        (SimpleNamespace(config=OmegaConf.create({"hydra": {"launcher": {"n_jobs": 1}}})), 0),
        (SimpleNamespace(config=OmegaConf.create({"hydra": {"launcher": {}}})), 0),
    ],
)
def test_graphs_are_built_ahead_of_concurrent_jobs_only(launcher, found):
    cells = [cell("a"), cell("b"), cell("a"), cell("a", scale=3)]
    assert to_build(cells, launcher) == [cells[0], cells[1], cells[3]][:found]
    assert to_build([*cells, cell("a", "cpu")], launcher) == []
    assert to_build([cell("a"), cell("a")], launcher) == []
    assert to_build([], launcher) == []


FIRST = {
    "solve": solved([1.0, 2.0, 3.0]), "supersteps": [[1, 2, "push"]], "choices": [[1]], "settled": True,
    "marks": ["busy"], "validation": {"ok": True, "error": 0.5, "bound": 1.0, "detail": "", "against": "a loop"},
    "schedule": {"a": 1, "b": 2}, "resolution": None, "bytes_needed": 5, "host_bytes": 7, "lost_updates": 0.5,
    "others": 0.1, "solve_window": 1.0, "link": {"copy": 1.0, "run_bytes": 3},
}  # fmt: skip
SECOND = {
    "solve": solved([10.0, 20.0, 30.0, 40.0]), "supersteps": [[3, 4, "pull"]], "choices": [], "settled": False,
    "marks": ["noisy", "busy"], "schedule": {"a": 1, "b": 3, "c": 4},
    "validation": {"ok": True, "error": 0.3, "bound": 0.5, "detail": "x", "against": "a solver"}, "bytes_needed": 4,
    "host_bytes": 9, "lost_updates": None, "others": 0.4, "solve_window": 2.5, "link": {"copy": 2.0, "run_bytes": 4},
}  # fmt: skip


def test_fields_of_phases_are_combined():
    found = combined([FIRST, SECOND])
    assert found["solve"] == solved([11.0, 22.0, 33.0])
    assert (found["solve"]["median"], found["solve"]["minimum"], found["solve"]["stopped"]) == (22.0, 11.0, "precise")
    assert found["supersteps"] == [[1, 2, "push"], [3, 4, "pull"]]
    assert (found["choices"], found["settled"], found["marks"]) == ([[1]], False, ["busy", "noisy"])
    assert found["validation"] == {
        "ok": True,
        "error": 0.3,
        "bound": 0.5,
        "detail": "x",
        "against": "phase 1: a loop; phase 2: a solver",
    }
    assert found["schedule"] == {"a": 1, "b": [2, 3], "c": 4}
    assert (found["bytes_needed"], found["host_bytes"], found["lost_updates"], found["others"]) == (5, 9, 0.5, 0.4)
    assert (found["solve_window"], found["link"]) == (3.5, {"copy": 2.0, "run_bytes": 7})
    assert "resolution" not in found
    uncounted = {**SECOND, "link": {"copy": 2.0, "run_bytes": None}, "solve": {**SECOND["solve"], "stopped": "count"}}
    other = combined([FIRST, uncounted])
    assert (other["link"]["run_bytes"], other["solve"]["stopped"]) == (None, "budget")


def fields_of(file):
    found = {}
    for line in file.getvalue().splitlines():
        found.update(json.loads(line))
    return found


def test_the_report_of_phases_ends_with_the_last_one():
    file = io.BytesIO()
    report = PhaseReport(ChildReport(file), 2)
    report.stage("rate")
    report.tell(identity="first", features=3, **FIRST)
    assert fields_of(file) == {"stage": "phase 1: rate", "identity": "first", "features": 3}
    report.end(Outcome.OK)
    assert "outcome" not in fields_of(file)
    report.next_phase()
    report.stage("rate")
    report.tell(identity="second", **SECOND)
    report.end(Outcome.OK)
    found = fields_of(file)
    assert (found["stage"], found["identity"], found["outcome"], found["reason"]) == (
        "phase 2: rate",
        "first",
        "ok",
        "",
    )
    assert found["solve"]["samples"] == [11.0, 22.0, 33.0]


def test_a_phase_that_waits_says_behind_whom_and_goes_on_with_its_stage(monkeypatch):
    monkeypatch.setattr("harness.campaign.child_report.time.monotonic", lambda: 90.0)
    file = io.BytesIO()
    report = PhaseReport(ChildReport(file), 2)
    report.next_phase()
    report.stage("solve")
    report.waits("process 7: sssp")
    found = fields_of(file)
    assert found == {"stage": "wait", "wait_began": 90.0, "behind": "process 7: sssp"}
    report.waited(2.5)
    assert fields_of(file) == found | {"stage": "phase 2: solve", "wait_began": None, "waited": 2.5}


@pytest.mark.parametrize(
    ("text", "model"),
    [
        ("processor\t: 0\nmodel name\t: A fast: one \nmodel name\t: another\n", "A fast: one"),
        ("processor\t: 0\nHardware\t: none\n", "by the platform"),
    ],
)
def test_a_processor_is_called_as_the_system_calls_it(monkeypatch, tmp_path, text, model):
    (tmp_path / "cpuinfo").write_text(text)
    monkeypatch.setattr(figures, "Path", lambda name: tmp_path / name.rpartition("/")[2])
    monkeypatch.setattr(figures.platform, "processor", lambda: "")
    monkeypatch.setattr(figures.platform, "machine", lambda: "by the platform")
    assert figures.cpu_model() == model
    assert figures.device_name(Device("cpu", threads=3)) == f"{model}, threads 3"


def test_a_phase_that_is_not_ok_leaves_no_time():
    file = io.BytesIO()
    report = PhaseReport(ChildReport(file), 2)
    report.tell(**FIRST)
    report.next_phase()
    report.tell(**SECOND)
    report.end(Outcome.WRONG, "off by 3")
    found = fields_of(file)
    assert (found["outcome"], found["reason"]) == ("wrong", "phase 2: off by 3")
    assert found["validation"] == SECOND["validation"]
    assert not set(phase_report._TIMES) & set(found)
