"""Blocks of generated code in any language: lines, and the values that are known in them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, Self, TypeVar

Value = TypeVar("Value")  # the representation of a lowered value in a back end


@dataclass
class Lines(Generic[Value]):
    """Consecutive lines at one depth of the loops; values that an enclosing block computed before it are known here
    too.
    """

    name: str
    parent: Self | None = None
    lines: list[str] = field(default_factory=list)
    known: dict[str, Value] = field(default_factory=dict)

    @property
    def depth(self) -> int:
        """Return the number of enclosing blocks."""
        return 0 if self.parent is None else 1 + self.parent.depth

    def line(self, text: str) -> Self:
        """Append a line; the caller supplies indentation within the block."""
        self.lines.append(text)
        return self

    def find(self, key: str) -> Value | None:
        """Return the value of an expression that this block or an enclosing one has computed; None if there is none."""
        if key in self.known:
            return self.known[key]
        return None if self.parent is None else self.parent.find(key)
