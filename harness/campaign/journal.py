"""Messages between the jobs of a sweep and the process that launched them, for any launcher.

One line per message, appended. The journal serves progress display and early stopping; results never depend on it.
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

    A line that a full disk cut short is ignored.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read = 0

    def open(self, owner: str) -> None:
        """Record the process that owns the sweep. Raises OSError if that cannot be written."""
        self._append(f"owner {owner}\n")

    def owner(self) -> str | None:
        """Return the process that owns the sweep; None if a crash or a full disk cut that line short."""
        with self.path.open(encoding="utf-8", errors="replace") as file:
            owner = _OWNER.fullmatch(file.readline())
        return owner["owner"] if owner else None

    def begin(self, cell: str) -> None:
        """Record that a cell has begun. Raises OSError if that cannot be written."""
        self._append(f"begin {cell}\n")

    def end(self, cell: str, outcome: str) -> None:
        """Record that a cell has a record. Raises OSError if that cannot be written."""
        self._append(f"end {cell} {outcome}\n")

    def news(self) -> Iterator[tuple[str, str, str]]:
        """Yield the messages since the last call, each as (begin or end, cell, outcome or empty)."""
        if not self.path.exists():
            return
        with self.path.open("rb") as file:
            file.seek(self._read)
            for line in file:
                if not line.endswith(b"\n"):  # the rest has not been written yet
                    return  # half of it is still to come
                self._read += len(line)
                if event := _LINE.fullmatch(line.decode()):
                    yield event["kind"], event["cell"], event["outcome"] or ""

    def failed(self) -> bool:
        """Return whether any cell has ended with an unacceptable outcome."""
        return any(kind == "end" and not Outcome(outcome).acceptable for kind, _, outcome in Journal(self.path).news())

    def _append(self, line: str) -> None:
        handle = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            # A single write, so that lines of several processes do not mix.
            if os.write(handle, line.encode()) < len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
        finally:
            os.close(handle)
