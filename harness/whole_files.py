"""Files that other processes see whole, the old one or the new, whenever they look."""

from __future__ import annotations

import os
from pathlib import Path


def write_whole(path: Path, content: str | bytes, *, lasting: bool = False) -> None:
    """Write a file under a temporary name beside its place, ``.<name>-...``, and rename it; text in UTF-8.

    The folder is made if need be, and who may read the file is left to the process's umask. ``lasting``: the content is
    on the disk before it is seen. Raises OSError, and then leaves nothing behind.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = beside(path)
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            if lasting:
                file.flush()
                os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def beside(path: Path) -> Path:
    """A name beside that of a file, which nothing has: ``.<name>-`` and random digits."""
    return path.with_name(f".{path.name}-{os.urandom(8).hex()}")
