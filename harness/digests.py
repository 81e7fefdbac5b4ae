"""Detect damage to cached files by a digest: in a file beside several of them, or in the first line of one."""

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


def write_checked(path: Path, content: bytes) -> None:
    """Write a file whose first line is the digest of the content after it, both at once. Raises OSError."""
    write_whole(path, xxhash.xxh3_128_hexdigest(content).encode() + b"\n" + content)


def read_checked(path: Path) -> bytes | None:
    """Return the content of a file that :func:`write_checked` wrote; None if it is damaged. Raises OSError."""
    found, _, content = path.read_bytes().partition(b"\n")
    return content if found == xxhash.xxh3_128_hexdigest(content).encode() else None
