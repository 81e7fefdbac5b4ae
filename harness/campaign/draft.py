"""What a child process tells its parent as it goes: one JSON object a line, so that a crash loses only the last."""

from __future__ import annotations

import json
import time
from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from harness.cache import CacheError
from harness.records.outcome import Outcome
from harness.records.text import bounded

DRAFT_FILE = "draft.jsonl"
WAIT_STAGE = "wait"
STORE_STATUS = 74  # of a process that could keep no draft: EX_IOERR of sysexits.h


class StoreError(Exception):
    """What a cell leaves behind could not be kept, which is no fault of the cell's."""


class Draft:
    """Fields of the record to be, written one after the other; a field written again replaces the one before.

    StoreError when there is no room for them.
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
            raise StoreError(str(error)) from error
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
def keeping(draft: Draft, only: Container[int | None] | None = None) -> Iterator[None]:
    """Tell what a disk refuses from what an engine raises: of all errors or of those with the numbers ``only``, and
    that the cache cannot be written."""
    try:
        yield
    except CacheError as error:
        draft.tell(cache_error=str(error))
        raise StoreError(str(error)) from error
    except OSError as error:
        if only is not None and error.errno not in only:
            raise
        draft.tell(store_error=str(error))
        raise StoreError(str(error)) from error


def waited_s(fields: Mapping[str, Any]) -> float:
    """How long a run has waited for its device so far; the clock is the same for all processes of a machine."""
    began, before = fields.get("wait_began"), float(fields.get("waited", 0.0))
    return before if began is None else before + time.monotonic() - began


def read_draft(path: Path) -> dict[str, Any]:
    """All fields told so far; a last line cut short by a crash is left out."""
    fields: dict[str, Any] = {}
    try:
        told = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:  # nothing has been told yet, or the cell has just ended and its folder is gone
        return fields
    for line in told.splitlines(keepends=True):
        if line.endswith("\n"):
            fields.update(json.loads(line))
    return fields
