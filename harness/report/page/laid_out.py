"""The table of a sweep's layout on the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.text import Text

from harness.records import Record
from harness.report.layout import Layout
from harness.report.layout_tables import notes_of, table_of


@dataclass(frozen=True)
class LaidOut:
    """A table: its title, the headings with their alignment, rows of texts with their emphasis, and notes."""

    title: str
    headings: tuple[tuple[str, bool], ...]
    rows: tuple[tuple[tuple[str, bool], ...], ...]
    notes: tuple[str, ...]


def laid_out_table(layout: Layout | None, records: Sequence[Record]) -> LaidOut | None:
    """Return the table of a layout, as the terminal shows it; None without a layout or without rows."""
    if layout is None:
        return None
    table = table_of(layout, records)
    if not table.row_count:
        return None
    columns = [[_entry(cell) for cell in column.cells] for column in table.columns]
    return LaidOut(
        layout.title,
        tuple((str(column.header), column.justify == "right") for column in table.columns),
        tuple(zip(*columns, strict=True)),
        tuple(notes_of(layout, records)),
    )


def _entry(cell: object) -> tuple[str, bool]:
    text = cell if isinstance(cell, Text) else Text(str(cell))
    return text.plain, "bold" in str(text.style) or any("bold" in str(span.style) for span in text.spans)
