"""The table of a layout and what explains it, for every kind of layout."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from harness.records import Record
from harness.report.edge_use import NOTE, edge_use_table
from harness.report.layout import Layout, layout_table, legend
from harness.report.memory import memory_legend, memory_table

UNTIMED = ("memory", "use")  # kinds that show no times


def table_of(layout: Layout, records: Sequence[Record]) -> Table:
    """Return the table of a layout."""
    if layout.kind == "memory":
        return memory_table(layout, records)
    return edge_use_table(layout, records) if layout.kind == "use" else layout_table(layout, records)


def legend_of(layout: Layout, records: Sequence[Record]) -> list[str]:
    """Explain the signs or the numbers of the table."""
    if layout.kind == "memory":
        return memory_legend(layout, records)
    return [NOTE] if layout.kind == "use" else legend(layout, records)
