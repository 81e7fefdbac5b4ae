"""An engine's calls end only after the device has done their work."""

from __future__ import annotations

import pytest

from harness.contract import Device, Engine, No, RunStatistics
from harness.device import synchronizing as module
from harness.device.synchronizing import synchronizing


class Eager(Engine):
    """Returns at once and records the calls."""

    def __init__(self, log):
        super().__init__("schedule")
        self.log = log

    def supports(self, program, graph, features, device):
        return No("for a reason")

    def build(self, program, graph, features, device, phases):
        self.log.append(("build", features))

    def prepare(self, program, graph, features, device, phases):
        self.log.append("prepare")

    def generate(self, program, graph, features, device):
        self.log.append(("generate", features))

    def ordered_superstep(self):
        self.log.append("ordered")
        return {"order": 2.0}

    def device_values(self, name):
        self.log.append("copied")
        return f"{name} on the device"

    def rows(self, name, index):
        return (name, index)

    def operations(self, statistics):
        return ("operations", statistics)

    def reset(self, inputs, state=None):
        self.log.append(("reset", state))

    def narrow(self, stale, senders):
        self.log.append("narrow")

    def run(self, max_supersteps):
        self.log.append("run")
        return RunStatistics(settled=max_supersteps > 3)

    def values(self, name):
        return name

    def explain(self):
        return "explained"

    def resolved_options(self):
        return {"width": 2}

    def close(self):
        self.log.append("close")


@pytest.fixture
def log(monkeypatch):
    made = []
    monkeypatch.setattr(module, "synchronize", lambda index: made.append(f"wait {index}"))
    return made


def test_calls_on_a_device_are_waited_for(log):
    engine = synchronizing(Eager(log), Device("cuda", 3, threads=1))
    engine.prepare(None, None, 1, None, None)
    engine.reset("inputs", {"x": 1})
    engine.narrow(None, None)
    assert engine.run(5).settled
    engine.close()
    assert log == [
        "prepare", "wait 3", ("reset", {"x": 1}), "wait 3", "narrow", "wait 3", "run", "wait 3", "close",
    ]  # fmt: skip


def test_it_answers_as_the_engine_does(log):
    engine = synchronizing(Eager(log), Device("cuda", 0, threads=1))
    assert engine.schedule == "schedule"
    assert engine.supports(None, None, 1, None) == No("for a reason")
    assert engine.values("x") == "x"
    assert engine.explain() == "explained"
    assert engine.resolved_options() == {"width": 2}


def test_a_processor_needs_no_waiting(log):
    engine = Eager(log)
    assert synchronizing(engine, Device("cpu", threads=1)) is engine


def test_the_other_calls_that_submit_work_are_waited_for_too(log):
    engine = synchronizing(Eager(log), Device("cuda", 1, threads=1))
    engine.build(None, None, 5, None, None)
    engine.generate(None, None, 6, None)
    assert engine.ordered_superstep() == {"order": 2.0}
    assert engine.device_values("x") == "x on the device"
    assert log == [("build", 5), ("generate", 6), "ordered", "wait 1", "copied", "wait 1"]
    assert engine.rows("x", [2]) == ("x", [2])
    assert engine.operations("statistics") == ("operations", "statistics")
