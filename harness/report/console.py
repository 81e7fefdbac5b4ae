"""Text output: Rich on a terminal, plain lines elsewhere."""

from __future__ import annotations

import io
import sys
from collections.abc import Collection, Iterable, Sequence

from rich.console import Console, ConsoleRenderable
from rich.table import Table
from rich.text import Text

# Piped text must not be wrapped to the 80 columns that Rich assumes. Piped tables get their full width, so that nothing
# is wrapped or truncated.
_WIDTH_ELSEWHERE = 180
_ANY_WIDTH = 10_000


def console() -> Console:
    """Return a console on the current standard output."""
    on_terminal = sys.stdout.isatty()
    return Console(highlight=False, width=None if on_terminal else _WIDTH_ELSEWHERE)


def show_table(out: Console, shown: ConsoleRenderable, width: int | None = None) -> None:
    """Print a table: fitted to the width of a terminal, elsewhere to ``width`` characters; None: at its full width."""
    if not out.is_terminal:
        out = Console(file=out.file, highlight=False, width=width or max(_WIDTH_ELSEWHERE, widest(shown)))
    out.print(shown)


def widest(shown: ConsoleRenderable) -> int:
    """Return the width in characters at which nothing is wrapped."""
    return Console(width=_ANY_WIDTH).measure(shown).maximum


def as_text(shown: ConsoleRenderable) -> str:
    """Return the output of a console as plain lines for a file."""
    lines = io.StringIO()
    show_table(Console(file=lines, highlight=False), shown)
    return lines.getvalue()


def literal(text: str, style: str = "") -> Text:
    """Return ``text`` without interpreting markup; each non-printable character except line feeds becomes U+FFFD."""
    signs = (sign if sign.isprintable() or sign == "\n" else "\N{REPLACEMENT CHARACTER}" for sign in text)
    return Text("".join(signs), style)


def plain_table(title: str, headings: Sequence[str], rows: Iterable[Sequence[str]], numbers: Collection[str]) -> Table:
    """Return rows of texts as a table for a terminal; the columns of ``numbers`` are aligned to the right."""
    table = Table(title=title, title_justify="left", pad_edge=False)
    for name in headings:
        table.add_column(name, justify="right" if name in numbers else "left", overflow="fold")
    for row in rows:
        table.add_row(*(literal(cell) for cell in row))
    return table
