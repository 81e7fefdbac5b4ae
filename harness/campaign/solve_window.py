"""The duration of the timed runs by the system's clock, for comparison with the clock of the cell's process.

The cell's process creates a file when the stage begins and another when it ends, for each phase of the program. Their
modification times come from the kernel, so an engine that manipulates the clocks of its own process does not change
them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harness import clock
from harness.campaign.child_report import ChildReport, keeping

FIELD = "solve_window"  # of a report: seconds by the process's clock
_BEGAN, _ENDED = ".solve-began-", ".solve-ended-"  # and the number of the phase, from 0
# Modification times have a granularity of up to 10 ms, and a busy system delays the code between the two clocks.
_LEAST_S, _SHARE = 0.1, 0.05


@contextmanager
def solve_window(report: ChildReport, folder: Path) -> Iterator[None]:
    """Mark the beginning and the end of the stage in ``folder``'s parent, and record its duration."""
    number = _windows(folder.parent)
    with keeping(report):
        (folder.parent / f"{_BEGAN}{number}").touch()
    began = clock.perf_counter()
    try:
        yield
    except BaseException:
        with keeping(report):
            (folder.parent / f"{_BEGAN}{number}").unlink(missing_ok=True)
        raise
    seconds = clock.perf_counter() - began
    with keeping(report):
        (folder.parent / f"{_ENDED}{number}").touch()
    report.tell(**{FIELD: seconds})


def _windows(folder: Path) -> int:
    """Return how many windows are marked in a folder."""
    return sum(1 for _ in folder.glob(f"{_BEGAN}*"))


def system_offset() -> float:
    """Return the difference between the time of day and the monotonic clock: it changes when the time is set."""
    return time.time() - time.monotonic()


def wrong_clock(fields: Mapping[str, Any], folder: Path, offset_before: float) -> str:
    """Return why the times of a cell are implausible; an empty text if they are plausible or cannot be compared.

    ``fields``: those of the report. ``folder``: the folder of the marks. ``offset_before``: :func:`system_offset`
    before the cell's process began; if the time of day was set meanwhile, nothing is compared.
    """
    reported, solve = fields.get(FIELD), fields.get("solve")
    if not isinstance(reported, float) or not solve or abs(system_offset() - offset_before) > _LEAST_S / 2:
        return ""
    windows = range(_windows(folder))
    try:
        began, ended = (
            sum((folder / f"{mark}{number}").stat().st_mtime_ns for number in windows) for mark in (_BEGAN, _ENDED)
        )
    except OSError:
        return ""
    wall = (ended - began) / 1e9
    margin = _LEAST_S + _SHARE * wall
    samples = sum(solve["samples"])
    if abs(reported - wall) > margin:
        return (
            f"the timed runs took {reported:.3g} s by the clock of the cell's process and {wall:.3g} s by the system's"
        )
    if samples > wall + margin:
        return f"the samples add up to {samples:.3g} s, and all timed runs took {wall:.3g} s by the system's clock"
    return ""
