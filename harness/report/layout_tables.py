"""The table of a layout, by its kind, and the notes below it."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from harness.records import Record
from harness.report.edge_use import edge_use_notes, edge_use_table
from harness.report.layout import Layout, layout_table, legend
from harness.report.machines import machines_legend, machines_table
from harness.report.memory import memory_legend, memory_table
from harness.report.rates import rates_legend, rates_table
from harness.report.ratios import ratios_legend, ratios_table
from harness.report.requests import requests_legend, requests_table

_TABLES = {
    "memory": (memory_table, memory_legend), "ratios": (ratios_table, ratios_legend),
    "requests": (requests_table, requests_legend), "rates": (rates_table, rates_legend),
    "machines": (machines_table, machines_legend), "use": (edge_use_table, edge_use_notes),
}  # fmt: skip
UNTIMED = ("memory", "use")  # kinds that show no times


def table_of(layout: Layout, records: Sequence[Record]) -> Table:
    """Return the table of a layout, for a terminal."""
    return _TABLES.get(layout.kind, (layout_table, legend))[0](layout, records)


def notes_of(layout: Layout, records: Sequence[Record]) -> list[str]:
    """Return the notes that explain the table."""
    return _TABLES.get(layout.kind, (layout_table, legend))[1](layout, records)
