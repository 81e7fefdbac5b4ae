"""Files that other processes see whole, the old one or the new, whenever they look."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_whole(path: Path, content: str | bytes, *, lasting: bool = False) -> None:
    """Write a file under a temporary name beside its place, ``.<name>-...``, and rename it; text in UTF-8.

    The folder is made if need be. ``lasting``: the content is on the disk before it is seen. Raises OSError, and then
    leaves nothing behind.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            if lasting:
                file.flush()
                os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
