"""Detect damage to cached files by a digest in a file beside them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import xxhash

from harness.atomic_write import write_whole


def digest_of(files: Iterable[Path]) -> str:
    """Return a digest of the names and contents of files, 32 hexadecimal digits; missing files do not count."""
    digest = xxhash.xxh3_128()
    for file in sorted(files):
        try:
            content = file.read_bytes()
        except FileNotFoundError:
            continue
        digest.update(f"{file.name} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()


def matches(record: Path, files: Iterable[Path]) -> bool | None:
    """Return whether files have the digest that :func:`record_digest` wrote to ``record``; None without a record.

    Files have no record if an earlier version wrote them, or a process that was killed before it wrote the record.
    """
    try:
        recorded = record.read_bytes()
    except FileNotFoundError:
        return None
    return recorded == digest_of(files).encode()


def record_digest(record: Path, files: Iterable[Path]) -> None:
    """Write the digest of files to ``record``. Raises OSError."""
    write_whole(record, digest_of(files))
