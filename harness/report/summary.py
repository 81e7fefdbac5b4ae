"""What a sweep ends with: the table, what failed and why, where the records are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from harness.records import Mark, Record
from harness.records.outcome import Outcome
from harness.report.console import console, literal
from harness.report.progress import outcome_text
from harness.report.table import comparison_table

# Outcomes whose reason says all; for the others the last lines of the output help.
_SELF_EXPLAINING = (Outcome.UNSUPPORTED, Outcome.INVALID_INPUT, Outcome.TIMEOUT, Outcome.WRONG, Outcome.INTERRUPTED)
_OUTPUT_LINES = 8


def show_sweep(records: Sequence[Record], cells: int, baseline: str | None, folder: Path) -> None:
    """Print the table of a sweep of ``cells`` cells, then every cell that is not ok with its reason."""
    out = console()
    if records:
        out.print(comparison_table(records, baseline))
    timed = [record for record in records if record["outcome"] == Outcome.OK]
    for mark in Mark:
        marked = sum(mark in record["marks"] for record in timed)
        if marked:
            out.print(Text(f"* {mark.value} ({marked} of {len(timed)} times): {mark.meaning}"))
    _show_reasons(out, records)
    if len(records) < cells:
        missing = f"{cells - len(records)} of {cells} cells"
        out.print(Text(f"{missing} have not been run; the same command goes on with them"))
    out.print(literal(f"records: {folder}"))


def _show_reasons(out: Console, records: Sequence[Record]) -> None:
    """Each reason once, with the cells that it stopped."""
    reasons: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        if record["outcome"] != Outcome.OK:
            reasons.setdefault((record["outcome"], record["reason"]), []).append(record)
    for (outcome, reason), stopped in reasons.items():
        out.print(Text.assemble(outcome_text(outcome), ": ", literal(reason)))
        for record in stopped:
            labels = record["labels"]
            out.print(literal(f"    {labels['graph']} · {labels['algorithm']} · {labels['engine']}"))
        if Outcome(outcome) not in _SELF_EXPLAINING and stopped[0]["output"]:
            for line in _telling(stopped[0]["output"].splitlines()):
                out.print(literal(f"    | {line}", "dim"))


def _telling(lines: list[str]) -> list[str]:
    """The few lines of a failure's output that say most: the last, or those where the interpreter was struck down."""
    fatal = [number for number, line in enumerate(lines) if line.startswith("Fatal Python error")]
    return lines[fatal[-1] :][:_OUTPUT_LINES] if fatal else lines[-_OUTPUT_LINES:]
