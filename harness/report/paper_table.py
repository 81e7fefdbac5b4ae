"""Tables of a paper beside the records of a published sweep.

A table is a TOML file::

    title = "Vaz 2021, table 7.2"
    sweep = "thesis_tables"             # the published sweep with our times; it has a layout
    features = 4                 # k of the paper's runs
    unit = "ms"                  # of the paper's times: ms or s
    columns = ["NFA/NCD", "FA/NCD"]   # of the paper
    ours = ["NFA/NCD", "FA/NCD"]      # of the layout of the sweep
    first = "NFA/NCD"            # the column that the others are compared with; none: times only
    shows = "speed-ups"          # of the paper's other columns: speed-ups over the first, or times

    [rows.LP]                    # an algorithm, as the layout names it
    CP = [1170.6, 2.4]           # a graph; a text such as "X" is shown as it is

A graph of the layout that replaces one of the paper has its name and the ending of `STAND_IN`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.records import Record, merge_rounds
from harness.records.outcome import Outcome
from harness.records.published import read_published
from harness.report.comparison import ratio
from harness.report.layout import Layout, Row, outcome_sign, rows_of
from harness.report.markdown import escaped, markdown_rows
from harness.report.units import seconds

STAND_IN = " (stand-in)"
NOT_MEASURED = "-"
NO_VERDICT = "?"
NOTES = {
    NOT_MEASURED: "-: not measured yet",
    NO_VERDICT: "?: a ratio of medians without a verdict: too few samples, or other work disturbed a time",
    "~": "~: no difference shown",
    "X": "X: out of memory",
}
_UNITS = ("ms", "s")


class PaperTableError(ValueError):
    """A table of a paper is invalid; the message names the file and the key."""


@dataclass(frozen=True)
class PaperTable:
    """A table of a paper; the module documents the fields. ``rows``: cells by algorithm and graph."""

    title: str
    sweep: str
    features: int
    unit: str
    columns: tuple[str, ...]
    ours: tuple[str, ...]
    first: str | None
    shows: str
    rows: Mapping[str, Mapping[str, Sequence[float | str]]]


def read_paper_table(path: Path) -> PaperTable:
    """Read a table of a paper. Raises PaperTableError if it is invalid, OSError if there is none."""
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    try:
        table = PaperTable(
            data["title"], data["sweep"], data["features"], data["unit"], tuple(data["columns"]), tuple(data["ours"]),
            data.get("first"), data.get("shows", "times"), data["rows"],
        )  # fmt: skip
    except KeyError as error:
        raise PaperTableError(f"{path} has no key {error}") from error
    for key, value, accepted in (
        ("unit", table.unit, _UNITS), ("shows", table.shows, ("times", "speed-ups")),
        ("first", table.first, (None, *table.columns)),
    ):  # fmt: skip
        if value not in accepted:
            raise PaperTableError(f"{path}: {key} is {value!r}; it is one of {', '.join(map(str, accepted))}")
    for algorithm, graphs in table.rows.items():
        for graph, cells in graphs.items():
            if len(cells) != len(table.columns):
                raise PaperTableError(f"{path}: {algorithm}.{graph} has {len(cells)} cells, not {len(table.columns)}")
    return table


def render_paper_table(table: PaperTable, figures: Path) -> str:
    """Return the table in Markdown; beside each column of the paper is the column of the same name of our records."""
    ours = _our_rows(table, figures / f"{table.sweep}.parquet")
    names = list(dict.fromkeys([*table.columns, *table.ours]))
    sides = [(name, side) for name in names for side in ("paper", "here") if name in _columns(table, side)]
    lines = [["", "graph", *(f"{escaped(name)}, {side}" for name, side in sides)]]
    lines.append(["---", "---", *("---:" for _ in sides)])
    for algorithm, graphs in table.rows.items():
        for number, (graph, cells) in enumerate(graphs.items()):
            row = ours.get((algorithm, graph))
            texts = [
                _published(table, cells, name) if side == "paper" else _measured(table, row, name)
                for name, side in sides
            ]
            lines.append(["" if number else escaped(algorithm), escaped(graph), *map(escaped, texts)])
    body = markdown_rows(lines)
    signs = [note for sign, note in NOTES.items() if any(sign in cell.split() for line in lines[2:] for cell in line)]
    relation = "" if table.first is None else f"; factors: {_relation(table)}"
    head = f"**{escaped(table.title)}, and the sweep `{table.sweep}`, k = {table.features}{relation}**"
    return "\n\n".join([head, body, *(["\n".join(f"- {escaped(note)}" for note in signs)] if signs else [])])


def _relation(table: PaperTable) -> str:
    return f"speed-up over {table.first}" if table.shows == "speed-ups" else f"time over that of {table.first}"


def _columns(table: PaperTable, side: str) -> tuple[str, ...]:
    return table.columns if side == "paper" else table.ours


def _our_rows(table: PaperTable, path: Path) -> dict[tuple[str, str], Row]:
    """Return the rows of the sweep by algorithm and graph of the paper; original graphs precede their stand-ins."""
    if not path.is_file():
        return {}
    sweep = read_published(path)
    if sweep.layout is None:
        raise PaperTableError(f"{path} has no layout, so {table.title} cannot be shown beside it")
    rows = rows_of(Layout.from_plain(sweep.layout), merge_rounds(sweep.records))
    rows = [row for row in rows if row.features == str(table.features)]
    rows.sort(key=lambda row: not row.graph.endswith(STAND_IN))
    return {(row.algorithm, row.graph.removesuffix(STAND_IN)): row for row in rows}


def _published(table: PaperTable, cells: Sequence[float | str], name: str) -> str:
    """Return a cell of the paper: its time, its speed-up, or its time and the factor over the first column."""
    value = cells[table.columns.index(name)]
    if isinstance(value, str):
        return value
    if table.shows == "speed-ups" and name != table.first:
        return f"{value}x"
    first = cells[table.columns.index(table.first)] if table.first not in (None, name) else None
    factor = f", {value / first:.3g}x" if isinstance(first, float | int) else ""
    return f"{value} {table.unit}{factor}"


def _measured(table: PaperTable, row: Row | None, name: str) -> str:
    """Return a cell of our records in the form of the paper's."""
    record = None if row is None else row.cells.get(name)
    if row is None or record is None:
        return NOT_MEASURED
    if record["outcome"] != Outcome.OK or record["solve"] is None:
        return outcome_sign(record)
    time = seconds(record["solve"]["median"])
    factor = "" if table.first in (None, name) else _factor(table, record, row.cells.get(table.first or ""))
    return factor if factor and table.shows == "speed-ups" else f"{time}, {factor}" if factor else time


def _factor(table: PaperTable, record: Record, first: Record | None) -> str:
    """Return the speed-up over the first column, or the time over its time; empty if they are not comparable."""
    found = ratio(record, first, to_accuracy=False)
    if found is None:
        return ""
    if found.conclusive and not found.decided:
        return "~"
    value = found.value if table.shows == "speed-ups" else 1 / found.value
    return f"{value:.3g}x" + ("" if found.conclusive else f" {NO_VERDICT}")
