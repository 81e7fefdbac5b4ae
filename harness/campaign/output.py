"""The output of a process in a file of bounded size: the beginning immediately, the end when it is known."""

from __future__ import annotations

import os
import select
import threading
from collections import deque
from pathlib import Path

_KEPT_BYTES = 1_000_000  # at either end
_CHUNK = 65_536
_MOST_IN_PIPE = 1 << 20  # the largest capacity of a pipe on Linux
_LOOK_S = 0.2


class OutputFile(threading.Thread):
    """Copies a pipe to a file until its writers are gone; bytes beyond the kept beginning and end are only counted.

    The pipe is always emptied, so that no writer blocks or receives SIGPIPE.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(daemon=True)
        self._file = path.open("wb", buffering=0)
        self._source, self.writer = os.pipe()
        self._over = threading.Event()
        self._error: OSError | None = None
        self._remaining, self._held, self._left_out = _KEPT_BYTES, 0, 0
        self._end: deque[bytes] = deque()

    def finish(self) -> None:
        """Wait for the rest of the pipe, but not for writers that outlive the process.

        Raises OSError if the file could not be written.
        """
        self._over.set()
        self.join()
        if self._error is not None:
            raise self._error

    def run(self) -> None:
        readiness = select.poll()
        readiness.register(self._source, select.POLLIN)
        with self._file, os.fdopen(self._source, "rb", buffering=0) as source:
            left = _MOST_IN_PIPE
            while left > 0:
                over = self._over.is_set()
                if readiness.poll(1000 * _LOOK_S):
                    chunk = source.read(_CHUNK)
                    if not chunk:
                        break
                    self._take(chunk)
                    left -= len(chunk) if over else 0
                elif over:
                    break
            if self._left_out:
                self._write(f"\n[... {self._left_out:,} bytes left out ...]\n".encode())
            self._write(b"".join(self._end))

    def _take(self, chunk: bytes) -> None:
        self._write(chunk[: self._remaining])
        rest = chunk[self._remaining :]
        self._remaining = max(0, self._remaining - len(chunk))
        if rest:
            self._end.append(rest)
            self._held += len(rest)
        while self._end and self._held - len(self._end[0]) > _KEPT_BYTES:
            self._held -= len(self._end[0])
            self._left_out += len(self._end.popleft())

    def _write(self, data: bytes) -> None:
        """Write all of it, unless an earlier write failed."""
        try:
            while data and self._error is None:
                data = data[self._file.write(data) :]
        except OSError as error:
            self._error = error
