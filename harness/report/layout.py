"""Layouts of results as a paper's table or figure: one row per algorithm and graph, one column per engine and options.

A layout is plain data, the key ``layout`` of a configuration::

    title: the title
    kind: table, lines (over features), dots (over graphs), memory (transactions, over graphs), ratios (of columns),
      requests (over the host link, by their bytes), rates (bytes a second, over graphs), machines (times on each) or
      use (of edges, over supersteps)
    columns:
      NAME: {engine: ENGINE, OPTION: VALUE}   # records of this engine with these schedule options
    first: NAME     # shows times; the other columns show speed-ups over it; null: times in every column
    names: {label_propagation: LP}   # short names of algorithms and graphs, by their names or labels in tables
    ratios: [...]   # of the kind ratios: claims about columns (harness/report/claims.py)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from rich.table import Table
from rich.text import Text

from harness.records import Record
from harness.records.outcome import Outcome
from harness.report.claims import Claim, ClaimError, claims_of
from harness.report.comparison import changed_graphs, graph_name, obstacle, ratio
from harness.report.console import literal
from harness.report.units import seconds

KINDS = ("table", "lines", "dots", "memory", "ratios", "requests", "rates", "machines", "use")
_RENAMED_KINDS = {"bars": "dots"}  # names in sweeps of earlier versions
_KEYS = ("title", "kind", "columns", "first", "names", "ratios")
OUT_OF_MEMORY, NO_DIFFERENCE, NO_VERDICT, NOT_COMPARABLE, NOTHING = "X", "~", "?", "n/c", "-"


class LayoutError(ValueError):
    """A layout is invalid; the message names the key."""


@dataclass(frozen=True)
class Layout:
    """A layout; the module documents the fields.

    ``columns``: engine and options by name. ``given``: the plain data of ``ratios``.
    """

    title: str
    kind: str
    columns: Mapping[str, Mapping[str, Any]]
    first: str | None
    names: Mapping[str, str]
    ratios: tuple[Claim, ...] = ()
    given: tuple[Mapping[str, Any], ...] = ()

    @classmethod
    def from_plain(cls, data: Any) -> Layout:
        """Read a layout from plain data. Raises LayoutError if it is invalid."""
        if not isinstance(data, Mapping) or set(data) - set(_KEYS):
            raise LayoutError(f"layout is {data!r}; it must have the keys {', '.join(_KEYS)} and no others")
        layout = cls(
            str(data.get("title", "")), _kind(data.get("kind", "table")), data.get("columns") or {}, data.get("first"),
            data.get("names") or {},
        )  # fmt: skip
        if layout.kind not in KINDS:
            raise LayoutError(f"layout.kind is {layout.kind!r}; it is one of {', '.join(KINDS)}")
        columns = layout.columns
        if not isinstance(columns, Mapping) or not columns:
            raise LayoutError("layout.columns names no column; give NAME: {engine: ENGINE, OPTION: VALUE}")
        for name, column in columns.items():
            if not isinstance(column, Mapping) or "engine" not in column:
                raise LayoutError(f"layout.columns.{name} is {column!r}; it must name an engine: {{engine: NAME}}")
        if layout.kind == "memory" and layout.first is None:
            raise LayoutError("layout.first is null; memory transactions are shown relative to a column: name it")
        if layout.first is not None and layout.first not in columns:
            raise LayoutError(f"layout.first is {layout.first!r}, not one of the columns: {', '.join(columns)}")
        if not isinstance(layout.names, Mapping):
            raise LayoutError(f"layout.names is {layout.names!r}; give NAME: SHORT")
        return layout._with_ratios(data.get("ratios"))

    def _with_ratios(self, data: Any) -> Layout:
        """Return the layout with the claims of its kind. Raises LayoutError if they are invalid."""
        if self.kind != "ratios":
            if data:
                raise LayoutError(f"layout.ratios are of kind: ratios, not {self.kind}; omit them")
            return self
        try:
            return replace(self, ratios=claims_of(data, self.columns), given=tuple(data))
        except ClaimError as error:
            raise LayoutError(str(error)) from error

    def plain(self) -> dict[str, Any]:
        """Return the plain data that `from_plain` reads."""
        columns = {name: dict(column) for name, column in self.columns.items()}
        ratios = {"ratios": [dict(one) for one in self.given]} if self.given else {}
        return {"title": self.title, "kind": self.kind, "columns": columns, "first": self.first,
                "names": dict(self.names), **ratios}  # fmt: skip

    def column_of(self, record: Record) -> str | None:
        """Return the first column that a record belongs to, or None."""
        schedule = {**record["config"]["schedule"], "engine": record["config"]["engine"]}
        for name, column in self.columns.items():
            if all(schedule.get(key) == value for key, value in column.items()):
                return name
        return None

    def name_of(self, record: Record, what: str) -> str:
        """Return the short name of a record's algorithm or graph, by its label or plugin, or its label in tables."""
        label = record["labels"][what]
        return str(self.names.get(label, self.names.get(record["config"][what], label)))


def named(layout: Layout | None, records: Sequence[Record]) -> list[Record]:
    """Return the records with the layout's names of engines, algorithms and graphs in their labels."""
    if layout is None:
        return list(records)
    found = []
    for record in records:
        column = layout.column_of(record)
        labels = {
            **record["labels"],
            "engine": record["labels"]["engine"] if column is None else column,
            "algorithm": layout.name_of(record, "algorithm"),
            "graph": layout.name_of(record, "graph"),
        }
        found.append({**record, "labels": labels})
    return cast("list[Record]", found)


def _kind(value: Any) -> Any:
    return _RENAMED_KINDS.get(value, value) if isinstance(value, str) else value


@dataclass(frozen=True)
class Row:
    """The records of one algorithm on one graph with one number of features, by column."""

    algorithm: str
    graph: str
    features: str
    cells: Mapping[str, Record]


def rows_of(layout: Layout, records: Sequence[Record]) -> list[Row]:
    """Return the rows, grouped by algorithm, otherwise in order of first occurrence.

    Algorithms with one short name share a row, in which a cell that ran precedes one that was refused. A cell that
    failed before its number of features was known joins the row of the others. A graph whose content
    changed between the records has a row for each content.
    """
    changed = changed_graphs(records)
    cells: dict[tuple[str, str, str], dict[str, Record]] = {}
    for record in sorted(records, key=lambda record: record["features"] is None):
        column = layout.column_of(record)
        if column is None:
            continue
        algorithm = layout.name_of(record, "algorithm")
        graph = graph_name(record, layout.name_of(record, "graph"), changed)
        k = record["features"] or record["config"]["features"]
        key = (algorithm, graph, "auto" if k is None else str(k))
        if k is None:
            key = next((other for other in cells if other[:2] == key[:2]), key)
        own = cells.setdefault(key, {})
        if column not in own or record["outcome"] != Outcome.UNSUPPORTED:
            own[column] = record
    algorithms = list(dict.fromkeys(algorithm for algorithm, _, _ in cells))
    rows = [Row(*key, found) for key, found in cells.items()]
    return sorted(rows, key=lambda row: algorithms.index(row.algorithm))


def layout_table(layout: Layout, records: Sequence[Record]) -> Table:
    """Return the table: times in the first column, speed-ups over it in the others; the fastest is bold."""
    rows = rows_of(layout, records)
    several = len({row.features for row in rows}) > 1
    table = Table(pad_edge=False)
    for name in ("", "graph", *(["k"] if several else [])):
        table.add_column(name, overflow="fold")
    for name in layout.columns:
        table.add_column(name, justify="right")
    algorithm = None
    for row in rows:
        if row.algorithm != algorithm:
            table.add_section()
        best = _fastest(row)
        texts = [Text(cell_text(layout, row, name)) for name in layout.columns]
        for name, text in zip(layout.columns, texts, strict=True):
            if name == best:
                text.stylize("bold")
        begin = [literal(row.algorithm if row.algorithm != algorithm else ""), literal(row.graph)]
        table.add_row(*begin, *([Text(row.features)] if several else []), *texts)
        algorithm = row.algorithm
    return table


def legend(layout: Layout, records: Sequence[Record]) -> list[str]:
    """Explain the signs that occur in the table."""
    shown = {cell_text(layout, row, name) for row in rows_of(layout, records) for name in layout.columns}
    meanings = {
        OUT_OF_MEMORY: f"{OUT_OF_MEMORY}: out of memory",
        NO_DIFFERENCE: f"{NO_DIFFERENCE}: no difference shown",
        NO_VERDICT: f"{NO_VERDICT}: too few samples for a verdict, or other work disturbed a time",
        NOT_COMPARABLE: f"{NOT_COMPARABLE}: not comparable, only one of the two runs converged",
        NOTHING: f"{NOTHING}: not run",
    }
    return [text for sign, text in meanings.items() if sign in shown]


def outcome_sign(record: Record) -> str:
    """Return the text shown instead of a time: X for out of memory, as in papers, else the outcome."""
    return OUT_OF_MEMORY if record["outcome"] == Outcome.OUT_OF_MEMORY else str(record["outcome"])


def cell_text(layout: Layout, row: Row, name: str) -> str:
    """Return the text of a column in a row: a time, a speed-up over the first column, or a sign."""
    record, first = row.cells.get(name), row.cells.get(layout.first or "")
    if record is None:
        return NOTHING
    if record["outcome"] != Outcome.OK or record["solve"] is None:
        return outcome_sign(record)
    found = ratio(record, first, to_accuracy=False)  # compares the times that the first column shows
    if found is None:
        return NOT_COMPARABLE if obstacle(record, first) else seconds(record["solve"]["median"])
    if not found.conclusive:
        return NO_VERDICT
    return f"{found.value:.3g}x" if found.decided else NO_DIFFERENCE


def _fastest(row: Row) -> str | None:
    """Return the column whose time is below all others with non-overlapping intervals, or None."""
    timed = {n: r for n, r in row.cells.items() if r["outcome"] == Outcome.OK and r["solve"] is not None}
    if len(timed) < 2:
        return None
    best = min(timed, key=lambda name: timed[name]["solve"]["median"])  # type: ignore[index]
    others = [ratio(timed[best], record, to_accuracy=False) for name, record in timed.items() if name != best]
    return best if all(found is not None and found.decided for found in others) else None
