"""Whether processes have ended, asked by pid while they may be ending."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable

import psutil

LOOK_EVERY_S = 0.02


def gone(pid: int) -> bool:
    """Whether a process has ended; one that nobody has waited for yet has."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def left_after(pids: Iterable[int], timeout_s: float) -> list[int]:
    """Those of the processes that have not ended when all were waited for, or for that long."""
    left, until = [*pids], time.monotonic() + timeout_s
    while (left := [pid for pid in left if not gone(pid)]) and time.monotonic() < until:
        with contextlib.suppress(psutil.TimeoutExpired, psutil.NoSuchProcess):
            psutil.Process(left[0]).wait(LOOK_EVERY_S)
    return left
