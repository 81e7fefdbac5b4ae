"""Blocks of generated CUDA C++: statements, and the values that are known where they run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, Self, TypeAlias

Kind: TypeAlias = Literal["scalar", "row", "walked", "matrix", "tile"]


@dataclass(frozen=True)
class Value:
    """A lowered value.

    A scalar is a variable. A row is a variable with a slot for every feature that the lane holds; a *walked* row is in
    memory from ``text`` on. A matrix of ``rows`` rows is a variable with registers of every lane, or a tile: a view of
    memory.
    """

    kind: Kind
    text: str
    length: int = 0
    rows: int = 0

    def element(self, slot: str, row: str = "") -> str:
        """The text of one element: of a row at a slot, of a matrix at a row and a slot."""
        match self.kind:
            case "scalar":
                return self.text
            case "row":
                return f"{self.text}[{slot}]"
            case "walked":
                return f"{self.text}[{slot}]"
        return f"{self.text}(team, {row}, {slot})"


@dataclass
class Block:
    """Statements that run one after another.

    ``hoisted``: variables are declared in the enclosing block, so that blocks beside this one see them. ``fields``:
    they are members of the struct ``got`` that this block fills, and another one reads.
    """

    name: str
    parent: Block | None = None
    hoisted: bool = False
    fields: list[str] | None = None
    lines: list[str] = field(default_factory=list)
    known: dict[str, Value] = field(default_factory=dict)

    @property
    def depth(self) -> int:
        """Number of enclosing blocks."""
        return 0 if self.parent is None else 1 + self.parent.depth

    def line(self, text: str) -> Self:
        """Append a statement."""
        self.lines.append(text)
        return self

    def declare(self, kind: str, name: str, value: str = "", *, constant: bool = True) -> str:
        """Declare a variable, with its value if one is given; the text under which it is known."""
        if self.fields is not None:
            self.fields.append(f"{kind} {name};")
            if value:
                self.line(f"got.{name} = {value};")
            return f"got.{name}"
        if self.hoisted and self.parent is not None:
            self.parent.line(f"{kind} {name};")
            if value:
                self.line(f"{name} = {value};")
        elif value:
            self.line(f"{_typed(kind, constant)} {name} = {value};")
        else:
            self.line(f"{kind} {name};")
        return name

    def find(self, key: str) -> Value | None:
        """The value of an expression that this block or an enclosing one has computed."""
        block: Block | None = self
        while block is not None:
            if key in block.known:
                return block.known[key]
            block = block.parent
        return None


def _typed(kind: str, constant: bool) -> str:
    """A type whose variable does not change; a pointer's target may."""
    if not constant:
        return kind
    return f"{kind} const" if kind.endswith("*") else f"const {kind}"
