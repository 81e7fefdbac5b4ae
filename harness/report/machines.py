"""Times of the columns of a layout on several machines, as in Min et al. 2020, figure 12."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from harness.records import Record, machine_of
from harness.records.outcome import Outcome
from harness.report.comparison import obstacle, ratio
from harness.report.console import literal
from harness.report.layout import NO_DIFFERENCE, NO_VERDICT, NOT_COMPARABLE, NOTHING, Layout, outcome_sign, rows_of
from harness.report.units import seconds

Cell = tuple[str, str, str, str]  # algorithm, graph, features, column


def machines_table(layout: Layout, records: Sequence[Record]) -> Table:
    """Return the table: a time for each machine, with the speed-up over the first one."""
    of_machines = [_cells(layout, own) for own in _machines(records).values()]
    table = Table(pad_edge=False)
    for name in ("", "graph", "k", "engine"):
        table.add_column(name, overflow="fold")
    for name in machine_names(records):
        table.add_column(name, justify="right")
    for cell in dict.fromkeys(cell for cells in of_machines for cell in cells):
        first, *others = (cells.get(cell) for cells in of_machines)
        texts = [_time(first), *(_compared(other, first) for other in others)]
        table.add_row(*map(literal, cell), *map(Text, texts))
    return table


def machines_legend(layout: Layout, records: Sequence[Record]) -> list[str]:
    """Explain the table."""
    notes = [
        f"speed-ups: of each machine over the first one, for the same engine; {NO_DIFFERENCE}: no difference shown; "
        f"{NO_VERDICT}: too few samples, or other work disturbed a time; {NOT_COMPARABLE}: not comparable"
    ]
    if len(_machines(records)) < 2:
        notes.append("these are the records of one machine: python -m harness.records merge adds those of others")
    return notes


def machine_names(records: Sequence[Record]) -> list[str]:
    """Return the model of the GPU, or of the processor, of every machine, numbered where they are equal."""
    models = [_model(own[0]["environment"], own) for own in _machines(records).values()]
    several, seen = Counter(models), Counter[str]()
    names = []
    for model in models:
        seen[model] += 1
        names.append(f"{model} ({seen[model]})" if several[model] > 1 else model)
    return names


def _model(environment: Mapping[str, Any], records: Sequence[Record]) -> str:
    gpus = [gpu["name"] for record in records if (gpu := record["environment"].get("gpu"))]
    return str(gpus[0] if gpus else environment.get("cpu", "machine"))


def _machines(records: Sequence[Record]) -> dict[str, list[Record]]:
    found: dict[str, list[Record]] = {}
    for record in records:
        if record["environment"]:  # of a cell that has started
            found.setdefault(machine_of(record), []).append(record)
    return found


def _cells(layout: Layout, records: Sequence[Record]) -> dict[Cell, Record]:
    return {
        (row.algorithm, row.graph, row.features, column): row.cells[column]
        for row in rows_of(layout, records)
        for column in layout.columns
        if column in row.cells
    }


def _time(record: Record | None) -> str:
    if record is None:
        return NOTHING
    timed = record["outcome"] == Outcome.OK and record["solve"]
    return seconds(record["solve"]["median"]) if timed and record["solve"] else outcome_sign(record)


def _compared(record: Record | None, first: Record | None) -> str:
    """Return the time of a record, and its speed-up over that of the first machine."""
    text = _time(record)
    if record is None or first is None:
        return text
    if obstacle(record, first):
        return f"{text}, {NOT_COMPARABLE}"
    found = ratio(record, first, forced=True, to_accuracy=False)
    if found is None:
        return text
    if not found.conclusive:
        return f"{text}, {NO_VERDICT}"
    return f"{text}, {found.value:.3g}x" if found.decided else f"{text}, {NO_DIFFERENCE}"
