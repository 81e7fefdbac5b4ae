"""Memory transactions as in the thesis, figures 7.1 and 7.2: columns of a layout relative to its first one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

from rich.table import Table
from rich.text import Text

from harness.records import Record
from harness.report.console import literal
from harness.report.layout import NOTHING, Layout, Row, rows_of
from harness.report.units import rounded

SOURCES = ("model", "counters")  # as records name them


@dataclass(frozen=True)
class Pair:
    """Memory transactions of a column (``own``) and of the ``first`` column, as in records, from one ``source``."""

    row: Row
    column: str
    source: str
    first: dict[str, Any]
    own: dict[str, Any]

    @property
    def efficiency(self) -> float | None:
        """Global load efficiency over that of the first column; None if one of them has no loads."""
        own, first = self.own["load_efficiency"], self.first["load_efficiency"]
        return own / first if own and first else None

    @property
    def atomics(self) -> float | None:
        """Atomic transactions over those of the first column; None if that has none."""
        first = self.first["atomics"]["transactions"]
        return self.own["atomics"]["transactions"] / first if first else None


def pairs_of(layout: Layout, records: Sequence[Record]) -> Iterator[Pair]:
    """Yield the available pairs by row, then by column and source."""
    for row in rows_of(layout, records):
        for column in layout.columns:
            for source in SOURCES:
                first, own = (_counted(row.cells.get(name), source) for name in (layout.first or "", column))
                if column != layout.first and first and own:
                    yield Pair(row, column, source, first, own)


def memory_table(layout: Layout, records: Sequence[Record]) -> Table:
    """Return the table of load efficiency and atomic transactions.

    It first shows the load efficiency of the first column and the ratio of each other column to it. Then it shows the
    atomic transactions of each other column and their ratio to those of the first.
    """
    pairs = list(pairs_of(layout, records))
    table = Table(pad_edge=False)
    for name in ("", "graph", "k", "", "by"):
        table.add_column(name, overflow="fold")
    for name in (f"load efficiency, {layout.first}", "times", "atomic transactions", "times"):
        table.add_column(name, justify="right")
    for pair in pairs:
        row = pair.row
        texts = (
            f"{100 * pair.first['load_efficiency']:.1f} %" if pair.first["load_efficiency"] else NOTHING,
            times(pair.efficiency),
            count(pair.own["atomics"]["transactions"]),
            times(pair.atomics),
        )
        begin = [literal(text) for text in (row.algorithm, row.graph, row.features, pair.column, pair.source)]
        table.add_row(*begin, *map(Text, texts))
    return table


def memory_legend(layout: Layout, records: Sequence[Record]) -> list[str]:
    """Explain the table and why cells are missing from it."""
    lines = [f"one superstep in which every vertex is active; times: over {layout.first}"]
    for row in rows_of(layout, records):
        for name, record in row.cells.items():
            memory = record["memory"]
            reason = record["reason"] if memory is None else memory["reason"]
            if reason or memory is None:
                lines.append(f"{row.algorithm}, {row.graph}, {name}: {reason or 'set memory=model or memory=counters'}")
    return list(dict.fromkeys(lines))


def times(ratio: float | None) -> str:
    """Format a ratio for tables."""
    return NOTHING if ratio is None else f"{ratio:.3g}x"


def count(number: float) -> str:
    """Format a count with three digits and the suffix k (10^3), M (10^6) or G (10^9)."""
    for factor, sign in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if rounded(number) >= factor:
            return f"{number / factor:.3g} {sign}"
    return f"{number:.3g}"


def _counted(record: Record | None, source: str) -> dict[str, Any] | None:
    memory = record["memory"] if record is not None else None
    return None if memory is None else cast("dict[str, Any] | None", memory[source])  # type: ignore[literal-required]
