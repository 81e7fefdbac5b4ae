"""Where text goes: rich on a terminal, plain lines elsewhere."""

from __future__ import annotations

import io
import sys

from rich.console import Console, ConsoleRenderable
from rich.text import Text

# A table that is piped into a file should not be folded to the 80 columns that rich assumes there.
_WIDTH_ELSEWHERE = 180


def console() -> Console:
    """A console on standard output as it is now."""
    on_terminal = sys.stdout.isatty()
    return Console(highlight=False, width=None if on_terminal else _WIDTH_ELSEWHERE)


def as_text(shown: ConsoleRenderable) -> str:
    """What a console would print, as plain lines for a file."""
    lines = io.StringIO()
    Console(file=lines, highlight=False, width=_WIDTH_ELSEWHERE).print(shown)
    return lines.getvalue()


def literal(text: str, style: str = "") -> Text:
    """``text`` as it stands: names from files and plugins are no markup, and control characters do nothing."""
    signs = (sign if sign.isprintable() or sign == "\n" else "\N{REPLACEMENT CHARACTER}" for sign in text)
    return Text("".join(signs), style)
