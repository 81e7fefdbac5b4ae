"""Tables and paragraphs as plain text, as wide as the terminal."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterator, Sequence

_WIDTH = 120
_NARROWEST = 24  # characters of the last column


def table(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """Yield the lines of rows with aligned columns; the last column is wrapped at the width of the terminal."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    indent = 2 + sum(widths) + 2 * len(widths)
    for row in rows:
        start = "  " + "".join(f"{cell:<{width}}  " for cell, width in zip(row, widths, strict=False))
        lines = textwrap.wrap(row[-1], max(_NARROWEST, _columns() - indent), break_on_hyphens=False) or [""]
        yield f"{start}{lines[0]}".rstrip()
        yield from (f"{' ' * indent}{line}" for line in lines[1:])


def wrapped(text: str) -> str:
    """Return a paragraph, wrapped at the width of the terminal."""
    return textwrap.fill(text, _columns(), break_on_hyphens=False)


def _columns() -> int:
    return min(_WIDTH, shutil.get_terminal_size((_WIDTH, 24)).columns)
