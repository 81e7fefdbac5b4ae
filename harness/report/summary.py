"""The summary at the end of a sweep: the table, failures with their reasons, the place of the records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from harness.atomic_write import write_whole
from harness.records import Mark, Record
from harness.records.floor import share_of_floor
from harness.records.outcome import Outcome
from harness.report.comparison import accuracy_note, changed_graph_notes, confidence_note, disturbance_notes, group_of
from harness.report.console import as_text, console, literal, show_table
from harness.report.failures import failures
from harness.report.layout import Layout
from harness.report.layout_tables import UNTIMED, notes_of, table_of
from harness.report.progress import outcome_text
from harness.report.series import engine_label
from harness.report.table import FLOOR_NOTE, UNSETTLED_NOTE, comparison_table, unsettled
from harness.report.transfers import NOTE as TRANSFERS_NOTE
from harness.report.transfers import transfer_rows, transfer_table
from harness.report.warm import NOTE, warm_rows, warm_table

_OUTPUT_LINES = 8
LAYOUT_STEM = "layout"


def show_sweep(
    records: Sequence[Record], cells: int, baseline: str | None, folder: Path, *, out: Console | None = None,
    width: int | None = None,
) -> None:  # fmt: skip
    """Print the table of a sweep of ``cells`` cells, its notes, and every cell that is not ok with its reason.

    ``out``: None for standard output. ``width``: of the table in characters; None: that of a terminal, elsewhere any.
    """
    out = out or console()
    width = width or (out.width if out.is_terminal else None)
    if records:
        show_table(out, comparison_table(records, baseline, width), width)
    for note in changed_graph_notes(records):
        out.print(literal(f"! {note}"))
    for note in mark_notes(records):
        out.print(Text(f"* {note}"))
    for note in filter(None, (accuracy_note(records), confidence_note(records))):
        out.print(Text(note))
    if any(unsettled(record) for record in records):
        out.print(Text(UNSETTLED_NOTE))
    if any(share_of_floor(record) is not None for record in records):
        out.print(Text(FLOOR_NOTE))
    rows = warm_rows(records)
    if rows:
        show_table(out, warm_table(rows), width)
        out.print(Text(NOTE))
    transfers = transfer_rows(records)
    if transfers:
        show_table(out, transfer_table(transfers), width)
        out.print(Text(TRANSFERS_NOTE))
    _show_reasons(out, records)
    if len(records) < cells:
        missing = f"{cells - len(records)} of {cells} cells"
        out.print(Text(f"{missing} have not been run; the same command continues with them"))
    out.print(literal(f"records: {folder}"))


@dataclass(frozen=True)
class DryRunCell:
    """A cell of a dry run: whether the sweep would run it (``runs``), and why."""

    labels: Mapping[str, str]
    features: int | None
    round: int
    runs: bool
    why: str


def show_dry_run(sweep: str, cells: Sequence[DryRunCell]) -> None:
    """Print for each cell of a sweep whether it would be run, and why."""
    out = console()
    table = Table(pad_edge=False)
    for name in ("graph", "algorithm", "k", "engine", "round", "", "because"):
        table.add_column(name, overflow="fold")
    for cell in cells:
        k = "auto" if cell.features is None else str(cell.features)
        names = [literal(cell.labels["graph"]), literal(cell.labels["algorithm"]), Text(k)]
        runs = Text("run", "green") if cell.runs else Text("skip", "yellow")
        table.add_row(*names, literal(cell.labels["engine"]), Text(str(cell.round)), runs, literal(cell.why))
    show_table(out, table)
    out.print(Text(f"sweep {sweep}: {sum(cell.runs for cell in cells)} of {len(cells)} cells would be run"))


def show_layout(records: Sequence[Record], layout: Layout, folder: Path) -> None:
    """Print a layout and write it to ``folder``: as text, and as a figure if it defines one."""
    from harness.report.layout_figure import write_layout_figure

    out = console()
    table, title = table_of(layout, records), literal(layout.title)
    lines = [*notes_of(layout, records), *([] if layout.kind in UNTIMED else mark_notes(records))]
    lines += changed_graph_notes(records)
    notes = Text("\n").join(map(Text, lines))
    shown = Group(title, table, *([notes] if notes else []))
    show_table(out, shown)
    try:
        text = folder / f"{LAYOUT_STEM}.txt"
        write_whole(text, as_text(shown))
        written = [text, *write_layout_figure(folder / LAYOUT_STEM, layout, records)]
        out.print(literal(f"laid out: {', '.join(str(path) for path in written)}"))
    except (OSError, ImportError) as error:
        out.print(literal(f"not drawn ({error}); python -m harness.report layout {folder} does it later"))


def show_page(
    records: Sequence[Record], cells: int, baseline: str | None, folder: Path, layout: Layout | None = None
) -> None:
    """Write the page of a sweep and the index of all sweeps beside it, and print their paths.

    If they cannot be written, print the reason; the records are unaffected.
    """
    from harness.report.page import PAGE_FILE, write_page
    from harness.report.page.index import write_index

    if not records:
        return
    try:
        page = write_page(folder / PAGE_FILE, records, baseline, cells, layout=layout)
        message = f"page: {page} (all sweeps: {write_index(folder.parent)})"
    except OSError as error:
        message = f"the page could not be written ({error}); python -m harness.report page {folder} writes it again"
    console().print(literal(message))


def mark_notes(records: Sequence[Record]) -> list[str]:
    """Return a note for each mark, with the number of times that have it, and one on disturbed times."""
    timed = [record for record in records if record["outcome"] == Outcome.OK]
    marked = {mark: sum(mark in record["marks"] for record in timed) for mark in Mark}
    notes = [f"{mark.value} ({count} of {len(timed)} times): {mark.meaning}" for mark, count in marked.items() if count]
    return [*notes, *disturbance_notes(records)]


def _show_reasons(out: Console, records: Sequence[Record]) -> None:
    """Print each reason of failure once, with the failed cells."""
    for failure in failures(records):
        out.print(Text.assemble(outcome_text(failure.outcome), ": ", literal(failure.reason)))
        for record in failure.records:
            graph, algorithm, k, _ = group_of(record)
            out.print(literal(f"    {graph} · {algorithm} · k={k} · {engine_label(record)}"))
        for line in failure.telling(_OUTPUT_LINES):
            out.print(literal(f"    | {line}", "dim"))
