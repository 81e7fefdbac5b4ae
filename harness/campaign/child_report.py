"""The report of a child process to its parent: one JSON object per line, so that a crash loses only the last."""

from __future__ import annotations

import errno
import json
import os
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from harness.cache import CacheError
from harness.records.outcome import Outcome
from harness.records.text import bounded

REPORT_FILE = "report.jsonl"
WAIT_STAGE = "wait"
STORE_STATUS = 74  # of a process that could not write its report: EX_IOERR of sysexits.h
_DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)
_MOST_BYTES = 100_000_000  # of a report; that of a million supersteps has 20 MB


class StoreError(Exception):
    """A cell's results could not be stored; not a fault of the cell."""


class ReportDamaged(Exception):
    """The report cannot be written any more, because the engine has closed it."""


class ChildReport:
    """Writes fields of the future record sequentially; a field written again replaces the earlier one.

    Raises StoreError when the disk is full, ReportDamaged when the file has been closed.
    """

    def __init__(self, file: BinaryIO) -> None:
        """``file`` must be unbuffered: written fields must survive a crash of the process."""
        self._file = file
        self._stage = "start"

    def tell(self, **fields: Any) -> None:
        """Write fields of the record, with their texts shortened."""
        line = (json.dumps(bounded(fields)) + "\n").encode()
        try:
            written = self._file.write(line)
        except OSError as error:
            if error.errno in _DISK_ERRORS:
                raise StoreError(str(error)) from error
            raise ReportDamaged(f"{error}: an engine or a library has closed a file that it did not open") from error
        if written != len(line):
            raise StoreError(f"only {written} of {len(line)} bytes were written: the disk is full")

    def stage(self, name: str) -> None:
        """Record the current stage, which shows where a run was lost that never returned."""
        self._stage = name
        self.tell(stage=name)

    def waits(self, behind: str) -> None:
        """Record that the run now waits for its device, which is not its fault, and who holds the device."""
        self.tell(stage=WAIT_STAGE, wait_began=time.monotonic(), behind=behind)

    def waited(self, seconds: float) -> None:
        """Record that the wait is over, its total time in seconds, and that the previous stage continues."""
        self.tell(stage=self._stage, wait_began=None, waited=seconds)

    def end(self, outcome: Outcome, reason: str = "") -> None:
        """Record the outcome of the run."""
        self.tell(outcome=outcome.value, reason=reason)


@contextmanager
def keeping(report: ChildReport) -> Iterator[None]:
    """Turn errors of a full or unwritable disk or cache into a StoreError, and record them; not a fault of the cell.

    Any other OSError is passed on.
    """
    try:
        yield
    except CacheError as error:
        report.tell(cache_error=str(error))
        raise StoreError(str(error)) from error
    except OSError as error:
        if error.errno not in _DISK_ERRORS:
            raise
        report.tell(store_error=str(error))
        raise StoreError(str(error)) from error


def waited_s(fields: Mapping[str, Any]) -> float:
    """Return how long a run has waited for its device so far; all processes of a machine share the clock."""
    began, before = fields.get("wait_began"), fields.get("waited")
    seconds = before if isinstance(before, float) else 0.0
    return seconds + time.monotonic() - began if isinstance(began, float) else seconds


def read_report(path: Path) -> dict[str, Any]:
    """Return all fields written so far; none if there is no such file, or if it is not a regular file."""
    try:
        # An engine may put a pipe there, which must not block.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            return parse_report(file)[0] if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else {}
    except OSError:  # nothing has been written yet, or the cell has just ended and its folder is gone
        return {}


def parse_report(file: BinaryIO) -> tuple[dict[str, Any], bool]:
    """Return the fields in a report, and whether it has malformed lines.

    A last line that a crash cut short is ignored.
    """
    fields: dict[str, Any] = {}
    content = file.read(_MOST_BYTES + 1)
    damaged = len(content) > _MOST_BYTES
    for line in [] if damaged else content.split(b"\n")[:-1]:
        try:
            fields.update(_fields(line))
        except (ValueError, RecursionError):
            damaged = True
    return fields, damaged


def _fields(line: bytes) -> dict[str, Any]:
    fields = json.loads(line)
    if not isinstance(fields, dict):
        raise ValueError(f"{fields!r} is not an object")
    return fields
