"""Blocks of generated CUDA C++: statements, and the values that are known in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from harness.lowering.blocks import Lines

Kind: TypeAlias = Literal["scalar", "row", "in_memory", "matrix", "tile"]


@dataclass(frozen=True)
class Value:
    """A lowered value.

    A scalar is a variable. A row is a variable with a slot for every feature that the lane holds; a row *in memory*
    begins at the address ``text``. A matrix of ``rows`` rows is a variable in the registers of every lane, or a tile: a
    view of memory.
    """

    kind: Kind
    text: str
    length: int = 0
    rows: int = 0

    def element(self, slot: str, row: str = "") -> str:
        """Return the text of one element: of a row at a slot, of a matrix at a row and a slot."""
        match self.kind:
            case "scalar":
                return self.text
            case "row":
                return f"{self.text}[{slot}]"
            case "in_memory":
                return f"{self.text}[{slot}]"
        return f"{self.text}(group, {row}, {slot})"


@dataclass
class Block(Lines[Value]):
    """Statements that run in sequence.

    ``hoisted``: variables are declared in the enclosing block, so that sibling blocks can use them. ``fields``:
    variables are members of the struct ``got``, which this block fills and another one reads.
    """

    hoisted: bool = False
    fields: list[str] | None = None

    def declare(self, kind: str, name: str, value: str = "", *, constant: bool = True) -> str:
        """Declare a variable, with its value if one is given; return the text that refers to it."""
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


def _typed(kind: str, constant: bool) -> str:
    """Return a type, const if ``constant``; of a pointer only the pointer itself becomes const."""
    if not constant:
        return kind
    return f"{kind} const" if kind.endswith("*") else f"const {kind}"
