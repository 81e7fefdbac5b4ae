"""The comparison table of a sweep."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from harness.records import Record
from harness.records.outcome import Outcome
from harness.report.comparison import Group, baseline_of, grouped, ratio
from harness.report.console import literal
from harness.report.progress import outcome_text
from harness.report.series import engine_label
from harness.report.units import count, quality, seconds, seconds_range

UNSETTLED = "not settled"
UNSETTLED_NOTE = "not settled: stopped at the limit of supersteps; a quality that only a settled answer has is left out"


def comparison_table(records: Sequence[Record], baseline: str | None) -> Table:
    """One row a record, in groups of one graph, algorithm and k; only a cell that is ok shows a time."""
    table = Table(title_justify="left", pad_edge=False)
    for name in ("graph", "algorithm", "k", "engine"):
        table.add_column(name, justify="right" if name == "k" else "left", overflow="fold")
    table.add_column("outcome")
    for name in ("solve (median)", "interval", "supersteps", "edges visited", "error", "quality"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column(f"speed-up over {baseline}" if baseline else "speed-up", justify="right", no_wrap=True)
    for group, members in grouped(records):
        table.add_section()
        base = baseline_of(members, baseline)
        for place, record in enumerate(members):
            table.add_row(*_group_cells(group, members, first=place == 0), *_cells(record, base))
    return table


def _group_cells(group: Group, members: Sequence[Record], *, first: bool) -> list[Text]:
    if not first:
        return [Text()] * 3
    graph, algorithm, k, limit = group
    size = next((record["graph"] for record in members if record["graph"]), None)
    if size is not None:
        graph = f"{graph}\n{count(size['vertices'])} vertices, {count(size['edges'])} arcs"
    if limit != "None":
        algorithm = f"{algorithm}\nat most {limit} supersteps"
    return [literal(graph), literal(algorithm), literal(k)]


def _cells(record: Record, base: Record | None) -> list[Text]:
    engine = literal(engine_label(record))
    solve, validation = record["solve"], record["validation"]
    cells = [engine, outcome_text(record["outcome"])]
    ok = record["outcome"] == Outcome.OK
    if ok and solve is not None:
        cells += [
            Text(seconds(solve["median"])),
            Text(seconds_range(solve["low"], solve["high"], solve["median"]) + _mark(record)),
        ]
    else:
        cells += [Text("-"), Text("-")]
    steps = record["supersteps"]
    cells += [_supersteps(record), Text(count(sum(step[1] for step in steps)) if steps else "-")]
    cells.append(Text("-" if validation is None else f"{validation['error']:.1e}"))
    cells.append(_quality(record))
    cells.append(_speed_up(record, base))
    return cells


def unsettled(record: Record) -> bool:
    """Whether the run was stopped at its limit of supersteps before it had settled."""
    return record["settled"] is False and record["outcome"] == Outcome.OK


def _supersteps(record: Record) -> Text:
    steps = record["supersteps"]
    return Text(f"{len(steps)}{f', {UNSETTLED}' if unsettled(record) else ''}" if steps else "-")


def disturbed(record: Record) -> bool:
    """Whether something speaks against the time of this cell."""
    return bool(record["marks"])


def _mark(record: Record) -> str:
    return " *" if disturbed(record) else ""


def _quality(record: Record) -> Text:
    told = [f"{name} {quality(value)}" for name, value in record["metrics"].items()]
    return literal("\n".join(told) or "-")


def _speed_up(record: Record, base: Record | None) -> Text:
    if record is base:
        return Text("1 (baseline)")
    found = ratio(record, base)
    if found is None:
        return Text("-")
    if not found.distinct:
        return Text(found.doubt)
    return Text(f"{found.value:.3g}x [{found.low:.3g}, {found.high:.3g}]", "green" if found.value > 1 else "red")
