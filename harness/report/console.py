"""Where text goes: rich on a terminal, plain lines elsewhere."""

from __future__ import annotations

import io
import sys

from rich.console import Console, ConsoleRenderable
from rich.text import Text

# Text that is piped into a file should not be folded to the 80 columns that rich assumes there. Tables get there what
# they need, so that nothing of them is folded or cut off.
_WIDTH_ELSEWHERE = 180
_ANY_WIDTH = 10_000


def console() -> Console:
    """A console on standard output as it is now."""
    on_terminal = sys.stdout.isatty()
    return Console(highlight=False, width=None if on_terminal else _WIDTH_ELSEWHERE)


def show_table(out: Console, shown: ConsoleRenderable) -> None:
    """Print a table within a terminal; elsewhere as wide as it is."""
    if not out.is_terminal:
        out = Console(file=out.file, highlight=False, width=max(_WIDTH_ELSEWHERE, widest(shown)))
    out.print(shown)


def widest(shown: ConsoleRenderable) -> int:
    """Return the number of characters at which nothing is folded."""
    return Console(width=_ANY_WIDTH).measure(shown).maximum


def as_text(shown: ConsoleRenderable) -> str:
    """What a console would print, as plain lines for a file."""
    lines = io.StringIO()
    show_table(Console(file=lines, highlight=False), shown)
    return lines.getvalue()


def literal(text: str, style: str = "") -> Text:
    """``text`` as it stands: names from files and plugins are no markup, and control characters do nothing."""
    signs = (sign if sign.isprintable() or sign == "\n" else "\N{REPLACEMENT CHARACTER}" for sign in text)
    return Text("".join(signs), style)
