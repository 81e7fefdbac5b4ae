"""Limits of a process by hand: a clock that advances with each wait, and memory by look; how a process is ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest

from harness.campaign import process, spawn
from harness.campaign.process import Ending, run_process
from harness.records.outcome import Outcome
from tests.processes import gone

MOST = 1000  # bytes


@pytest.fixture
def watched(monkeypatch):
    """Return a function that watches a process: its limit, the time of its end, its peak, and the looks for children.

    ``resident``: the bytes at each look; the last ones stay. ``ends``: when the process ends by itself, in seconds.
    """

    def watch(*, time_s=1e9, forgiven=lambda now: 0.0, resident=(0,), ends=1e6):
        now, ended, families, left = [100.0], [], [], list(resident)

        def wait(seconds):
            assert 0.01 <= seconds <= 0.1
            now[0] += seconds
            return now[0] >= 100.0 + ends

        monkeypatch.setattr(process, "time", SimpleNamespace(monotonic=lambda: now[0]))
        monkeypatch.setattr(process, "_family", lambda group: families.append(round(now[0] - 100, 3)) or [group])
        monkeypatch.setattr(process, "_resident_bytes", lambda _: left.pop(0) if len(left) > 1 else left[0])
        monkeypatch.setattr(process, "_end", lambda group: ended.append((group, now[0] - 100)))
        made = process._Watch(7, time_s, MOST, lambda: forgiven(now[0] - 100))
        made._done = SimpleNamespace(wait=wait)
        made.run()
        assert [group for group, _ in ended] == [7] * (made.limit is not None)
        return made.limit, ended[0][1] if ended else None, made.peak_bytes, families

    return watch


@pytest.mark.parametrize(
    ("forgiven", "until"),
    [
        (lambda now: 0.0, 2.0),
        (lambda now: 3.0, 5.0),
        (lambda now: min(now, 4.0), 6.0),  # a wait that goes on until the fourth second
        (lambda now: 0.5 * now, 4.0),
    ],
)
def test_a_process_may_take_its_time_and_what_is_forgiven(watched, forgiven, until):
    limit, at, _, _ = watched(time_s=2.0, forgiven=forgiven)
    assert limit is Outcome.TIMEOUT
    assert until <= at <= until + 0.2


@pytest.mark.parametrize(("ends", "limit"), [(4.9, None), (5.3, Outcome.TIMEOUT)])
def test_a_process_that_ends_in_time_is_not_limited(watched, ends, limit):
    assert watched(time_s=2.0, forgiven=lambda now: 3.0, ends=ends)[0] is limit


@pytest.mark.parametrize(
    ("resident", "limit", "peak"),
    [
        ((300, 700, 500), None, 700),
        ((300, MOST, 0), None, MOST),
        ((300, MOST + 1, 0), Outcome.OUT_OF_MEMORY, MOST + 1),
        ((0,), None, 0),
    ],
)
def test_the_most_memory_of_all_looks_is_limited(watched, resident, limit, peak):
    found, at, most, _ = watched(resident=resident, ends=1.0)
    assert (found, most) == (limit, peak)
    assert at is None or at == pytest.approx(0.2)


def test_children_are_looked_for_every_tenth_time(watched):
    assert watched(ends=2.55)[3] == [0.1, 1.1, 2.1]


@pytest.mark.parametrize(
    ("status", "marked"), [(0, False), (3, False), (-signal.SIGTERM, False), (-signal.SIGKILL, True)]
)
def test_what_a_killed_supervisor_has_left_is_killed(monkeypatch, tmp_path, status, marked):
    """Everything else ends before the status is read; output is written to the end."""
    calls = []
    server = object()

    class Spawned:
        def __init__(self, module, arguments, output, environment):
            calls.append(("start", module, list(arguments), environment["A"]))
            os.write(output, b"the end\n")
            self.process, self.server = 7, server

        def wait(self):
            calls.append("wait")

        def status(self):
            calls.append("status")
            return status

    watch = SimpleNamespace(
        start=lambda: calls.append("watch"), stop=lambda: calls.append("stop"), limit=Outcome.TIMEOUT, peak_bytes=5
    )
    monkeypatch.setattr(process, "Spawned", Spawned)
    monkeypatch.setattr(process, "_Watch", lambda *given: calls.append(given[:3]) or watch)
    for name in ("_end", "_kill_group", "_kill_marked"):
        monkeypatch.setattr(process, name, lambda given, name=name: calls.append((name, given)))
    output = tmp_path / "output.txt"
    ending = run_process("a_module", ["b"], output=output, environment={"A": "1"}, time_s=3.0, memory_bytes=9)
    assert ending == Ending(status, Outcome.TIMEOUT, ending.seconds, 5)
    assert calls == [
        ("start", "a_module", ["b"], "1"), (7, 3.0, 9), "watch", "wait", "stop", ("_end", 7), ("_kill_group", 7),
        "status", *([("_kill_marked", server)] if marked else []),
    ]  # fmt: skip
    assert output.read_text() == "the end\n"


def test_processes_with_the_mark_of_a_server_are_killed_and_no_others(monkeypatch, tmp_path):
    mark = str(tmp_path)
    command = [sys.executable, "-S", "-c", "import signal; signal.pause()"]

    def start(of):
        environment = {**os.environ, spawn.MARK_VARIABLE: of}
        return subprocess.Popen(command, env=environment, start_new_session=True)

    looks, marked = [], process.marked

    def few(variable, value):
        looks.append(marked(variable, value))
        assert len(looks) < 5000, "they are not killed"
        for one in killed:
            one.poll()  # reaped here, as the children of this process
        return looks[-1]

    monkeypatch.setattr(process, "marked", few)
    killed, others = [start(mark), start(mark)], [start(f"{mark}-another"), start(mark)]
    try:
        while len(marked(spawn.MARK_VARIABLE, mark)) < 3:  # until their environments are theirs
            pass
        process._kill_marked(SimpleNamespace(mark=mark, process=others[1].pid))
        assert [one.wait() for one in killed] == [-signal.SIGKILL] * 2
        assert [one.poll() for one in others] == [None, None]
    finally:
        for one in (*killed, *others):
            one.kill()
            one.wait()
    assert all(gone(one.pid) for one in others)


@pytest.mark.parametrize(
    ("answer", "status", "dropped"),
    [(0, 0, False), (5 << 8, 5, False), (9, -9, False), (OSError("the server has ended"), -signal.SIGKILL, True)],
)
def test_the_status_is_that_of_the_supervisor_or_of_a_killed_server(monkeypatch, answer, status, dropped):
    child, closed = spawned(monkeypatch, answer)
    assert child.status() == status
    assert closed == [child.server] * dropped


def test_an_interruption_while_the_status_is_read_passes_and_ends_the_server(monkeypatch):
    child, closed = spawned(monkeypatch, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        child.status()
    assert closed == [child.server]


def spawned(monkeypatch, answer):
    """Return a process whose server answers with a wait status or an error, and the servers that are dropped."""

    def end():
        if isinstance(answer, BaseException):
            raise answer
        return answer

    server, closed = SimpleNamespace(run=lambda *_: os.getpid(), end=end), []
    monkeypatch.setattr(spawn, "_server_for", lambda environment: server)
    monkeypatch.setattr(spawn, "_drop", closed.append)
    return spawn.Spawned("a_module", [], 1, {}), closed
