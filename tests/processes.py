"""Check whether processes have ended, by pid while they may be ending, and the limit of the wait."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterable
from pathlib import Path

import psutil

LOOK_EVERY_S = 0.02
# Many times longer than anything in a test takes on a slow and busy machine: longer means that it hangs.
HANGS_S = 300.0


def gone(pid: int) -> bool:
    """Return whether a process has ended, zombies included."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def until_pending(pid: int, number: signal.Signals) -> None:
    """Return when a signal has been sent to a process that blocks it or is stopped."""
    until = time.monotonic() + HANGS_S
    while not _pending(pid) >> (number - 1) & 1:
        assert time.monotonic() < until, f"{number.name} has not been sent to {pid}"
        os.sched_yield()


def _pending(pid: int) -> int:
    """Return the pending signals of a process, as bits."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1], 16) for line in lines if line.startswith("ShdPnd"))


def waits_for_lock(path: Path, thread: threading.Thread) -> None:
    """Return when a process waits for the lock of a file, or the thread has ended."""
    inode, until = path.stat().st_ino, time.monotonic() + HANGS_S
    while thread.is_alive() and not _waiters(inode):
        assert time.monotonic() < until, f"no process waits for {path}"
        os.sched_yield()


def _waiters(inode: int) -> list[str]:
    lines = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    return [line[5] for line in lines if line[1] == "->" and line[6].rpartition(":")[2] == str(inode)]


def never_ending(pids: Iterable[int]) -> list[int]:
    """Return those of the processes that have not ended after `HANGS_S`; return earlier if all have ended."""
    left, until = [*pids], time.monotonic() + HANGS_S
    while (left := [pid for pid in left if not gone(pid)]) and time.monotonic() < until:
        with contextlib.suppress(psutil.TimeoutExpired, psutil.NoSuchProcess):
            psutil.Process(left[0]).wait(LOOK_EVERY_S)
    return left


def vanishes(path: Path) -> bool:
    """Return whether a file is gone, once it is or after `HANGS_S`."""
    until = time.monotonic() + HANGS_S
    while path.exists() and time.monotonic() < until:
        os.sched_yield()
    return not path.exists()
