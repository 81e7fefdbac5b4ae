"""The progress of a comparison: one display that replaces itself in a notebook, plain lines elsewhere."""

from __future__ import annotations

import re
import sys
from collections import Counter
from html import escape
from typing import Any, Protocol

from harness.report.progress import BEGINS

_SWEEP = re.compile(r"sweep \S+: (?P<cells>\d+) cells?(, (?P<recorded>\d+) on record)?")
_ENDED = re.compile(r"\[(?P<done>\d+)/(?P<total>\d+)\] (?P<title>.*?)  (?P<outcome>\w+)(?P<more>.*)")
_NUMBER = re.compile(r"(?<= · )k=\d+(?= · )")
_LINE = re.compile(r"\[\d+/\d+\] |sweep ")
_FAILURES_SHOWN = 20


class Progress(Protocol):
    """Shows the lines of a command's progress."""

    def line(self, line: str) -> None:
        """Show one line, which ends with a line feed."""

    def close(self, *, interrupted: bool) -> None:
        """Show that the command has ended."""


class Silent:
    """Shows nothing."""

    def line(self, line: str) -> None:
        """Show nothing."""

    def close(self, *, interrupted: bool) -> None:
        """Show nothing."""


class Lines:
    """Writes a line for the sweep and for each finished cell to the `sys.stderr` of the time."""

    def line(self, line: str) -> None:
        """Write a line of these kinds; leave out others."""
        if _LINE.match(line):
            sys.stderr.write(line)
            sys.stderr.flush()

    def close(self, *, interrupted: bool) -> None:
        """Write nothing more."""


class NotebookDisplay:
    """One output of a notebook cell, replaced at each line: a bar, the running cells, the failed ones.

    ``_repr_html_`` and ``__repr__`` are the output, in HTML and as text.
    """

    def __init__(self) -> None:
        from IPython.display import display

        self._done = self._total = self._recorded = 0
        self._running: dict[str, None] = {}
        self._outcomes: Counter[str] = Counter()
        self._failures: list[str] = []
        self._left, self._state = "", "starting"
        self._handle: Any = display(self, display_id=True)

    def line(self, line: str) -> None:
        """Take a line of the command, and show what it changes."""
        text = line.rstrip("\n")
        if found := _SWEEP.match(text):
            self._recorded = int(found["recorded"] or 0)
            self._total = int(found["cells"]) - self._recorded
        elif found := _ENDED.match(text):
            self._end_cell(found, text)
        elif text.startswith(BEGINS):
            self._running[text.removeprefix(BEGINS)] = None
        else:
            return
        self._state = f"running {', '.join(self._running)}" if self._running else "between two cells"
        self._handle.update(self)

    def close(self, *, interrupted: bool) -> None:
        """Show the final counts, without running cells."""
        self._left = ""
        self._state = "interrupted; the same call continues" if interrupted else "finished"
        self._handle.update(self)

    def _end_cell(self, found: re.Match[str], text: str) -> None:
        self._done, self._total = int(found["done"]), int(found["total"])
        for title in (found["title"], _NUMBER.sub("k=auto", found["title"])):  # k may be known only at the end
            if title in self._running:
                del self._running[title]
                break
        self._outcomes[found["outcome"]] += 1
        self._left = ", about " + found["more"].partition(", about ")[2] if ", about " in found["more"] else ""
        if found["outcome"] != "ok":
            self._failures.append(f"{found['title']}: {found['outcome']}")

    def _summary(self) -> str:
        known = f", {self._recorded} on record" if self._recorded else ""
        counts = "".join(f", {count} {outcome}" for outcome, count in self._outcomes.items())
        return f"{self._done} of {self._total} cells{known}{counts}; {self._state}{self._left}"

    def _repr_html_(self) -> str:
        shown = self._failures[-_FAILURES_SHOWN:]
        failures = "".join(f"<li>{escape(one)}</li>" for one in shown)
        bar = f'<progress value="{self._done}" max="{max(1, self._total)}"></progress>'
        return f"<div>{bar} {escape(self._summary())}{f'<ul>{failures}</ul>' if failures else ''}</div>"

    def __repr__(self) -> str:
        return "\n".join([self._summary(), *(f"  {one}" for one in self._failures[-_FAILURES_SHOWN:])])


def in_notebook() -> bool:
    """Return whether this process is the kernel of a notebook. IPython is not imported."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return getattr(shell, "kernel", None) is not None


def progress_display(*, wanted: bool) -> Progress:
    """Return what shows progress here; ``wanted``: False shows nothing."""
    if not wanted:
        return Silent()
    return NotebookDisplay() if in_notebook() else Lines()
