"""Write files atomically: a concurrent reader sees the whole old content or the whole new content."""

from __future__ import annotations

import os
from pathlib import Path


def write_whole(path: Path, content: str | bytes, *, lasting: bool = False, mode: int = 0o666) -> None:
    """Write a file atomically: write ``.<name>-...`` in the same folder, then rename it. Text is encoded as UTF-8.

    Creates the folder if it does not exist. The file has the permissions ``mode``, less those that the process's umask
    removes. ``lasting``: flush the content to disk (fsync) before the rename. Raises OSError, which names a file, and
    then removes the temporary file.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = beside(path)
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            if lasting:
                file.flush()
                os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException as error:
        if isinstance(error, OSError) and error.errno is not None and error.filename is None:  # of a write
            error.filename = str(path)
        temporary.unlink(missing_ok=True)
        raise


def beside(path: Path) -> Path:
    """Return an unused path in the same folder: ``.<name>-`` and 16 random hexadecimal digits."""
    return path.with_name(f".{path.name}-{os.urandom(8).hex()}")
