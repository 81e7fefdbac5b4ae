"""What a child process tells its parent as it goes: one JSON object a line, so that a crash loses only the last."""

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

DRAFT_FILE = "draft.jsonl"
WAIT_STAGE = "wait"
STORE_STATUS = 74  # of a process that could keep no draft: EX_IOERR of sysexits.h
_DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)
_MOST_BYTES = 100_000_000  # of a draft; that of a million supersteps has 20 MB


class StoreError(Exception):
    """What a cell leaves behind could not be kept, which is no fault of the cell's."""


class DraftDamaged(Exception):
    """The draft cannot be written any more, because the engine has closed it."""


class Draft:
    """Fields of the record to be, written one after the other; a field written again replaces the one before.

    Raises StoreError when there is no room for them, DraftDamaged when the file has been closed.
    """

    def __init__(self, file: BinaryIO) -> None:
        """``file`` is not buffered: what has been told must be there whatever becomes of the process."""
        self._file = file
        self._stage = "start"

    def tell(self, **fields: Any) -> None:
        """Add fields of the record, with their texts shortened."""
        line = (json.dumps(bounded(fields)) + "\n").encode()
        try:
            written = self._file.write(line)
        except OSError as error:
            if error.errno in _DISK_ERRORS:
                raise StoreError(str(error)) from error
            raise DraftDamaged(f"{error}: an engine or a library has closed a file that it did not open") from error
        if written != len(line):
            raise StoreError(f"only {written} of {len(line)} bytes were written: the disk is full")

    def stage(self, name: str) -> None:
        """Say what is being done now: where a run that never comes back was lost."""
        self._stage = name
        self.tell(stage=name)

    def waits(self, behind: str) -> None:
        """Say that the run waits for its device from now on, which is not its fault, and who has it."""
        self.tell(stage=WAIT_STAGE, wait_began=time.monotonic(), behind=behind)

    def waited(self, seconds: float) -> None:
        """Say that the wait is over, for how long the run has waited in all, and that it goes on where it was."""
        self.tell(stage=self._stage, wait_began=None, waited=seconds)

    def end(self, outcome: Outcome, reason: str = "") -> None:
        """Say how the run ended."""
        self.tell(outcome=outcome.value, reason=reason)


@contextmanager
def keeping(draft: Draft) -> Iterator[None]:
    """Turn the errors of a full or unwritable disk or cache into a StoreError, and tell them; no fault of the cell's.

    Any other OSError passes.
    """
    try:
        yield
    except CacheError as error:
        draft.tell(cache_error=str(error))
        raise StoreError(str(error)) from error
    except OSError as error:
        if error.errno not in _DISK_ERRORS:
            raise
        draft.tell(store_error=str(error))
        raise StoreError(str(error)) from error


def waited_s(fields: Mapping[str, Any]) -> float:
    """Return how long a run has waited for its device so far; the clock is the same for all processes of a machine."""
    began, before = fields.get("wait_began"), fields.get("waited")
    seconds = before if isinstance(before, float) else 0.0
    return seconds + time.monotonic() - began if isinstance(began, float) else seconds


def read_draft(path: Path) -> dict[str, Any]:
    """Return all fields told so far; none if there is no such file, or something else than a file in its place."""
    try:
        # An engine may put a pipe there, which must not be waited for.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            return parse_draft(file)[0] if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else {}
    except OSError:  # nothing has been told yet, or the cell has just ended and its folder is gone
        return {}


def parse_draft(file: BinaryIO) -> tuple[dict[str, Any], bool]:
    """Return the fields in a draft, and whether it holds lines that are none.

    A last line that a crash cut short is left out.
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
    told = json.loads(line)
    if not isinstance(told, dict):
        raise ValueError(f"{told!r} is no object")
    return told
