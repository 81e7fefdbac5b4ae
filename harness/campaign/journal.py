"""What the jobs of a sweep tell each other and the process that launched them, wherever a launcher runs them.

A line a message, appended; it is for showing progress and for stopping early, and results never depend on it.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from pathlib import Path

from harness.records.outcome import Outcome

_LINE = re.compile(r"(?P<kind>begin|end) (?P<cell>\S+)(?: (?P<outcome>\w+))?\n")
_OWNER = re.compile(r"owner (?P<owner>\S+/\d+/\d+)\n")


class Journal:
    """A file of lines ``owner PROCESS``, ``begin CELL`` and ``end CELL OUTCOME``.

    A line that a full disk cut short is passed over.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read = 0

    def open(self, owner: str) -> None:
        """Say which process owns the sweep; OSError when that cannot be written."""
        self._append(f"owner {owner}\n")

    def owner(self) -> str | None:
        """Return the process that owns the sweep, None where a crash or a full disk cut that short."""
        with self.path.open(encoding="utf-8", errors="replace") as file:
            told = _OWNER.fullmatch(file.readline())
        return told["owner"] if told else None

    def begin(self, cell: str) -> None:
        """Say that a cell has been begun; OSError when that cannot be written."""
        self._append(f"begin {cell}\n")

    def end(self, cell: str, outcome: str) -> None:
        """Say that a cell has a record; OSError when that cannot be written."""
        self._append(f"end {cell} {outcome}\n")

    def news(self) -> Iterator[tuple[str, str, str]]:
        """What has been written since the last call, each as (begin or end, cell, outcome or empty)."""
        if not self.path.exists():
            return
        with self.path.open("rb") as file:
            file.seek(self._read)
            for line in file:
                if not line.endswith(b"\n"):
                    return  # half of it is still to come
                self._read += len(line)
                if told := _LINE.fullmatch(line.decode()):
                    yield told["kind"], told["cell"], told["outcome"] or ""

    def failed(self) -> bool:
        """Whether any cell has ended in a way that is not acceptable."""
        return any(kind == "end" and not Outcome(outcome).acceptable for kind, _, outcome in Journal(self.path).news())

    def _append(self, line: str) -> None:
        handle = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            # At once, so that lines of several processes do not mix.
            if os.write(handle, line.encode()) < len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
        finally:
            os.close(handle)
