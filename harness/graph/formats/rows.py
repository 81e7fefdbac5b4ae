"""Parse text tables of numbers block by block with NumPy's C reader; report the exact line of the first fault.

`numpy.loadtxt` reads about 10 M edges/s and refuses wrong field counts and malformed numbers. (The reader behind
`scipy.io.mmread` is faster on many cores, but silently ignores surplus fields and trailing garbage.)
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from harness.graph.adjacency import Array
from harness.graph.errors import GraphError
from harness.graph.formats.source import Block

DTYPES = {"id": "<i8", "number": "<f8", "word": "S1"}


@dataclass(frozen=True)
class Column:
    """One field of a row. kind "id": an integer in low..high (None: any); "number": finite; "word": ignored text."""

    name: str
    kind: Literal["id", "number", "word"]
    low: int = 0
    high: int | None = None


@dataclass(frozen=True)
class Layout:
    """The layout of rows. comment: this character starts a comment. delimiter None: spaces and tabs."""

    columns: tuple[Column, ...]
    comment: str | None = "#"
    delimiter: str | None = None
    row: str = "row"  # the name of a row in errors

    @property
    def dtype(self) -> np.dtype[Any]:
        """The structured dtype of a row."""
        return np.dtype([(column.name, DTYPES[column.kind]) for column in self.columns])


def read_rows(path: Path, blocks: Iterable[Block], layout: Layout) -> Iterator[NDArray[Any]]:
    """Yield the rows of each block as a structured array. Raises GraphError with the line of the first faulty row."""
    any_row = re.compile(rb"^[ \t\r]*[^\s" + re.escape((layout.comment or "").encode()) + rb"]", re.MULTILINE)
    for block in blocks:
        if any_row.search(block.data) is None:
            continue
        try:
            rows: NDArray[Any] = np.loadtxt(
                io.BytesIO(block.data), dtype=layout.dtype, comments=layout.comment, delimiter=layout.delimiter, ndmin=1
            )
        except ValueError as error:
            raise _fault(path, block, layout, str(error)) from error
        if not all(_in_range(rows[column.name], column) for column in layout.columns):
            raise _fault(path, block, layout, "a number is out of range")
        yield rows


def _in_range(values: Array, column: Column) -> bool:
    if values.size == 0 or column.kind == "word":
        return True
    if column.kind == "number":
        return bool(np.isfinite(values).all())
    return bool(values.min() >= column.low) and (column.high is None or bool(values.max() <= column.high))


def _fields(line: bytes, layout: Layout) -> list[str]:
    text = line.decode("latin-1")
    if layout.comment is not None:
        text = text.partition(layout.comment)[0]
    text = text.strip(" \t\r")
    return [field.strip() for field in text.split(layout.delimiter)] if text else []


def _fault(path: Path, block: Block, layout: Layout, otherwise: str) -> GraphError:
    """Return the error for the first faulty line of `block`; `otherwise` is the fault if every line looks valid."""
    for number, line in enumerate(block.data.split(b"\n"), start=block.line):
        fields = _fields(line, layout)
        what = _row_fault(fields, layout) if fields else None
        if what is not None:
            names = " ".join(column.name for column in layout.columns)
            return GraphError.in_file(path, what, f"a {layout.row} must be: {names}", line=number)
    return GraphError.in_file(path, otherwise, "check the file from this line on", line=block.line)


def _row_fault(fields: list[str], layout: Layout) -> str | None:
    if len(fields) != len(layout.columns):
        return f"{len(fields)} fields instead of {len(layout.columns)}"
    for field, column in zip(fields, layout.columns, strict=True):
        what = _field_fault(field, column)
        if what is not None:
            return f"{column.name} is {field[:40]!r}, {what}"
    return None


def _field_fault(field: str, column: Column) -> str | None:
    if column.kind == "word":
        return None
    if column.kind == "number":
        try:
            return None if math.isfinite(float(field)) else "not a finite number"
        except ValueError:
            return "not a number"
    if not re.fullmatch(r"[+-]?[0-9]+", field):
        return "not an integer" + (
            " (for names, give a data frame to onyx_harness.as_graph)" if field[:1].isalpha() else ""
        )
    value = Decimal(field)  # Python refuses to convert an int of more than 4300 digits
    if value < column.low or value > (2**63 - 1 if column.high is None else column.high):
        return f"outside {column.low}..{'2^63 - 1' if column.high is None else column.high}"
    return None


class Edges:
    """Edges collected block by block, with ids in the narrowest dtype that fits each block."""

    def __init__(self) -> None:
        self.count = 0
        self._parts: dict[str, list[Array]] = {"sources": [], "destinations": [], "weights": []}

    def add(self, sources: Array, destinations: Array, weights: Array | None = None) -> None:
        """Append edges: non-negative ids [n] and, for all blocks or none, weights [n]."""
        self.count += sources.size
        for key, ids in (("sources", sources), ("destinations", destinations)):
            narrow = np.uint32 if ids.size == 0 or int(ids.max()) < 2**32 else np.int64
            self._parts[key].append(ids.astype(narrow))
        if weights is not None:
            with np.errstate(over="ignore"):  # an overflow becomes inf and is refused when the graph is built
                self._parts["weights"].append(weights.astype(np.float32))

    def take(self, key: Literal["sources", "destinations", "weights"]) -> Array:
        """Return all that was added, in order, and release it; each key can be taken once."""
        parts = self._parts.pop(key)
        empty = np.empty(0, dtype=np.float32 if key == "weights" else np.uint32)
        return np.concatenate(parts) if parts else empty
