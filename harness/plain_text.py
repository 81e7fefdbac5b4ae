"""Text from plugins, files and errors, made safe to print, to encode and to show in a page."""

from __future__ import annotations

import sys
import traceback
import unicodedata

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
# Control characters and surrogates; and, of the category Cf, the characters that reorder text.
_UNSAFE = frozenset(("Cc", "Cs"))
_REORDERING = frozenset("\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def printable(text: str) -> str:
    """Return ``text`` with a replacement character for each control character, lone surrogate and direction mark.

    Line feeds and tabs stay. The result can be encoded in UTF-8 and has no effect on a terminal.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(sign if sign in "\n\t" or not _unsafe(sign) else REPLACEMENT for sign in text)


def one_line(text: str) -> str:
    """Return :func:`printable` text with a space for each line feed and tab."""
    return printable(text).replace("\n", " ").replace("\t", " ")


def message_of(error: BaseException) -> str:
    """Return the message of an error, as it stands; also of an error whose ``__str__`` fails."""
    try:
        return str.__str__(str(error))
    except BaseException as failure:  # noqa: BLE001  __str__ is the plugin's code
        return f"(no message: its __str__ raised {type(failure).__name__})"


def describe_error(error: BaseException) -> str:
    """Return ``Type: message`` of an error, as it stands."""
    return f"{type(error).__name__}: {message_of(error)}"


def print_traceback(error: BaseException) -> None:
    """Print the traceback of an error, also of one whose ``__str__`` fails."""
    try:
        traceback.print_exception(error)
    except BaseException as failure:  # noqa: BLE001  __str__ and __repr__ are the plugin's code
        sys.stderr.write(f"no traceback of {type(error).__name__}: {describe_error(failure)}\n")


def _unsafe(sign: str) -> bool:
    return sign in _REORDERING or unicodedata.category(sign) in _UNSAFE
