"""Make text from plugins, files and errors safe to print, encode and render in HTML."""

from __future__ import annotations

import sys
import traceback
import unicodedata

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
# Unicode categories of control characters and surrogates, and the characters of category Cf that reorder text.
_UNSAFE = frozenset(("Cc", "Cs"))
_REORDERING = frozenset("\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def printable(text: str) -> str:
    """Replace each control character, lone surrogate and direction mark by U+FFFD.

    Line feeds and tabs are kept. The result can be encoded as UTF-8 and contains no terminal escape sequences.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(sign if sign in "\n\t" or not _unsafe(sign) else REPLACEMENT for sign in text)


def one_line(text: str) -> str:
    """Apply :func:`printable` and replace each line feed and tab by a space."""
    return printable(text).replace("\n", " ").replace("\t", " ")


def message_of(error: BaseException) -> str:
    """Return the unmodified message of an error, or a placeholder if its ``__str__`` fails."""
    try:
        return str.__str__(str(error))
    except BaseException as failure:  # noqa: BLE001  __str__ is the plugin's code
        return f"(no message: its __str__ raised {type(failure).__name__})"


def describe_error(error: BaseException) -> str:
    """Return ``Type: message`` of an error, unmodified."""
    return f"{type(error).__name__}: {message_of(error)}"


def print_traceback(error: BaseException) -> None:
    """Print the traceback of an error to standard error, even if its ``__str__`` fails."""
    try:
        traceback.print_exception(error)
    except BaseException as failure:  # noqa: BLE001  __str__ and __repr__ are the plugin's code
        sys.stderr.write(f"no traceback of {type(error).__name__}: {describe_error(failure)}\n")


def _unsafe(sign: str) -> bool:
    return sign in _REORDERING or unicodedata.category(sign) in _UNSAFE
