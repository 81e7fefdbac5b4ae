"""Progress of a sweep: a line for each finished cell and, on a terminal, the running cells."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Self

from rich.status import Status
from rich.text import Text

from harness.records import Record
from harness.records.outcome import Outcome
from harness.report.console import console, literal
from harness.report.units import seconds

# Set in the environment by programs that read the lines: a line for each cell that begins, too.
BEGINS_VARIABLE, BEGINS = "ONYX_HARNESS_BEGINS", "begins: "
_LONG_WAIT_S = 10.0
_STYLES = {Outcome.OK: "green", Outcome.UNSUPPORTED: "yellow"}


def outcome_text(outcome: str) -> Text:
    """Return an outcome in its colour: green for ok, yellow for unsupported, red for a failure."""
    return Text(outcome, _STYLES.get(Outcome(outcome), "bold red"))


def say_begin(sweep: str, cells: int, recorded: int) -> None:
    """Print the number of cells of a sweep and the number already recorded."""
    known = f", {recorded} on record (rerun=all measures them again)" if recorded else ""
    console().print(Text(f"sweep {sweep}: {cells} cell{'s' if cells != 1 else ''}{known}"))


def say_more_rounds(disturbed: int) -> None:
    """Print why all cells are measured in further rounds."""
    times = "1 time" if disturbed == 1 else f"{disturbed} times"
    message = f"other work disturbed {times}: all cells are measured in further rounds, in turn, which it affects alike"
    console().print(Text(message))


class Progress:
    """Print a line for each finished cell; on a terminal also show the running cells and the estimated time left.

    Elsewhere, cells that begin are printed if the environment variable ``BEGINS_VARIABLE`` is set. It must be entered
    and exited in the same thread.
    """

    def __init__(self, total: int) -> None:
        self._total, self._done, self._left = total, 0, ""
        self._running: dict[str, Text] = {}
        self._waits: dict[str, Text] = {}
        self._console = console()
        self._status: Status | None = None

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._status = self._console.status("")
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._status is not None:
            self._status.stop()

    def begun(self, key: str, labels: Mapping[str, str], features: int | None, turn: int) -> None:
        """Show a cell as running."""
        self._running[key] = _title(labels, features, turn)
        if self._status is None and os.environ.get(BEGINS_VARIABLE):
            self._console.print(Text.assemble(BEGINS, self._running[key]))
        self._show()

    def waiting(self, key: str, elapsed: float, behind: str) -> None:
        """Show that a cell has waited for its device for ``elapsed`` seconds (0: it does not wait) behind ``behind``.

        Waits below 10 s are not shown. Without a terminal, a wait is printed once.
        """
        if elapsed < _LONG_WAIT_S:
            self._waits.pop(key, None)
        elif key in self._running:
            message = f" waits for its device behind {behind or 'another cell'}"
            if key not in self._waits and self._status is None:
                self._console.print(Text.assemble(self._running[key], literal(message)))
            self._waits[key] = Text.assemble(self._running[key], literal(f"{message} for {elapsed:.0f} s", "yellow"))
        self._show()

    def ended(self, key: str, record: Record, elapsed: float) -> None:
        """Print the outcome of a cell that ended ``elapsed`` seconds after the sweep began."""
        self._running.pop(key, None)
        self._waits.pop(key, None)
        self._done += 1
        solve = record["solve"]
        time = f" {seconds(solve['median'])}" if solve and record["outcome"] == Outcome.OK else ""
        self._left = time_left(self._done, self._total, elapsed)
        features = record["features"] or record["config"]["features"]
        title = Text.assemble(f"[{self._done}/{self._total}] ", _title(record["labels"], features, record["round"]))
        self._console.print(Text.assemble(title, "  ", outcome_text(record["outcome"]), time, (self._left, "dim")))
        self._show()

    def _show(self) -> None:
        if self._status is not None:
            self._status.update(in_flight([*{**self._running, **self._waits}.values()], self._left))


def in_flight(cells: Sequence[Text], left: str) -> Text:
    """Return the text of the running cells and the time left (see `time_left`); between two cells only the latter."""
    running = Text.assemble("running ", Text(", ").join(cells)) if cells else Text("the next cell")
    return Text.assemble(running, left)


def time_left(done: int, total: int, elapsed: float) -> str:
    """Return ``, about 2 min left``, extrapolated from the finished cells; empty if none is left."""
    left = elapsed / done * (total - done)
    if done == total:
        return ""
    duration = f"{left:.0f} s" if left < 100 else f"{left / 60:.0f} min" if left < 6000 else f"{left / 3600:.1f} h"
    return f", about {duration} left"


def _title(labels: Mapping[str, str], features: int | None, turn: int) -> Text:
    k = "auto" if features is None else str(features)
    again = f" · round {turn}" if turn > 1 else ""
    return literal(f"{labels['graph']} · {labels['algorithm']} · k={k} · {labels['engine']}{again}")
