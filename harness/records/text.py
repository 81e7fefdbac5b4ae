"""Limit the texts in a record: an engine's exception can have a message of any length with any characters."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from harness.plain_text import printable

REASON_LIMIT = 2_000  # characters of a record's reason
TEXT_LIMIT = 20_000  # characters of any other text of a record
UNCHANGED = frozenset((int, float, bool, type(None)))


def shortened(text: str, limit: int) -> str:
    """Return at most ``limit`` characters: the beginning of a longer text, and the number of characters omitted."""
    if len(text) <= limit:
        return text
    kept = limit - len(_note(len(text)))
    return text[:kept] + _note(len(text) - kept)


def bounded(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Make every text of a record, at any depth, printable and shorten it to its limit."""
    limits = {"reason": REASON_LIMIT}
    return {_bounded(name): _bounded(value, limits.get(name, TEXT_LIMIT)) for name, value in fields.items()}


def _bounded(value: Any, limit: int = TEXT_LIMIT) -> Any:
    if type(value) in UNCHANGED:
        return value
    if isinstance(value, str):
        return printable(shortened(value, limit))
    if isinstance(value, (list, tuple)):
        return [item if type(item) in UNCHANGED else _bounded(item) for item in value]
    if isinstance(value, Mapping):
        return {
            _name(key) if type(key) is str else _bounded(key): item if type(item) in UNCHANGED else _bounded(item)
            for key, item in value.items()
        }
    return value


@lru_cache(maxsize=4096)  # records have the same names again and again
def _name(name: str) -> str:
    return printable(shortened(name, TEXT_LIMIT))


def _note(left_out: int) -> str:
    return f" [... {left_out:,} characters left out]"
