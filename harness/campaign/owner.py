"""The process that owns a sweep, and jobs in other processes of the same machine that must not outlive it."""

from __future__ import annotations

import functools
import os
import select
import threading
from pathlib import Path


def this_process() -> str:
    """A name for this process that no other has: boot of the machine, process space, number, time of its start."""
    return "/".join([_space(), str(os.getpid()), _start_of(os.getpid())])


@functools.cache
def end_with(owner: str) -> None:
    """End this process, and so every cell that it runs, as soon as the owner has died.

    An owner on another machine, such as the login node of a cluster, is left to whatever started the job.
    """
    space, number, start = owner.rsplit("/", 2)
    if space != _space() or int(number) == os.getpid():
        return
    try:
        watched = os.pidfd_open(int(number))
        if _start_of(int(number)) != start:
            raise ProcessLookupError
    except (ProcessLookupError, FileNotFoundError):
        os._exit(1)
    threading.Thread(target=_end_after, args=(watched,), daemon=True).start()


def _end_after(watched: int) -> None:
    readiness = select.poll()
    readiness.register(watched, select.POLLIN)
    readiness.poll()
    os._exit(1)


def _space() -> str:
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot}:{os.stat('/proc/self/ns/pid').st_ino}"


def _start_of(process: int) -> str:
    """When a process started, in ticks since the machine did."""
    # The second field is the program's name in brackets, which may hold anything.
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19]
