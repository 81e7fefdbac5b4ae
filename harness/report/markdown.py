"""Markdown of tables that a terminal shows."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

_SIGNS = re.compile(r"([\\`*_\[\]<>|])")


def escaped(text: str) -> str:
    """Return plain text as Markdown on one line."""
    return " ".join(_SIGNS.sub(r"\\\1", text).split())


def markdown_table(table: Table) -> str:
    """Return a Rich table as a Markdown table; bold cells stay bold, other styles are dropped."""
    columns = [[_cell(cell) for cell in column.cells] for column in table.columns]
    heads = [_cell(column.header) for column in table.columns]
    rules = ["---:" if column.justify == "right" else "---" for column in table.columns]
    return markdown_rows([heads, rules, *map(list, zip(*columns, strict=True))])


def markdown_rows(rows: Sequence[Sequence[str]]) -> str:
    """Return rows of Markdown cells as the lines of a table."""
    return "\n".join(f"| {' | '.join(row)} |".replace("|  |", "| |") for row in rows)


def _cell(cell: RenderableType) -> str:
    text = cell if isinstance(cell, Text) else Text(str(cell))
    shown = "<br>".join(escaped(line) for line in text.plain.splitlines())
    bold = any("bold" in str(span.style) for span in text.spans)
    return f"**{shown}**" if bold and shown else shown
