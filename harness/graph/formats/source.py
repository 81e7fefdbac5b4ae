"""Read an untrusted file: check its kind, limit its unpacked size, return its text in blocks with line numbers."""

from __future__ import annotations

import codecs
import gzip
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from harness.graph.errors import GraphError

BLOCK = 2**22  # bytes of text parsed together; larger blocks were no faster
SMALLEST_LIMIT = 2**20  # bytes that any compressed file may unpack to
LONGEST_HEADER_LINE = 2**16
VERTICES_PER_BYTE = 8  # isolated vertices take no text; this bounds the count that a header announces
ALWAYS_ALLOWED_VERTICES = 2**20
TABLE_BYTES_PER_BYTE = 64  # bytes of memory that padded tables (features, potentials) may take per byte of the file
ALWAYS_ALLOWED_TABLE_BYTES = 2**25

# First bytes of known binary files: name and remedy.
SIGNATURES = {
    b"\x1f\x8b": ("gzip", "name it with .gz at the end"),
    b"PK\x03\x04": ("a zip archive", "an .npz must be named .npz; unpack any other archive"),
    b"BZh": ("bzip2", "unpack it, or compress it with gzip"),
    b"\xfd7zXZ": ("xz", "unpack it, or compress it with gzip"),
    b"\x28\xb5\x2f\xfd": ("zstandard", "unpack it, or compress it with gzip"),
    b"\x89HDF": ("HDF5", "export its edges as text or .npz"),
}


@dataclass(frozen=True)
class Block:
    """Complete lines of a file; `line` is the number of the first. Only the file's last line may lack a line feed."""

    line: int
    data: bytes


class Source:
    """The file at `path`. A file with the suffix .gz may unpack to `max_expansion` times its size.

    Raises GraphError if it is missing, not a regular file, empty, unreadable, or not of the kind that its name says.
    """

    def __init__(self, path: Path, max_expansion: float) -> None:
        self.path = path
        self.max_expansion = max_expansion
        try:
            self.is_file = path.is_file()
            if not self.is_file:
                what = (
                    "is a folder"
                    if path.is_dir()
                    else "is not a regular file"
                    if path.exists()
                    else "there is no such file"
                )
                raise GraphError.in_file(path, what, "give the path of a graph file")
            self.size = path.stat().st_size
            with path.open("rb") as file:
                start = file.read(8)
        except OSError as error:
            raise GraphError.in_file(path, f"it cannot be read ({error.strerror})", "check its permissions") from error
        if self.size == 0:
            raise GraphError.in_file(path, "the file is empty", "fetch or write it again")
        self.compressed = path.suffix.lower() == ".gz"
        if self.compressed and not start.startswith(b"\x1f\x8b"):
            raise GraphError.in_file(path, "it is named .gz but is not gzip", "rename it, or compress it")
        if not self.compressed and path.suffix.lower() != ".npz":
            refuse_signature(path, start)

    @property
    def text_limit(self) -> int:
        """Largest number of bytes of text that is read."""
        return max(SMALLEST_LIMIT, int(self.size * self.max_expansion)) if self.compressed else self.size

    def refuse_promise(self, count: int, what: str, least_bytes: int, line: int | None) -> None:
        """Raise GraphError if `count` of `what`, each at least `least_bytes` of text, do not fit in this file."""
        if count < 0 or count * least_bytes > self.text_limit + least_bytes:
            raise GraphError.in_file(
                self.path,
                f"the header announces {count} {what}, more than fit in its {self.size} bytes",
                "correct the header, or fetch the file again if it was cut short",
                line=line,
            )

    def refuse_vertices(self, count: int, text_bytes: int, line: int | None) -> None:
        """Raise GraphError if a header announces implausibly many vertices for a file of `text_bytes`."""
        if count > max(ALWAYS_ALLOWED_VERTICES, VERTICES_PER_BYTE * text_bytes):
            raise GraphError.in_file(
                self.path,
                f"the header announces {count} vertices in {text_bytes} bytes of text",
                f"correct the header (at most {VERTICES_PER_BYTE} vertices per byte are accepted)",
                line=line,
            )

    def refuse_table(self, table_bytes: int, text_bytes: int, what: str) -> None:
        """Raise GraphError if the padded table `what` would take far more memory than the file's `text_bytes`."""
        if table_bytes > max(ALWAYS_ALLOWED_TABLE_BYTES, TABLE_BYTES_PER_BYTE * text_bytes):
            raise GraphError.in_file(
                self.path,
                f"{what} would take {table_bytes} bytes, from {text_bytes} bytes of file",
                f"at most {TABLE_BYTES_PER_BYTE} bytes per byte of the file are allowed; use rows of similar lengths",
            )


def non_negative_integer(word: str | bytes) -> int | None:
    """Return the non-negative integer that `word` represents in at most 18 decimal digits, or None."""
    text = word if isinstance(word, str) else word.decode("latin-1")
    return int(text) if re.fullmatch(r"[0-9]{1,18}", text) else None


def refuse_signature(path: Path, start: bytes, *, inside: bool = False) -> None:
    """Raise GraphError if `start` is the start of a binary file; `inside`: it was unpacked from gzip."""
    for signature, (name, mend) in SIGNATURES.items():
        if start.startswith(signature):
            what = f"it is compressed twice: {name} inside gzip" if inside else f"the file is {name}"
            raise GraphError.in_file(path, what, "unpack the outer layer first" if inside else mend)
    if b"\0" in start:
        raise GraphError.in_file(path, "the file is binary, not text", "give a text format, or .npz")


class TextStream:
    """A context manager that reads the text of a Source: header lines one by one, then the rest in blocks."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.line = 0  # number of the line last read
        self.bytes_read = 0
        self._pending = b""
        self._position = 0  # in _pending, of the next line
        self._previous = 0
        self._file: BinaryIO = gzip.open(source.path) if source.compressed else source.path.open("rb")  # type: ignore[assignment]  # noqa: SIM115

    def __enter__(self) -> TextStream:
        try:
            self._pending = self._read(64)
            refuse_signature(self.source.path, self._pending, inside=self.source.compressed)
            if self._pending.startswith(codecs.BOM_UTF8):  # which spreadsheets write
                self._position = len(codecs.BOM_UTF8)
        except GraphError:
            self._file.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def readline(self) -> str | None:
        """Return the next line without its line end, or None after the last."""
        while (end := self._pending.find(b"\n", self._position)) < 0:
            more = self._read(BLOCK)
            self._pending, self._position = self._pending[self._position :] + more, 0
            if not more:
                end = len(self._pending)
                break
        raw = self._pending[self._position : end]
        if end == len(self._pending) and not raw:
            return None
        self._previous, self._position = self._position, min(end + 1, len(self._pending))
        self.line += 1
        if len(raw) > LONGEST_HEADER_LINE:
            raise GraphError.in_file(self.source.path, "a header line is too long", "check its format", line=self.line)
        return raw.rstrip(b"\r").decode("ascii", errors="replace")

    def unread(self) -> None:
        """Push back the line that was read last."""
        self._position = self._previous
        self.line -= 1

    def blocks(self) -> Iterator[Block]:
        """Yield the rest of the text in blocks of complete lines."""
        while True:
            parts = [self._pending[self._position :]]
            self._position = 0
            while more := self._read(BLOCK):
                parts.append(more)
                if b"\n" in more:
                    break
            text = b"".join(parts)
            end = text.rfind(b"\n") + 1 if more else len(text)
            data, self._pending = text[:end], text[end:]
            del text, parts
            if not data:
                return
            first = self.line + 1
            self.line += data.count(b"\n") + (not data.endswith(b"\n"))
            yield Block(first, data)

    def _read(self, count: int) -> bytes:
        try:
            data = self._file.read(count)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise GraphError.in_file(
                self.source.path, f"the gzip data are truncated or damaged ({error})", "fetch the file again"
            ) from error
        self.bytes_read += len(data)
        if self.bytes_read > self.source.text_limit:
            raise GraphError.in_file(
                self.source.path,
                f"it unpacks to more than {self.source.text_limit} bytes, {self.source.max_expansion:g} times its size",
                "raise max_expansion if you trust it",
            )
        return data


def text_kind(start: bytes) -> str | None:
    """Return the format that the first bytes of a text file indicate, or None."""
    if start.startswith(b"%%MatrixMarket"):
        return "matrix_market"
    if re.match(rb"\s*(MARKOV|BAYES)\s", start):
        return "uai"
    if re.search(rb"^p\s+sp\s+\d+\s+\d+\s*$", start, re.MULTILINE):
        return "dimacs"
    return None
