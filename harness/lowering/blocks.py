"""Blocks of generated code, in whatever language: lines, and the values that are known where they run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, Self, TypeVar

Value = TypeVar("Value")  # how a back end notes a lowered value


@dataclass
class Lines(Generic[Value]):
    """A run of lines at one depth of the loops; what an enclosing block computed before it is known here as well."""

    name: str
    parent: Self | None = None
    lines: list[str] = field(default_factory=list)
    known: dict[str, Value] = field(default_factory=dict)

    @property
    def depth(self) -> int:
        """Number of enclosing blocks."""
        return 0 if self.parent is None else 1 + self.parent.depth

    def line(self, text: str) -> Self:
        """Append a line; indentation within the block is the caller's."""
        self.lines.append(text)
        return self

    def find(self, key: str) -> Value | None:
        """The value of an expression that this block or an enclosing one has computed."""
        if key in self.known:
            return self.known[key]
        return None if self.parent is None else self.parent.find(key)
