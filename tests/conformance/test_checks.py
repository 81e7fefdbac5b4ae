"""The checks of the suite, called one by one: a right engine passes each, and an engine with one fault fails."""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from harness.conformance import exhaustion
from harness.conformance.exhaustion import MARGIN, data_bytes, less_memory
from harness.conformance.subject import Subject
from harness.conformance.suite import test_release as release
from harness.conformance.workload import workload
from harness.contract import Device, EngineSpec, No

FAKES = Path(__file__).parent / "fakes"
sys.path.insert(0, str(FAKES))
import onyx_suspects_engines as suspects  # noqa: E402
from onyx_suspects import Schedule  # noqa: E402

sys.path.remove(str(FAKES))  # other tests in this process must not find these engines installed


def subject_of(engine, schedule=Schedule, **changes):
    """Return an engine class as the subject of the suite."""
    module = sys.modules[engine.__module__]
    setattr(module, f"_{engine.__name__}", engine)
    spec = EngineSpec("fake", "a fake", schedule, f"{engine.__module__}:_{engine.__name__}", **changes)
    return Subject(spec)


@pytest.fixture(autouse=True)
def _clean():
    yield
    suspects.clean_up()


@pytest.fixture(scope="module")
def small():
    return workload(subject_of(suspects.Right), 30, 90)


# release --------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("engine", "message"),
    [
        (suspects.Right, ""),
        (suspects.LeaksStarted, "3 engines, each closed, left {'threads': 3, 'open files': 6, 'child processes': 3}"),
        (suspects.Undead, "a reference to the engine remains after close"),
    ],
)
def test_what_engines_leave_behind_is_counted(small, monkeypatch, engine, message):
    monkeypatch.setattr(release, "WARM", 1)
    monkeypatch.setattr(release, "CYCLES", 3)
    if not message:
        release.test_everything_is_released(subject_of(engine), small)
        return
    with pytest.raises(AssertionError) as met:
        release.test_everything_is_released(subject_of(engine), small)
    assert message in str(met.value)


@pytest.mark.parametrize(("grown", "passes"), [(0, True), (7_999_999, True), (8_000_000, False)])
def test_memory_may_grow_by_the_noise_of_an_allocator(small, monkeypatch, grown, passes):
    """The process has 5 GB from before."""
    held = iter([5_000_000_000, 5_000_000_000 + grown])
    monkeypatch.setattr(release, "held", lambda subject: next(held))
    monkeypatch.setattr(release, "WARM", 0)
    monkeypatch.setattr(release, "CYCLES", 1)
    if passes:
        release.test_everything_is_released(subject_of(suspects.Right), small)
        return
    with pytest.raises(AssertionError, match=f"1 engines, each closed, left {grown:,} bytes"):
        release.test_everything_is_released(subject_of(suspects.Right), small)


@pytest.mark.parametrize("library", [SimpleNamespace(), SimpleNamespace(malloc_trim=lambda most: 1)])
def test_bytes_are_those_of_the_process_and_of_its_device(monkeypatch, library):
    """A C library without malloc_trim keeps what it keeps."""
    monkeypatch.setattr(ctypes, "CDLL", lambda name: library)
    monkeypatch.setattr(release, "used_bytes", lambda index: 10**12)
    on_cpu = release.held(Subject(None))
    assert 10_000_000 < on_cpu < 10**12
    assert abs(release.held(Subject(None, {}, Device("cuda"))) - 10**12 - on_cpu) < 100_000_000


def test_every_cycle_runs_a_fresh_engine_from_its_start(small):
    calls = []

    class Noting(suspects.Right):
        def reset(self, inputs, state=None):
            calls.append(("reset", inputs))
            super().reset(inputs, state)

        def run(self, most):
            calls.append(("run", most))
            return super().run(most)

        def close(self):
            calls.append("close")
            super().close()

    assert release.cycle(subject_of(Noting), small)() is None
    assert calls == [("reset", small.inputs), ("run", 2), "close"]


CHANGES = {
    "the working folder": lambda: os.chdir("/"),
    "NumPy's global random numbers": lambda: np.random.random(),  # noqa: NPY002
    "NumPy's treatment of errors": lambda: np.seterr(divide="raise" if np.geterr()["divide"] != "raise" else "print"),
    "the environment": lambda: os.environ.update(SET_BY_AN_ENGINE=os.environ["SET_BY_AN_ENGINE"] + "x"),
    "signal handlers": lambda: signal.signal(signal.SIGUSR2, lambda *_: None),
}


@pytest.mark.parametrize("changed", [None, *CHANGES])
def test_changes_of_the_process_are_named(small, tmp_path, monkeypatch, changed):
    class Changing(suspects.Right):
        def run(self, most):
            if changed is not None:
                CHANGES[changed]()
            return super().run(most)

    handler, errors = signal.getsignal(signal.SIGUSR2), np.geterr()
    monkeypatch.setenv("SET_BY_AN_ENGINE", "")
    try:
        if changed is None:
            release.test_the_process_is_unchanged(subject_of(Changing), small, tmp_path, monkeypatch)
        else:
            with pytest.raises(AssertionError, match=f"changed: {changed}"):
                release.test_the_process_is_unchanged(subject_of(Changing), small, tmp_path, monkeypatch)
    finally:
        signal.signal(signal.SIGUSR2, handler)
        np.seterr(**errors)


def test_files_in_the_working_folder_are_found(small, tmp_path, monkeypatch):
    with pytest.raises(AssertionError, match=r"generated\.c"):
        release.test_the_process_is_unchanged(subject_of(suspects.Litters), small, tmp_path, monkeypatch)


class ClosesPreparedOnly(suspects.Right):
    def close(self):
        del self.inner


@pytest.mark.parametrize(
    ("engine", "error"),
    [(suspects.Right, None), (suspects.ClosesOthers, KeyError), (ClosesPreparedOnly, AttributeError)],
)
def test_engines_are_closed_at_any_time(small, engine, error):
    if error is None:
        release.test_close_is_harmless_at_any_time(subject_of(engine), small)
        return
    with pytest.raises(error):
        release.test_close_is_harmless_at_any_time(subject_of(engine), small)


# memory ---------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", ["cpu", "cuda"])
@pytest.mark.parametrize("ok", [True, False])
def test_the_process_without_memory_is_told_the_engine_and_its_last_line_is_the_result(monkeypatch, kind, ok):
    calls, statements = [], []

    def run(command, *, env, **_):
        calls.append((command[1:], env.get("CUPY_GPU_MEMORY_LIMIT"), env["A_VARIABLE"]))
        printed = "a warning\nanother\n" + json.dumps({"ok": ok, "met": "MemoryError"}) + "\n"
        return subprocess.CompletedProcess(command, 0, printed, "")

    monkeypatch.setenv("A_VARIABLE", "kept")
    monkeypatch.delenv("CUPY_GPU_MEMORY_LIMIT", raising=False)
    monkeypatch.setattr(subprocess, "run", run)
    subject = Subject(SimpleNamespace(name="fake"), {"blocks": 2}, Device(kind))
    if ok:
        release.test_exhausted_memory_raises_memory_error(subject, statements)
    else:
        with pytest.raises(AssertionError, match="MemoryError"):
            release.test_exhausted_memory_raises_memory_error(subject, statements)
    request = json.dumps({"name": "fake", "options": {"blocks": 2}, "device": kind})
    limit = "60000000" if kind == "cuda" else None
    assert calls == [(["-m", "harness.conformance.exhaustion", request], limit, "kept")]
    assert statements == ["when memory runs out: MemoryError"]


def test_a_process_that_dies_without_memory_is_shown_with_its_last_words(monkeypatch):
    done = subprocess.CompletedProcess([], -6, "", "x" * 9000 + "the last words")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: done)
    with pytest.raises(AssertionError, match="the process ended with status -6: x+the last words"):
        release.test_exhausted_memory_raises_memory_error(Subject(SimpleNamespace(name="fake")), [])


def test_memory_is_limited_to_little_more_than_there_is_and_then_as_before():
    before = resource.getrlimit(resource.RLIMIT_DATA)
    pages = int(Path("/proc/self/statm").read_text().split()[5])
    assert data_bytes() == pytest.approx(pages * resource.getpagesize(), rel=0.5)
    with pytest.raises(ZeroDivisionError), less_memory(Device()):
        there = data_bytes()
        limit, hard = resource.getrlimit(resource.RLIMIT_DATA)
        with pytest.raises(MemoryError):
            np.ones(8 * MARGIN, np.uint8)
        _ = 1 / 0
    assert resource.getrlimit(resource.RLIMIT_DATA) == before
    assert abs(limit - there - MARGIN) < MARGIN / 2
    assert hard == before[1]
    with less_memory(Device("cuda")):  # CuPy's pool is limited instead
        assert resource.getrlimit(resource.RLIMIT_DATA) == before


class Starved(suspects.Right):
    """Runs out of memory while the test says so."""

    starved, error, broken = False, MemoryError("no room"), False

    def prepare(self, *given):
        super().prepare(*given)
        if Starved.starved:
            Starved.broken = True
            raise self.error


class Hiding(Starved):
    error = RuntimeError("something went wrong")


class BrokenAfterwards(Starved):
    def values(self, name):
        return super().values(name) * np.float32(1.5 if Starved.broken else 1)


class Refusing(suspects.Right):
    def supports(self, *_):
        return No("nothing at all")


@pytest.mark.short_run(rows=5)
@pytest.mark.parametrize("trims", [True, False])
@pytest.mark.parametrize(
    ("engine", "found"),
    [
        (
            suspects.Right,
            {"ok": True, "met": "the run needed no more than the available memory, and the next run is right"},
        ),
        (Starved, {"ok": True, "met": "MemoryError, and the next run is right"}),
        (Hiding, {"ok": False, "met": "RuntimeError instead of MemoryError: something went wrong"}),
        (BrokenAfterwards, {"ok": False, "met": "MemoryError, and the next run is wrong"}),
        (Refusing, {"ok": True, "met": "not tried: no program that fits a random graph: nothing at all"}),
    ],
)
def test_an_engine_without_memory_must_say_so_and_work_afterwards(monkeypatch, engine, found, trims):
    spec = subject_of(engine).spec
    monkeypatch.setattr(Starved, "broken", False)
    monkeypatch.setattr(Starved, "starved", False)

    @contextmanager
    def without(device):
        Starved.starved = True
        try:
            yield
        finally:
            Starved.starved = False

    def library(name):
        raise OSError("there is no such library")

    if not trims:
        monkeypatch.setattr(exhaustion.ctypes, "CDLL", library)
    monkeypatch.setattr(exhaustion, "less_memory", without)
    monkeypatch.setattr(exhaustion, "load_plugins", lambda: SimpleNamespace(engine={"fake": spec}.get))
    monkeypatch.setattr(exhaustion, "SMALL", (20, 60))
    monkeypatch.setattr(exhaustion, "LARGE", (40, 90))
    assert exhaustion.main({"name": "fake", "options": {"blocks": 1}, "device": "cpu"}) == found
