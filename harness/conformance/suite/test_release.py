"""A closed engine leaves nothing behind, and running out of memory is handled."""

from __future__ import annotations

import ctypes
import gc
import json
import os
import signal
import subprocess
import sys
import weakref
from pathlib import Path

import numpy as np
import psutil
import pytest

from harness.conformance.exhaustion import LIMIT_OF_CUPY
from harness.conformance.matrix import Question
from harness.conformance.subject import Subject, Unsupported, outputs
from harness.conformance.workload import workload
from harness.contract import Phases, Yes
from harness.device.driver import used_bytes

VERTICES, EDGES = 5_000, 15_000
WARM, CYCLES = 3, 12
NOISE = 4_000_000  # bytes that an allocator may keep or return at any time
STARTED = ["threads", "open files", "child processes"]


@pytest.fixture(scope="module")
def problem(subject: Subject) -> Question:
    """Return a program large enough that its arrays dominate the memory."""
    try:
        return workload(subject, VERTICES, EDGES)
    except Unsupported as reason:
        pytest.skip(str(reason))


def cycle(subject: Subject, problem: Question) -> weakref.ref[object]:
    """Create, run and close one engine; return a weak reference to it."""
    with subject.prepared(problem.program, problem.graph, problem.features) as engine:
        engine.reset(problem.inputs)
        engine.run(2)
        return weakref.ref(engine)


def started() -> list[int]:
    """Return the numbers of STARTED."""
    process = psutil.Process()
    return [process.num_threads(), process.num_fds(), len(process.children(recursive=True))]


def held(subject: Subject) -> int:
    """Return the bytes held by this process and on the device.

    Freed memory that the allocator keeps is returned first. Otherwise, in a long-lived process, an engine's leak could
    fill it unnoticed.
    """
    give_back = getattr(ctypes.CDLL(None), "malloc_trim", None)  # of glibc
    if give_back is not None:
        give_back(0)
    on_device = used_bytes(subject.device.index) if subject.device.kind == "cuda" else 0
    return int(psutil.Process().memory_info().rss) + on_device


def test_everything_is_released(subject: Subject, problem: Question) -> None:
    """The numbers of threads, processes and open files must not grow with the number of engines, and neither must
    memory.

    Memory is that of the process and of the device.
    """
    for _ in range(WARM):
        cycle(subject, problem)
    gc.collect()
    counts, bytes_before = started(), held(subject)
    for _ in range(CYCLES):
        engine = cycle(subject, problem)
        gc.collect()
        assert engine() is None, "a reference to the engine remains after close"
    left = {what: now - then for what, now, then in zip(STARTED, started(), counts, strict=True) if now > then}
    assert not left, f"{CYCLES} engines, each closed, left {left}"
    answer = subject.says(problem.program, problem.graph, problem.features)
    assert isinstance(answer, Yes)
    grown = held(subject) - bytes_before
    assert grown < 2 * max(answer.bytes_needed, NOISE), f"{CYCLES} engines, each closed, left {grown:,} bytes"


def surroundings() -> dict[str, object]:
    """Return the state that belongs to the whole process."""
    return {
        "the working folder": Path.cwd(),
        "NumPy's global random numbers": str(np.random.get_state(legacy=False)),  # noqa: NPY002
        "NumPy's treatment of errors": np.geterr(),
        "the environment": dict(os.environ),
        "signal handlers": {number: signal.getsignal(number) for number in signal.valid_signals()},
    }


def test_the_process_is_unchanged(
    subject: Subject, problem: Question, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The working folder and its files, the environment, signal handlers and random numbers must be unchanged."""
    cycle(subject, problem)  # set-up that happens once, such as loading a library, is allowed
    monkeypatch.chdir(tmp_path)
    np.random.seed(1)  # noqa: NPY002  the global state is under test
    before = surroundings()
    cycle(subject, problem)
    after = surroundings()
    changed = [what for what in before if before[what] != after[what]]
    assert not changed, f"changed: {', '.join(changed)}"
    assert [path.name for path in tmp_path.iterdir()] == []


def test_close_is_harmless_at_any_time(subject: Subject, problem: Question) -> None:
    """Close right after construction, after ``prepare`` without a run, and for one engine while another runs."""
    subject.new().close()
    with subject.prepared(problem.program, problem.graph, problem.features) as running:
        running.reset(problem.inputs)
        running.run(1)
        before = outputs(problem.program, running)
        other = subject.new()
        other.supports(problem.program, problem.graph, problem.features, subject.device)
        other.prepare(problem.program, problem.graph, problem.features, subject.device, Phases())
        other.close()
        after = outputs(problem.program, running)
        assert all(np.array_equal(before[name], after[name]) for name in before)
        running.run(1)


def test_exhausted_memory_raises_memory_error(subject: Subject, statements: list[str]) -> None:
    """Expect MemoryError, after which ``close`` works and a small run in the same process is right."""
    request = {"name": subject.spec.name, "options": dict(subject.options), "device": subject.device.kind}
    finished = subprocess.run(
        [sys.executable, "-m", "harness.conformance.exhaustion", json.dumps(request)],
        capture_output=True, text=True, check=False, timeout=300,
        env={**os.environ, **(LIMIT_OF_CUPY if subject.device.kind == "cuda" else {})},
    )  # fmt: skip
    ended = f"the process ended with status {finished.returncode}: {finished.stderr[-2000:]}"
    assert finished.returncode == 0, ended
    result = json.loads(finished.stdout.splitlines()[-1])
    statements.append(f"when memory runs out: {result['met']}")
    assert result["ok"], result["met"]
