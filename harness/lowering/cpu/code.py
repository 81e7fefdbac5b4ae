"""Blocks of generated code: lines with indentation, and the values that are known in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Self, TypeAlias

from harness.lowering.blocks import Lines

Kind: TypeAlias = Literal["scalar", "row", "matrix"]


@dataclass(frozen=True)
class Value:
    """A lowered value.

    A scalar or a row is a variable (``text``); ``lanes`` is the row's length. A matrix is in memory: row i is the
    ``lanes`` floats of ``array`` from ``text + i * stride`` on, and there are ``rows`` of them.
    """

    kind: Kind
    text: str
    lanes: int = 0
    rows: int = 0
    stride: int = 0
    array: str = ""

    def row_start(self, index: str) -> str:
        """Return the start of row ``index`` of a matrix."""
        return f"{self.text} + {index} * {self.stride}"


@dataclass
class Block(Lines[Value]):
    """Lines of Python."""

    def inner(self, lines: list[str]) -> Self:
        """Append lines one level deeper: the start of a loop's body."""
        self.lines += [f"    {line}" for line in lines]
        return self

    def text(self, indent: int) -> str:
        """Return the lines, indented by ``indent`` levels of four spaces; ``pass`` if there are none."""
        return "\n".join("    " * indent + line for line in self.lines or ["pass"])
