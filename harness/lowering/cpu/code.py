"""Blocks of generated code: lines with indentation, and the values that are known where they run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, Self, TypeAlias

Kind: TypeAlias = Literal["scalar", "row", "matrix"]


@dataclass(frozen=True)
class Value:
    """A lowered value.

    A scalar or a row is a variable (``text``); ``lanes`` is the row's length. A matrix lies in memory: row i is the
    ``lanes`` floats of ``array`` from ``text + i * stride`` on, ``rows`` of them.
    """

    kind: Kind
    text: str
    lanes: int = 0
    rows: int = 0
    stride: int = 0
    array: str = ""

    def row_start(self, index: str) -> str:
        """Where row ``index`` of a matrix starts."""
        return f"{self.text} + {index} * {self.stride}"


@dataclass
class Block:
    """A run of lines at one depth of the loops; what an enclosing block computed before it is known here as well."""

    name: str
    parent: Block | None = None
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

    def inner(self, lines: list[str]) -> Self:
        """Append lines one step deeper: the start of a loop's body."""
        self.lines += [f"    {line}" for line in lines]
        return self

    def find(self, key: str) -> Value | None:
        """The value of an expression that this block or an enclosing one has computed."""
        block: Block | None = self
        while block is not None:
            if key in block.known:
                return block.known[key]
            block = block.parent
        return None

    def text(self, indent: int) -> str:
        """The lines, indented by ``indent`` steps of four blanks; ``pass`` when there are none."""
        return "\n".join("    " * indent + line for line in self.lines or ["pass"])
