"""Constraints on a program beyond the shapes of its expressions."""

from __future__ import annotations

import keyword
from collections.abc import Mapping, Sequence

from harness.language.errors import LanguageError, SourceLine
from harness.language.expressions import Expression, walk
from harness.language.program import EdgeReduce, GraphReduce, Property, Stage


def check_name(name: object, line: SourceLine | None = None) -> None:
    """Raise LanguageError for a name that cannot be written as ``v.name``."""
    legal = isinstance(name, str) and name.isidentifier() and not keyword.iskeyword(name) and not name.startswith("_")
    if not legal or name == "reverse":
        raise LanguageError(
            f"{name!r} is not a property name: use a Python identifier without leading underscore, other "
            "than 'reverse'",
            line,
        )


def require_float(value: Expression, name: str, line: SourceLine) -> None:
    """Raise LanguageError if the value of the function ``name`` cannot be reduced."""
    if value.dtype != "float":
        raise LanguageError(f"{name} must give one float value to reduce, not a bool", line)


def check_without(stage: Stage, stages: Sequence[Stage]) -> None:
    """Raise LanguageError if ``without()`` applies to anything but the result of one sum or product over edges."""
    for node in walk(*stage.expressions()):
        if node.op == "without":
            name = node.args[0].attribute[1]
            writers = [s for s in stages if name in s.writes]
            reducers = [s.reducer for s in writers if isinstance(s, EdgeReduce)]
            if len(writers) != 1 or reducers not in (["sum"], ["prod"]):
                raise LanguageError(
                    f"without() removes a contribution from {name!r}, which must then be written by one reduction "
                    "over edges, a sum or a prod, and by no other stage",
                    node.where,
                )


def check_sides(stage: Stage, properties: Mapping[str, Property]) -> None:
    """Raise LanguageError if, under alternating sides, a stage reads values of the side that is not updated and lacks
    them."""
    for node in walk(*stage.expressions()):
        if node.op != "read":
            continue
        space, name = node.attribute
        elsewhere = space == "src" or (space == "v" and isinstance(stage, GraphReduce))
        if elsewhere and properties[name].role == "temporary":
            raise LanguageError(
                f"{stage.name} reads {name!r} of both sides, but a superstep writes it on one side only; declare it "
                "with a start",
                node.where,
            )
