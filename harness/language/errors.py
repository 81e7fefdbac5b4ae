"""Errors of the program language: each shows the author's source line, what was found, and how to fix it."""

from __future__ import annotations

import linecache
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

_PACKAGE = __name__.rpartition(".")[0]


@dataclass(frozen=True)
class SourceLine:
    """A line of the author's code: file and 1-based line number."""

    file: str
    line: int

    @property
    def text(self) -> str:
        """The source text, stripped; empty if the source is not available."""
        return linecache.getline(self.file, self.line).strip()

    def __str__(self) -> str:
        text = self.text
        place = f"{self.file}:{self.line}"
        return f"{place}\n    {text}" if text else place


def user_line() -> SourceLine:
    """Return the innermost line on the stack outside the language package: the author's own."""
    frame = sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).rpartition(".")[0] == _PACKAGE:
        frame = frame.f_back
    return SourceLine(frame.f_code.co_filename, frame.f_lineno)


class LanguageError(Exception):
    """A program that is not well formed. ``where`` is the author's line."""

    def __init__(self, message: str, where: SourceLine | None = None) -> None:
        self.message = message
        self.where = where if where is not None else user_line()
        super().__init__(f"{message}\n  at {self.where}")


class InvalidInput(ValueError):
    """Graph, parameters or inputs that an algorithm cannot take; the message says how to fix them."""


@contextmanager
def authored(what: str, kind: type[LanguageError] | type[InvalidInput]) -> Iterator[None]:
    """Turn an unexpected exception of an author's code into an error of ``kind`` that names its line.

    ``what`` names the code that ran, such as ``pagerank.inputs``. Errors of the language and memory errors pass
    unchanged.
    """
    try:
        yield
    except (LanguageError, InvalidInput, MemoryError):
        raise
    except Exception as error:
        line = _line_of_origin(error)
        message = f"{what} raised {type(error).__name__}: {error}"
        raise LanguageError(message, line) if kind is LanguageError else kind(f"{message}\n  at {line}") from error


def _line_of_origin(error: BaseException) -> SourceLine:
    """Return the innermost line of the traceback that is neither in this package nor in an installed one."""
    frames = [(frame.f_globals.get("__name__", ""), frame.f_code.co_filename, line)
              for frame, line in traceback.walk_tb(error.__traceback__)][1:]  # fmt: skip
    own = [(file, line) for name, file, line in frames
           if name.rpartition(".")[0] != _PACKAGE and "site-packages" not in file]  # fmt: skip
    file, line = own[-1] if own else frames[-1][1:] if frames else ("?", 0)
    return SourceLine(file, line)
