"""Shares of the requests over the host link by their bytes, as in Min et al. 2020, figure 5."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.table import Table
from rich.text import Text

from harness.records import Record
from harness.records.outcome import Outcome
from harness.report.console import literal
from harness.report.layout import NOTHING, Layout, Row, outcome_sign, rows_of
from harness.report.transfers import SIZES
from harness.report.units import count


@dataclass(frozen=True)
class Counted:
    """The requests of a column in a row: ``shares`` by ``SIZES``; ``times``: their number over the first column's."""

    row: Row
    column: str
    total: int
    shares: tuple[float, ...]
    times: float | None


def counted(layout: Layout, records: Sequence[Record]) -> Iterator[Counted]:
    """Yield the counted runs by row and column."""
    for row in rows_of(layout, records):
        first = sum(_requests(row.cells.get(layout.first or "")).values())
        for column in layout.columns:
            own = _requests(row.cells.get(column))
            total = sum(own.values())
            if total:
                shares = tuple(own.get(size, 0) / total for size in SIZES)
                times = total / first if first and column != layout.first else None
                yield Counted(row, column, total, shares, times)


def requests_table(layout: Layout, records: Sequence[Record]) -> Table:
    """Return the table of the shares, and of the number of requests over that of the first column."""
    table = Table(pad_edge=False)
    for name in ("", "graph", "access"):
        table.add_column(name, overflow="fold")
    for name in (*(f"{size} B" for size in SIZES), "requests", *([f"over {layout.first}"] if layout.first else [])):
        table.add_column(name, justify="right")
    for one in counted(layout, records):
        shares = [f"{100 * share:.1f} %" for share in one.shares]
        times = [NOTHING if one.times is None else f"{one.times:.3g}x"] if layout.first else []
        names = (one.row.algorithm, one.row.graph, one.column)
        table.add_row(*map(literal, names), *map(Text, (*shares, count(one.total), *times)))
    return table


def requests_legend(layout: Layout, records: Sequence[Record]) -> list[str]:
    """Explain the table, and why cells are missing from it."""
    lines = ["requests over the host link by their bytes, modelled from the rows of active vertices"]
    for row in rows_of(layout, records):
        for name, record in row.cells.items():
            requests = _requests(record)
            if not any(requests.values()):
                counted_none = "no requests" if requests else "not counted"
                reason = counted_none if record["outcome"] == Outcome.OK else outcome_sign(record)
                lines.append(f"{row.algorithm}, {row.graph}, {name}: {reason}")
    return lines


def _requests(record: Record | None) -> dict[str, int]:
    transfers = record["transfers"] if record is not None and record["outcome"] == Outcome.OK else None
    return dict(transfers["requests"]) if transfers else {}
