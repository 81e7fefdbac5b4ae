"""A process of its own for a cell: watched, limited in time and memory, ended with everything that it started."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import site
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

import harness
from harness.records.outcome import Outcome

_WATCH_INTERVAL_S = 0.1
# Finding descendants reads every process of the machine (2 ms for a hundred), which would disturb what is timed.
_LOOKS_A_CENSUS = 10
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Ending:
    """How a process ended: its exit status (negative: a signal), the limit that ended it, its wall-clock seconds and
    the most resident bytes seen."""

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
) -> Ending:
    """Run ``python -m module`` in a session of its own, its output in a file, until it ends or meets a limit.

    When this process is interrupted, the child and all it started are killed before the interruption goes on.
    """
    command = [sys.executable, "-P", "-X", "faulthandler", "-m", module, *arguments]
    began = time.perf_counter()
    with output.open("wb") as file:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, **environment, "PYTHONPATH": _python_path()},
        )
    watch = _Watch(child.pid, time_s, memory_bytes)
    watch.start()
    try:
        # Wait without reaping: as long as the child's number is taken, so is that of its group.
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    finally:
        watch.stop()
        _kill_group(child.pid)
        status = child.wait()
    return Ending(status, watch.limit, time.perf_counter() - began, watch.peak_bytes)


def die_with_parent(parent: int) -> None:
    """Ask the system to kill this process when its parent dies, and leave at once if it already has. Linux only."""
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _python_path() -> str:
    """What was asked for, and first, where the child would not look for it, the folder that this harness came from."""
    root = str(Path(harness.__file__).parent.parent)
    known = root in (*site.getsitepackages(), site.getusersitepackages())
    return os.pathsep.join(filter(None, ["" if known else root, os.environ.get("PYTHONPATH", "")]))


def _kill_group(group: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


class _Watch(threading.Thread):
    """Looks at a process group now and then, and kills it when it is too old or too large."""

    def __init__(self, group: int, time_s: float, memory_bytes: int) -> None:
        super().__init__(daemon=True)
        self._group, self._time_s, self._memory_bytes = group, time_s, memory_bytes
        self._done = threading.Event()
        self.limit: Outcome | None = None
        self.peak_bytes = 0
        self._family: list[psutil.Process] = []

    def run(self) -> None:
        deadline = time.monotonic() + self._time_s
        looks = 0
        while not self._done.wait(min(_WATCH_INTERVAL_S, max(0.0, deadline - time.monotonic()))):
            if looks % _LOOKS_A_CENSUS == 0:
                self._family = _family(self._group)
            looks += 1
            self.peak_bytes = max(self.peak_bytes, _resident_bytes(self._family))
            if self.peak_bytes > self._memory_bytes:
                self.limit = Outcome.OUT_OF_MEMORY
            elif time.monotonic() >= deadline:
                self.limit = Outcome.TIMEOUT
            if self.limit is not None:
                _kill_group(self._group)
                return

    def stop(self) -> None:
        self._done.set()
        self.join()


def _family(pid: int) -> list[psutil.Process]:
    """A process and its descendants; empty when it has just ended."""
    try:
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _resident_bytes(processes: Sequence[psutil.Process]) -> int:
    """Resident bytes of processes together; those that have just ended count nothing."""
    total = 0
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            total += process.memory_info().rss
    return total
