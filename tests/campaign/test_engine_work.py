"""An engine from its admission to its end: what is reported, reserved, tried again and closed."""

from __future__ import annotations

import io
import json
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from harness.campaign import engine_work
from harness.campaign.child_report import ChildReport, StoreError
from harness.campaign.engine_work import with_engine
from harness.campaign.fingerprint import InputsChanged
from harness.campaign.preflight import DoesNotFit
from harness.contract import Device, No, Phases, Unsupported, Yes
from harness.device.errors import DeviceUnavailable

ADMITTED = Yes(5, 7, stepwise=True)  # as a GuardedEngine fills it in


class Noting:
    """An engine that notes its calls; ``answer``: of supports, ``close_error``: raised when it is closed."""

    tunes, stepwise = True, True

    def __init__(self, calls, answer, close_error):
        self.calls, self.answer, self.close_error = calls, answer, close_error

    def supports(self, *_):
        return self.answer

    def build(self, *_):
        self.calls.append("build")

    def close(self):
        self.calls.append("close")
        if self.close_error is not None:
            raise self.close_error


@pytest.fixture
def worked(monkeypatch):
    """Return a function that runs ``work`` with an engine: the result, the report's fields, the calls, the phases.

    ``alone``: whether the memory of the device is reserved alone, by attempt. ``changed``: what the engine wrote to.
    """

    def run(work, *, answer=ADMITTED, alone=(True, True), changed=None, close_error=None, short=""):
        calls, turns = [], iter(alone)
        file, phases = io.BytesIO(), Phases()
        phases.seconds |= {"open": 1.0, "wait": 0.0}

        class Used:
            overlaps = False

            def __init__(self, cell, report, found):
                pass

            @contextmanager
            def reserved_memory(self, needed, *, tunes):
                calls.append(("memory", needed, tunes))
                yield next(turns)
                calls.append("free")

            @contextmanager
            def shared(self):
                calls.append("shared")
                yield

        @contextmanager
        def device_memory(cell, report):
            calls.append("pool")
            yield

        class Before:
            def __init__(self, problem):
                pass

            def check(self):
                calls.append("check")
                if changed is not None:
                    raise InputsChanged(changed)

        monkeypatch.setattr(engine_work, "DeviceUse", Used)
        monkeypatch.setattr(engine_work, "device_memory", device_memory)
        monkeypatch.setattr(engine_work, "Fingerprint", Before)
        monkeypatch.setattr(engine_work, "load", lambda _: lambda _: Noting(calls, answer, close_error))
        monkeypatch.setattr(engine_work, "schedule_from_options", lambda *_: None)
        monkeypatch.setattr(engine_work, "synchronizing", lambda made, device: made)
        monkeypatch.setattr(engine_work, "GuardedEngine", lambda made, use: made)
        monkeypatch.setattr(engine_work, "memory_refusal", lambda *given: short and f"{short} {given[2:]}")
        limits = SimpleNamespace(device_bytes=99)
        cell = SimpleNamespace(device=Device("cpu"), schedule={}, engine="made", warm=None, limits=limits)
        problem = SimpleNamespace(program=None, graph=None, features=1)
        made = with_engine(SimpleNamespace(factory="made"), cell, problem, ChildReport(file), phases, 1000,
                           lambda engine: work(engine, phases))  # fmt: skip
        fields = {}
        for line in file.getvalue().splitlines():
            fields.update(json.loads(line))
        return made, fields, calls, phases

    return run


def test_an_engine_is_admitted_built_run_and_closed(worked):
    made, fields, calls, _ = worked(lambda engine, phases: "answer")
    assert made == "answer"
    assert fields == {"bytes_needed": 5, "host_bytes": 7, "stage": "build"}
    assert calls == ["build", ("memory", 5, True), "shared", "pool", "close", "free", "check"]


def test_the_phases_of_an_engine_that_refuses_are_counted_together(worked):
    """They are not those of the plan that runs instead; waiting for a device is."""
    given = []

    def work(engine, phases):
        given.append(phases)
        phases.seconds |= {"compile": 2.0, "open": 1.5, "wait": 4.0, "refused": 0.25}
        raise Unsupported("not these inputs")

    with pytest.raises(Unsupported, match="not these inputs"):
        worked(work)
    (phases,) = given
    support = phases.seconds.pop("refused") - 2.75
    assert 0 <= support < 1
    assert phases.seconds.pop("fingerprint") < 1
    assert phases.seconds == {"open": 1.0, "wait": 4.0}


def failing(error):
    def work(engine, phases):
        raise error

    return work


@pytest.mark.parametrize(
    ("error", "outcome", "reason"),
    [
        (ValueError("odd"), "engine_error", "ValueError: odd"),
        (SystemExit(3), "engine_error", "SystemExit: 3"),
        (KeyboardInterrupt("by hand"), "engine_error", "KeyboardInterrupt: by hand"),
        (RuntimeError("CUDA out of memory"), "out_of_memory", "RuntimeError: CUDA out of memory"),
        (DeviceUnavailable("no driver"), "unsupported", "no driver"),
    ],
)
@pytest.mark.parametrize("close_error", [None, OSError("and again")])
def test_an_error_of_an_engine_is_the_outcome_and_closes_it_once(worked, capsys, error, outcome, reason, close_error):
    made, fields, calls, _ = worked(failing(error), close_error=close_error)
    assert made is None
    assert (fields["outcome"], fields["reason"]) == (outcome, reason)
    assert calls.count("close") == 1
    assert "check" not in calls
    printed = capsys.readouterr().err
    assert ("OSError: and again" in printed) == (close_error is not None)
    assert (type(error).__name__ in printed) == (outcome != "unsupported" or close_error is not None)


@pytest.mark.parametrize("error", [MemoryError("8 GB"), StoreError("full"), Unsupported("not here")])
def test_what_is_not_the_engines_fault_passes(worked, error):
    with pytest.raises(type(error)):
        worked(failing(error))


def test_an_engine_that_refuses_is_closed_and_its_reason_passes(worked):
    with pytest.raises(Unsupported, match="too many loops"):
        worked(lambda *_: None, answer=No("too many loops"))


def test_an_engine_that_does_not_fit_is_not_built(worked):
    with pytest.raises(DoesNotFit, match=r"^short of \(1000, 99\)$"):
        worked(lambda *_: pytest.fail("it runs"), short="short of")


def test_writes_to_the_inputs_are_found_after_the_run(worked):
    made, fields, calls, _ = worked(lambda *_: "answer", changed="the engine wrote to weights")
    assert (made, fields["outcome"]) == (None, "engine_error")
    assert fields["reason"].endswith("the engine wrote to weights")
    assert calls[-3:] == ["close", "free", "check"]


def test_memory_that_others_had_is_tried_once_more_with_all_of_it(worked):
    """The phases of the failed engine do not count, but for its waits."""
    attempts = []

    def work(engine, phases):
        attempts.append(engine)
        phases.seconds.update({"wait": phases.seconds["wait"] + 2.0, "upload": 3.0 * len(attempts)})
        if len(attempts) == 1:
            phases.seconds["failed"] = 4.0
            raise MemoryError("no room")
        return "answer"

    made, fields, calls, phases = worked(work, alone=(False, True))
    assert made == "answer"
    assert "outcome" not in fields
    assert [call for call in calls if call[0] == "memory"] == [("memory", 5, True), ("memory", None, True)]
    assert calls.count("close") == 2
    assert attempts[0] is not attempts[1]
    seconds = {name: value for name, value in phases.seconds.items() if name in ("open", "wait", "upload", "failed")}
    assert seconds == {"open": 1.0, "wait": 4.0, "upload": 6.0}


def test_another_error_beside_others_is_not_tried_again(worked):
    made, fields, calls, _ = worked(failing(ValueError("odd")), alone=(False, True))
    assert (made, fields["reason"], calls.count("build")) == (None, "ValueError: odd", 1)
