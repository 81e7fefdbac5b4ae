"""What the system grants this process as part of a control group, such as a container or a job of a cluster."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")
_MEMBERSHIP = Path("/proc/self/cgroup")
_UNLIMITED = 1 << 60  # version 1 writes a number of this size where there is no limit


def memory_limit() -> int | None:
    """The most bytes that the processes of this group may take together, outer groups included; None for no limit."""
    limits: list[int] = []
    for path in (*_files("", "memory.max"), *_files("memory", "memory.limit_in_bytes")):
        with contextlib.suppress(OSError, ValueError):  # "max" where there is none
            limits.append(int(path.read_text()))
    return min((limit for limit in limits if limit < _UNLIMITED), default=None)


def times_throttled() -> int:
    """How often this group has been held back so far because it had used up its quota of processor time."""
    times = 0
    for path in (*_files("", "cpu.stat"), *_files("cpu", "cpu.stat")):
        with contextlib.suppress(OSError, ValueError):
            told = dict(line.split() for line in path.read_text().splitlines())
            times += int(told.get("nr_throttled", 0))
    return times


def _files(controller: str, name: str) -> Iterator[Path]:
    """The files called ``name`` of the group of this process and of those around it.

    ``controller`` is one of version 1 of control groups, or empty for version 2, which has one tree for all.
    """
    try:
        memberships = [line.split(":", 2) for line in _MEMBERSHIP.read_text().splitlines()]
    except OSError:
        return
    for _, controllers, group in memberships:
        if controller in controllers.split(","):
            inner = Path(group.lstrip("/"))
            # A container may see its own group as the root of the tree, whatever it is called outside.
            yield from (_ROOT / controller / part / name for part in (inner, *inner.parents))
