"""Supervise the process of a cell, between it and the server that forks both.

The supervisor runs a module in a process forked from itself and adopts everything that this process leaves behind. It
kills all of it when the module ends, when SIGTERM comes, or when its parent dies, however that dies. On request of that
process it runs another module in the same way, from the same state (:func:`run_beside`). Linux only.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import json
import os
import resource
import runpy
import signal
import socket
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_REQUEST = signal.SIGUSR1  # a request lies in the socket
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD, _REQUEST)
_MOST_BYTES = 1 << 16  # of a request
_supervisor: tuple[int, socket.socket] | None = None  # of this process: its number, and a socket to it


@dataclass(frozen=True)
class _Task:
    """A module to run in a forked process; ``descriptors``: its standard input and error, unless they are kept."""

    module: str
    arguments: Sequence[str]
    descriptors: Sequence[int] = ()


def supervise(parent: int, module: str, arguments: Sequence[str]) -> None:
    """Become the supervisor of ``python -m module``; return in the module's own process, once the module has run."""
    global _supervisor
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        os._exit(1)  # the parent died before its death could be noticed
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    supervisor = os.getpid()
    requests, asking = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    task = _Task(module, arguments)
    child = os.fork()
    if child:
        asking.close()
        ended = _Watch(child, requests).wait()
        if not isinstance(ended, _Task):
            _end_as(ended)
        else:
            task = ended
    else:
        _supervisor = supervisor, asking
    requests.close()
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # otherwise nothing would end it if its supervisor were killed
    if os.getppid() != supervisor:
        os._exit(1)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
    if "numpy.random" in sys.modules:
        sys.modules["numpy"].random.seed()  # else every process would draw the same numbers
    for descriptor, number in zip(task.descriptors, (0, 2), strict=False):
        os.dup2(descriptor, number)
        os.close(descriptor)
    sys.argv = [task.module, *task.arguments]
    sys.modules.pop(task.module, None)  # imported by the server; runpy warns of a module that is imported already
    runpy.run_module(task.module, run_name="__main__", alter_sys=True)


def run_beside(module: str, stdin: int, stderr: int) -> int | None:
    """Run ``python -m module`` in a process that the supervisor of this process forks from itself, and wait for it.

    The new process has what this one had at its start: its modules, its environment and its folder. ``stdin``,
    ``stderr``: descriptors. Returns the exit status (negative: a signal), or None if this process has no supervisor.
    Raises OSError if the supervisor does not answer.
    """
    if _supervisor is None:
        return None
    supervisor, asking = _supervisor
    socket.send_fds(asking, [json.dumps(module).encode()], [stdin, stderr])
    os.kill(supervisor, _REQUEST)
    answer = asking.recv(_MOST_BYTES)
    if not answer:
        raise ConnectionResetError("the supervisor has ended")
    return os.waitstatus_to_exitcode(int(answer))


class _Watch:
    """The wait of a supervisor for ``child``; ``requests`` come from it."""

    def __init__(self, child: int, requests: socket.socket) -> None:
        self._child, self._requests = child, requests
        self._beside: set[int] = set()
        requests.setblocking(False)

    def wait(self) -> int | _Task:
        """Wait for the child or for SIGTERM, then kill every descendant; return the child's wait status, or SIGTERM.

        In a process forked on request, return the task. SIGINT is ignored: a cell has a separate session, so Ctrl-C
        never reaches it, and only the cell's own code sends SIGINT to its group.
        """
        status: int | None = None
        terminated = False
        while status is None and not terminated:
            met = signal.sigwait(_SIGNALS)
            terminated = met == signal.SIGTERM
            if met == signal.SIGCHLD:
                status = self._reap()
            if met == _REQUEST and (task := self._fork()) is not None:
                return task
        while not childless():
            for process in descendants():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            # The dead are reaped in the next round, when their orphans have become children of this process.
            time.sleep(0.001)
            reaped = self._reap()
            status = reaped if status is None else status
        return signal.SIGTERM if terminated or status is None else status

    def _fork(self) -> _Task | None:
        """Fork a process for the request in the socket, if there is one; return its task in that process."""
        try:
            message, descriptors, _, _ = socket.recv_fds(self._requests, _MOST_BYTES, 2)
        except OSError:  # none: the signal came from elsewhere
            return None
        if not message:
            return None
        process = os.fork()
        if process == 0:
            return _Task(json.loads(message), (), descriptors)
        self._beside.add(process)
        for descriptor in descriptors:
            os.close(descriptor)
        return None

    def _reap(self) -> int | None:
        """Reap all dead children, report those forked on request; return the wait status of the child if it is dead."""
        found = None
        with contextlib.suppress(ChildProcessError):
            while True:
                process, status = os.waitpid(-1, os.WNOHANG)
                if process == 0:
                    break
                if process == self._child:
                    found = status
                if process in self._beside:
                    self._beside.remove(process)
                    with contextlib.suppress(OSError):  # the child has ended
                        self._requests.send(str(status).encode())
        return found


def childless() -> bool:
    """Return whether this process has no child, dead or alive.

    Supervisor and server kill until then, because the lists of /proc can miss a process while others end. A process
    that outlives its parent becomes a child of theirs, so none is left.
    """
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return True
    return False


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
