"""What a process prints, kept in a file of bounded size: the beginning as it comes, the end when it is known."""

from __future__ import annotations

import os
import threading
from collections import deque
from pathlib import Path

_KEPT_BYTES = 1_000_000  # at either end
_CHUNK = 65_536


class OutputFile(threading.Thread):
    """Copies a pipe to a file until its writers are gone; what exceeds the kept beginning and end is only counted."""

    def __init__(self, path: Path) -> None:
        super().__init__(daemon=True)
        self._file = path.open("wb")
        self._source, self.writer = os.pipe()

    def run(self) -> None:
        room, left_out = _KEPT_BYTES, 0
        end: deque[bytes] = deque()
        held = 0
        with self._file as file, os.fdopen(self._source, "rb", buffering=0) as source:
            while chunk := source.read(_CHUNK):
                file.write(chunk[:room])
                file.flush()
                rest = chunk[room:]
                room = max(0, room - len(chunk))
                if rest:
                    end.append(rest)
                    held += len(rest)
                while held - len(end[0]) > _KEPT_BYTES if end else False:
                    held -= len(end[0])
                    left_out += len(end.popleft())
            if left_out:
                file.write(f"\n[... {left_out:,} bytes left out ...]\n".encode())
            file.writelines(end)
