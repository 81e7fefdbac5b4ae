"""Bytes a second that runs read of edges outside of the device's memory, as in Min et al. 2020, figures 4 and 8."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from harness.records import Record
from harness.records.outcome import Outcome
from harness.report.console import literal
from harness.report.layout import NOTHING, Layout, outcome_sign, rows_of

GB = 1e9
NOT_COUNTED = "not counted"


def rates_table(layout: Layout, records: Sequence[Record]) -> Table:
    """Return the table of rates in GB/s: a row for each algorithm and graph, a column for each of the layout."""
    table = Table(pad_edge=False)
    for name in ("", "graph"):
        table.add_column(name, overflow="fold")
    for name in layout.columns:
        table.add_column(name, justify="right")
    for row in rows_of(layout, records):
        texts = [_text(row.cells.get(name)) for name in layout.columns]
        table.add_row(literal(row.algorithm), literal(row.graph), *map(Text, texts))
    return table


def rates_legend(layout: Layout, records: Sequence[Record]) -> list[str]:
    """Explain the table, and give the rates of the link that the cells measured."""
    note = (
        "bytes moved for the edges that kernels read, over the median time of a run, in GB/s (10^9 bytes); requests of "
        "reads in place are modelled, and counting them takes a part of the time"
    )
    return [note, *_link_notes(records)]


def _link_notes(records: Sequence[Record]) -> list[str]:
    """Return the medians of the rates of plain copies, and of reads in place by the bytes of a request."""
    links = [record["link"] for record in records if record["link"] and record["link"]["copy"]]
    if not links:
        return []
    copy = statistics.median(float(link["copy"] or 0) for link in links)
    sizes = sorted({size for link in links for size in link["in_place"]}, key=int)
    in_place = [
        f"reads of {size} bytes "
        f"{statistics.median(link['in_place'][size] for link in links if size in link['in_place']) / GB:.3g} GB/s"
        for size in sizes
    ]
    rates = ", ".join([f"plain copies {copy / GB:.3g} GB/s", *in_place])
    return [f"the link, medians of {len(links)} cells: {rates}"]


def rate(record: Record | None) -> float | None:
    """Return the bytes a second of an ok run; None if they were not counted."""
    if record is None or record["outcome"] != Outcome.OK or not record["solve"] or not record["transfers"]:
        return None
    moved = record["transfers"]["moved_bytes"]
    return sum(moved.values()) / record["solve"]["median"] if moved else None


def _text(record: Record | None) -> str:
    if record is None:
        return NOTHING
    found = rate(record)
    if found is not None:
        return f"{found / GB:.3g}"
    return NOT_COUNTED if record["outcome"] == Outcome.OK else outcome_sign(record)
