"""Supervise the process of a cell, between it and the server that forks both.

The supervisor runs a module in a process forked from itself and adopts everything that this process leaves behind. It
kills all of it when the module ends, when SIGTERM comes, or when its parent dies, however that dies. Linux only.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import os
import resource
import runpy
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)


def supervise(parent: int, module: str, arguments: Sequence[str]) -> None:
    """Become the supervisor of ``python -m module``; return in the module's own process, once the module has run."""
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        os._exit(1)  # the parent died before its death could be noticed
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    supervisor = os.getpid()
    child = os.fork()
    if child:
        _end_as(_watch_over(child))
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # otherwise nothing would end it if its supervisor were killed
    if os.getppid() != supervisor:
        os._exit(1)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _watch_over(child: int) -> int:
    """Wait for the child or for SIGTERM, then kill every descendant; return the child's wait status, or SIGTERM.

    SIGINT is ignored: a cell has a separate session, so Ctrl-C never reaches it, and only the cell's own code sends
    SIGINT to its group.
    """
    status: int | None = None
    terminated = False
    while status is None and not terminated:
        met = signal.sigwait(_SIGNALS)
        terminated = met == signal.SIGTERM
        if met == signal.SIGCHLD:
            status = _reap(child)
    while family := descendants():
        for process in family:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        time.sleep(
            0.001
        )  # the dead are reaped in the next round, when their orphans have become children of this process
        reaped = _reap(child)
        status = reaped if status is None else status
    return signal.SIGTERM if terminated or status is None else status


def _reap(child: int) -> int | None:
    """Reap all dead children; return the wait status of ``child`` if it is among them."""
    found = None
    with contextlib.suppress(ChildProcessError):
        while True:
            process, status = os.waitpid(-1, os.WNOHANG)
            if process == 0:
                break
            if process == child:
                found = status
    return found


def descendants() -> list[int]:
    """Return the children of this process and their descendants, including zombies, as listed by the system."""
    found: list[int] = []
    waiting = [os.getpid()]
    while waiting:
        children = _children(waiting.pop())
        found += children
        waiting += children
    return found


def _children(process: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{process}/task").iterdir():
            with contextlib.suppress(OSError):
                found += map(int, (task / "children").read_text().split())
    return found


def _end_as(status: int) -> None:
    """End in the way that a wait status describes: by the same signal or with the same exit status."""
    if not os.WIFSIGNALED(status):
        os._exit(os.waitstatus_to_exitcode(status))
    number = os.WTERMSIG(status)
    faulthandler.disable()  # the child has already reported the fault
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if number not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, signal.valid_signals())
    os.kill(os.getpid(), number)
    os._exit(128 + number)  # a signal whose default is to do nothing
