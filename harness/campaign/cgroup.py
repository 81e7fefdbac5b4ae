"""Limits that the system imposes on this process through its control group, such as a container or a cluster job."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")
_MEMBERSHIP = Path("/proc/self/cgroup")
_UNLIMITED = 1 << 60  # version 1 reports a number of this size for no limit


def memory_limit() -> int | None:
    """Return the memory limit in bytes of this group, outer groups included; None for no limit."""
    limits: list[int] = []
    for path in (*_files("", "memory.max"), *_files("memory", "memory.limit_in_bytes")):
        with contextlib.suppress(OSError, ValueError):  # "max" means no limit
            limits.append(int(path.read_text()))
    return min((limit for limit in limits if limit < _UNLIMITED), default=None)


def times_throttled() -> int:
    """Return how often this group has been throttled so far because its CPU quota was exhausted."""
    times = 0
    for path in (*_files("", "cpu.stat"), *_files("cpu", "cpu.stat")):
        with contextlib.suppress(OSError, ValueError):
            counters = dict(line.split() for line in path.read_text().splitlines())
            times += int(counters.get("nr_throttled", 0))
    return times


def _files(controller: str, name: str) -> Iterator[Path]:
    """Yield the files called ``name`` of the group of this process and of its parents.

    ``controller`` is a version 1 controller, or empty for version 2, which has a single tree.
    """
    try:
        memberships = [line.split(":", 2) for line in _MEMBERSHIP.read_text().splitlines()]
    except OSError:
        return
    for _, controllers, group in memberships:
        if controller in controllers.split(","):
            inner = Path(group.lstrip("/"))
            # A container may see its own group as the root of the tree, whatever its name is outside.
            yield from (_ROOT / controller / part / name for part in (inner, *inner.parents))
