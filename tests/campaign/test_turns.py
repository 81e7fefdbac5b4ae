"""The part of a cell that runs in its turn on the device: on a GPU everything that its engine does, otherwise the
timed part."""

from __future__ import annotations

import dataclasses
import os
from contextlib import contextmanager, nullcontext
from importlib.metadata import EntryPoint

import pytest

from harness.campaign import child, gpu, judgement, lock, memory_counters, sampled_check, warm_cell
from harness.campaign.cell import resolve_cell
from harness.campaign.child_report import ChildReport, read_report, waited_s
from harness.contract import Phases
from harness.device import driver
from harness.device.driver import CudaDevice
from harness.plugins import load_plugins
from harness.transactions.profiler import ProfilerError
from tests.campaign.test_cell import config
from tests.conftest import FAKES

GIGABYTE = 1 << 30
DEVICES = {"cpu": "fake_right", "cuda": "fake_cuda"}
TIMED_RUNS = ["run", "values"]  # the answer is read after each
RUNS_ON_OTHER_INPUTS = ["run", "values", "run"]
WARM = {"change": 0.05, "kind": "insert", "seed": 1}


@pytest.fixture
def events(registry, monkeypatch):
    """Return the events in order, with repetitions collapsed and the GPU's name normalised."""
    told = []
    held = []

    def tell(event):
        if told[-1:] != [event]:
            told.append(event)

    @contextmanager
    def turn(*_):
        assert not held, "a turn within a turn waits for ever"
        held.append(True)
        tell("turn")
        try:
            yield
        finally:
            held.clear()
            tell("over")

    def note(owner, name, event):
        inner = getattr(owner, name)

        def noted(*arguments, **named):
            tell(event)
            return inner(*arguments, **named)

        monkeypatch.setattr(owner, name, noted)

    import onyx_fakes_engines

    monkeypatch.setattr(driver, "describe", lambda _: CudaDevice(0, "A GPU", "GPU-0102", GIGABYTE, "9.0"))
    monkeypatch.setattr(child, "device_refusal", lambda _: "")
    monkeypatch.setattr(child, "profiler_refusal", lambda _: "")
    monkeypatch.setattr(child, "device_memory", lambda *_: nullcontext())
    monkeypatch.setattr(child, "finishing", lambda engine, _: engine)
    monkeypatch.setattr(gpu, "gpu_facts", lambda *_: None)
    for module in (lock, memory_counters):
        monkeypatch.setattr(module, "turn", turn)
    monkeypatch.setattr(lock, "rest", lambda _: tell("rest"))
    monkeypatch.setattr(lock, "was_opened", lambda _: True)
    for name in ("build", "prepare", "run", "values", "close"):
        note(onyx_fakes_engines.Right, name, name)
    note(child, "memory_refusal", "admitted")
    note(warm_cell, "change_graph", "changed")
    note(warm_cell, "warm_start", "start")
    note(sampled_check, "sample_for", "sample")
    for module in (judgement, warm_cell):
        note(module, "verdict", "judged")
    return told


@pytest.fixture
def registry(monkeypatch):
    monkeypatch.syspath_prepend(str(FAKES))
    # The process that computes references imports the same plugins.
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(FAKES), os.environ.get("PYTHONPATH", "")]))
    plugins = {"fakes": "onyx_fakes", "algorithms": "harness.algorithms"}
    return load_plugins(found=[EntryPoint(name, value, "onyx_harness") for name, value in plugins.items()])


@pytest.fixture
def ran(registry, events, tmp_path, monkeypatch):
    """Run a cell in this process; return its report and the events."""
    monkeypatch.setattr(child, "load_plugins", lambda *_, **__: registry)

    def run(kind, **changes):
        device = {"kind": kind, "index": 0, "threads": 1}
        cell = resolve_cell(config(engine__name=DEVICES[kind], device=device, **changes), registry)
        cell = dataclasses.replace(cell, measure=dataclasses.replace(cell.measure, repetitions=1, budget_s=0.0))
        with (tmp_path / "report").open("wb", buffering=0) as file:
            child._run(cell, ChildReport(file), tmp_path, GIGABYTE)
        return read_report(tmp_path / "report"), events

    return run


def test_on_a_gpu_an_engine_is_built_before_its_turn(ran):
    told, events = ran("cuda")
    assert told["outcome"] == "ok", told["reason"]
    timed = [*TIMED_RUNS, *RUNS_ON_OTHER_INPUTS]
    assert events == ["sample", "admitted", "build", "turn", "prepare", *timed, "close", "rest", "over", "judged"]


def test_what_never_opened_a_gpu_does_not_rest_there(ran, monkeypatch):
    monkeypatch.setattr(lock, "was_opened", lambda _: False)
    _, events = ran("cuda")
    assert "rest" not in events


def test_on_the_processor_engines_are_prepared_without_a_turn(ran):
    told, events = ran("cpu")
    assert told["outcome"] == "ok", told["reason"]
    timed = [*TIMED_RUNS, *RUNS_ON_OTHER_INPUTS]
    assert events == ["sample", "admitted", "build", "prepare", "turn", *timed, "over", "close", "judged"]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("cuda", ["admitted", "build", "turn", "prepare", "close", "rest", "over"]),
        ("cpu", ["admitted", "build", "prepare", "turn", "over", "close"]),
    ],
)
def test_an_engine_that_fails_gives_its_turn_back(ran, kind, expected, monkeypatch):
    def fails(*_):
        raise RuntimeError

    monkeypatch.setattr("onyx_fakes_engines.Right.run", fails)
    told, events = ran(kind)
    assert told["outcome"] == "engine_error"
    assert events == ["sample", *expected]


def test_an_engine_that_cannot_be_built_takes_no_turn(ran, monkeypatch):
    def fails(*_):
        raise RuntimeError

    monkeypatch.setattr("onyx_fakes_engines.Right.build", fails)
    told, events = ran("cuda")
    assert (told["outcome"], told["stage"]) == ("engine_error", "build")
    assert events == ["sample", "admitted", "close"]


def test_the_run_before_a_change_has_a_turn_of_its_own(ran):
    asked = {"algorithm": {"name": "bfs"}, "graph": {"name": "fake_path", "vertices": 12}, "warm": WARM}
    told, events = ran("cuda", **asked)
    assert told["outcome"] == "ok", told["reason"]
    before = ["admitted", "build", "turn", "prepare", "run", "values", "close", "rest", "over"]
    timed = ["admitted", "build", "turn", "prepare", *TIMED_RUNS, *TIMED_RUNS, "close", "rest", "over"]
    assert events == ["changed", *before, "start", "sample", *timed, "judged"]


def test_the_run_before_a_change_is_alone_on_the_processor_while_it_runs(ran):
    asked = {"algorithm": {"name": "bfs"}, "graph": {"name": "fake_path", "vertices": 12}, "warm": WARM}
    told, events = ran("cpu", **asked)
    assert told["outcome"] == "ok", told["reason"]
    before = ["admitted", "build", "prepare", "turn", "run", "over", "values", "close"]
    timed = ["admitted", "build", "prepare", "turn", *TIMED_RUNS, *TIMED_RUNS, "over", "close"]
    assert events == ["changed", *before, "start", "sample", *timed, "judged"]


def test_what_is_counted_has_a_turn_after_that_of_the_engine(ran, monkeypatch):
    def nothing(*_):
        raise ProfilerError("no counters here")

    monkeypatch.setattr(memory_counters, "counted", nothing)
    told, events = ran("cuda", memory="counters")
    assert told["outcome"] == "ok", told["reason"]
    assert events.count("turn") == 2


def test_waits_add_up_and_what_was_done_goes_on(registry, tmp_path, monkeypatch):
    monkeypatch.setenv("ONYX_HARNESS_LOCKS", str(tmp_path / "locks"))
    cell, path, phases = resolve_cell(config(), registry), tmp_path / "report", Phases()
    with path.open("wb", buffering=0) as file:
        report = ChildReport(file)
        for stage in ("run before the change", "prepare"):
            report.stage(stage)
            with lock.turn(cell, report, phases):
                told = read_report(path)
                assert told["stage"] == stage
                assert waited_s(told) == phases.seconds["wait"] > 0
