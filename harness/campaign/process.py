"""A separate process for a cell: watched, limited in time and memory, ended together with all its descendants."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import site
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

import harness
from harness.campaign.bytecode import bytecode_environment
from harness.campaign.orphans import marked
from harness.campaign.output import OutputFile
from harness.campaign.spawn import MARK_VARIABLE, Server, Spawned
from harness.records.outcome import Outcome

_WATCH_INTERVAL_S = 0.1
# Finding descendants reads every process of the machine (2 ms per hundred), which would disturb timing.
_LOOKS_A_CENSUS = 10
_GRACE_S = 5.0  # for a supervisor to end its descendants; it takes milliseconds


@dataclass(frozen=True)
class Ending:
    """How a process ended.

    ``status``: exit status (negative: a signal). ``limit``: the limit that ended it. ``seconds``: wall-clock seconds.
    ``peak_bytes``: the largest resident memory seen, without pages of mapped files.
    """

    status: int
    limit: Outcome | None
    seconds: float
    peak_bytes: int

    @property
    def signal_name(self) -> str | None:
        """The name of the signal that killed it, such as SIGSEGV."""
        if self.status >= 0:
            return None
        try:
            return signal.Signals(-self.status).name
        except ValueError:
            return f"signal {-self.status}"


def run_process(
    module: str,
    arguments: Sequence[str],
    *,
    output: Path,
    environment: Mapping[str, str],
    time_s: float,
    memory_bytes: int,
    forgiven_s: Callable[[], float] = lambda: 0.0,
) -> Ending:
    """Run ``python -m module`` in a separate session, its output in a file, until it ends or reaches a limit.

    ``forgiven_s``: seconds that do not count towards ``time_s``, queried when the limit is reached. However this
    process ends, the child and its descendants end with it.
    """
    began = time.perf_counter()
    printed = OutputFile(output)
    path = {"PYTHONPATH": python_path()}
    variables = {**os.environ, **bytecode_environment(), **environment, **path}
    try:
        child = Spawned(module, arguments, printed.writer, variables)
    finally:
        os.close(printed.writer)
        printed.start()
    watch = _Watch(child.process, time_s, memory_bytes, forgiven_s)
    watch.start()
    try:
        child.wait()
    finally:
        watch.stop()
        try:
            _end(child.process)
        finally:
            _kill_group(child.process)
            status = child.status()
            if status == -signal.SIGKILL:
                _kill_marked(child.server)
            printed.finish()
    return Ending(status, watch.limit, time.perf_counter() - began, watch.peak_bytes)


def _end(supervisor: int) -> None:
    """End a supervisor with all its descendants; it may still be running, and is not reaped.

    The supervisor does it itself, unless it is stopped or cannot run. After `_GRACE_S` seconds it is killed, its
    descendants first; until then all of them are its descendants, in whatever session.
    """
    watched = os.pidfd_open(supervisor)
    try:
        readiness = select.poll()
        readiness.register(watched, select.POLLIN)
        for number in (signal.SIGTERM, signal.SIGCONT):
            signal.pidfd_send_signal(watched, number)
        if readiness.poll(1000 * _GRACE_S):
            return
        signal.pidfd_send_signal(watched, signal.SIGSTOP)  # it adopts orphans and does nothing else
        while alive := [one for one in _family(supervisor) if _alive(one)]:
            for process in alive:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
        signal.pidfd_send_signal(watched, signal.SIGKILL)
        readiness.poll()
    finally:
        os.close(watched)


def python_path() -> str:
    """Return PYTHONPATH for a child, with the folder of this harness first if the child would not find it otherwise."""
    root = str(Path(harness.__file__).parent.parent)
    known = root in (*site.getsitepackages(), site.getusersitepackages())
    return os.pathsep.join(filter(None, ["" if known else root, os.environ.get("PYTHONPATH", "")]))


def _kill_group(group: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def _kill_marked(server: Server) -> None:
    """Kill what a supervisor and its server left that were killed: descendants in sessions of their own."""
    while found := [process for process in marked(MARK_VARIABLE, server.mark) if process != server.process]:
        for process in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)


class _Watch(threading.Thread):
    """Checks a process group at intervals, and kills it if it exceeds its time or memory."""

    def __init__(self, group: int, time_s: float, memory_bytes: int, forgiven_s: Callable[[], float]) -> None:
        super().__init__(daemon=True)
        self._group, self._time_s, self._memory_bytes = group, time_s, memory_bytes
        self._forgiven_s = forgiven_s
        self._done = threading.Event()
        self.limit: Outcome | None = None
        self.peak_bytes = 0
        self._family: list[psutil.Process] = []

    def run(self) -> None:
        began = time.monotonic()
        deadline = began + self._time_s
        looks = 0
        while not self._done.wait(min(_WATCH_INTERVAL_S, max(0.01, deadline - time.monotonic()))):
            if looks % _LOOKS_A_CENSUS == 0:
                self._family = _family(self._group)
            looks += 1
            self.peak_bytes = max(self.peak_bytes, _resident_bytes(self._family))
            if self.peak_bytes > self._memory_bytes:
                self.limit = Outcome.OUT_OF_MEMORY
            elif time.monotonic() >= deadline:
                deadline = began + self._time_s + self._forgiven_s()
                self.limit = Outcome.TIMEOUT if time.monotonic() >= deadline else None
            if self.limit is not None:
                _end(self._group)
                return

    def stop(self) -> None:
        self._done.set()
        self.join()


def _family(pid: int) -> list[psutil.Process]:
    """Return the descendants of a supervisor; empty if it has just ended."""
    try:
        return list(psutil.Process(pid).children(recursive=True))
    except psutil.NoSuchProcess:
        return []


def _alive(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _resident_bytes(processes: Sequence[psutil.Process]) -> int:
    """Return the total resident bytes of processes, without pages of mapped files; ended processes count as zero.

    The system drops pages of files when it needs memory.
    """
    total = 0
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            total += process.memory_info().rss - _file_bytes(process.pid)
    return total


def _file_bytes(pid: int) -> int:
    """Return the resident bytes of mapped files; 0 if the system does not report them."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("RssFile:"):
                return 1024 * int(line.split()[1])
    return 0
