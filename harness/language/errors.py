"""Errors of the program language: they show the user's own line, what was met, and the mend."""

from __future__ import annotations

import linecache
import sys
from dataclasses import dataclass

_PACKAGE = __name__.rpartition(".")[0]


@dataclass(frozen=True)
class SourceLine:
    """A line of the user's code: file, 1-based line number."""

    file: str
    line: int

    @property
    def text(self) -> str:
        """The line itself, stripped; empty when the source is not available."""
        return linecache.getline(self.file, self.line).strip()

    def __str__(self) -> str:
        text = self.text
        place = f"{self.file}:{self.line}"
        return f"{place}\n    {text}" if text else place


def user_line() -> SourceLine:
    """The innermost line on the stack that is outside the language package: the user's own."""
    frame = sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).rpartition(".")[0] == _PACKAGE:
        frame = frame.f_back
    return SourceLine(frame.f_code.co_filename, frame.f_lineno)


class LanguageError(Exception):
    """A program is not well formed. ``where`` is the user's line."""

    def __init__(self, message: str, where: SourceLine | None = None) -> None:
        self.message = message
        self.where = where if where is not None else user_line()
        super().__init__(f"{message}\n  at {self.where}")


class InvalidInput(ValueError):
    """An algorithm cannot take this graph, these parameters or these inputs; the message names the mend."""
