"""Progress of a sweep: a line when a cell has ended, and on a terminal what is running meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from rich.text import Text

from harness.records import Record
from harness.records.outcome import Outcome
from harness.report.console import console, literal
from harness.report.units import seconds

_STYLES = {Outcome.OK: "green", Outcome.UNSUPPORTED: "yellow"}


def outcome_text(outcome: str) -> Text:
    """An outcome in its colour: green for ok, yellow for unsupported, red for a failure."""
    return Text(outcome, _STYLES.get(Outcome(outcome), "bold red"))


def say_begin(sweep: str, cells: int, recorded: int) -> None:
    """Say what the sweep holds and how much of it is on record."""
    known = f", {recorded} on record (rerun=all measures them again)" if recorded else ""
    console().print(Text(f"sweep {sweep}: {cells} cell{'s' if cells != 1 else ''}{known}"))


@contextmanager
def cell(
    labels: Mapping[str, str], features: int | None, number: int, total: int
) -> Iterator[Callable[[Record], None]]:
    """Show a cell as running; the function given is called with its record when it has ended."""
    out = console()

    def title(k: int | None) -> Text:
        told = "auto" if k is None else str(k)
        return literal(f"[{number}/{total}] {labels['graph']} · {labels['algorithm']} · k={told} · {labels['engine']}")

    def finished(record: Record) -> None:
        solve = record["solve"]
        time = f" {seconds(solve['median'])}" if solve and record["outcome"] == Outcome.OK else ""
        out.print(Text.assemble(title(record["features"] or features), "  ", outcome_text(record["outcome"]), time))

    if out.is_terminal:
        with out.status(title(features)):
            yield finished
    else:
        yield finished
