"""The shares of the bytes of edges by their use in every superstep."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.table import Table

from harness.records import Record
from harness.records.outcome import Outcome
from harness.report.console import literal
from harness.report.layout import Layout, outcome_sign, rows_of

NOTE = "Shares of the bytes of all edges in each superstep of the last timed run, by their use"


@dataclass(frozen=True)
class EdgeUse:
    """A run: its names, the bytes of each superstep by the kind of use, and its outcome if there are none."""

    algorithm: str
    graph: str
    column: str
    data: Mapping[str, Sequence[int]]
    outcome: str

    def shares(self, superstep: int) -> list[float]:
        """Return the share of each kind in a superstep, from 0 to 1; all 0 if there are no edges."""
        found = [steps[superstep] for steps in self.data.values()]
        return [one / (sum(found) or 1) for one in found]

    @property
    def supersteps(self) -> int:
        """The number of supersteps."""
        return max(map(len, self.data.values()), default=0)


def edge_uses(layout: Layout, records: Sequence[Record]) -> Iterator[EdgeUse]:
    """Yield the runs of a layout in its order."""
    for row in rows_of(layout, records):
        for name in layout.columns:
            record = row.cells.get(name)
            if record is None:
                continue
            found = record["transfers"] if record["outcome"] == Outcome.OK else None
            outcome = "not counted" if record["outcome"] == Outcome.OK else outcome_sign(record)
            data = found["data"] if found else {}
            yield EdgeUse(row.algorithm, row.graph, name, data, "" if data else outcome)


def edge_use_notes(layout: Layout, records: Sequence[Record]) -> list[str]:
    """Return the note that explains the table."""
    return [NOTE]


def edge_use_table(layout: Layout, records: Sequence[Record]) -> Table:
    """Return a row for every superstep: its number and the share of each kind of use, in percent."""
    runs = list(edge_uses(layout, records))
    kinds = list(dict.fromkeys(kind for run in runs for kind in run.data))
    several = len(layout.columns) > 1
    table = Table(pad_edge=False)
    for name in ("", "graph", *(["engine"] if several else [])):
        table.add_column(name, overflow="fold")
    for name in ("superstep", *kinds):
        table.add_column(name, justify="right")
    for run in runs:
        table.add_section()
        named = [literal(run.algorithm), literal(run.graph), *([literal(run.column)] if several else [])]
        if run.outcome:
            table.add_row(*named, literal(run.outcome), *("" for _ in kinds))
        for superstep in range(run.supersteps):
            shares = [f"{100 * share:.1f} %" for share in run.shares(superstep)]
            table.add_row(*named, str(superstep + 1), *shares)
    return table
