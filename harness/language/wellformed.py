"""Constraints on a program beyond the shapes of its expressions."""

from __future__ import annotations

import keyword
from collections.abc import Mapping, Sequence

from harness.language.errors import LanguageError, SourceLine
from harness.language.expressions import Expression, read, walk
from harness.language.program import (
    SUPERSTEP,
    Control,
    EdgeReduce,
    EdgeStep,
    GraphReduce,
    Property,
    Stage,
    names_vertices,
    reads,
)

RESERVED = ("reverse", "at", SUPERSTEP)


def check_name(name: object, line: SourceLine | None = None) -> None:
    """Raise LanguageError for a name that cannot be written as ``v.name``."""
    legal = isinstance(name, str) and name.isidentifier() and not keyword.iskeyword(name) and not name.startswith("_")
    if not legal or name in RESERVED:
        raise LanguageError(
            f"{name!r} is not a property name: use a Python identifier without leading underscore, other "
            f"than {', '.join(map(repr, RESERVED))}",
            line,
        )


def require_float(value: Expression, name: str, line: SourceLine) -> None:
    """Raise LanguageError if the value of the function ``name`` cannot be reduced."""
    if value.dtype != "float":
        raise LanguageError(f"{name} must give one float value to reduce, not a bool", line)


def initial_factor(
    properties: Mapping[str, Property], name: str, reducer: str, message: Expression, line: SourceLine
) -> Expression:
    """Return the initial factor of a product, a property of the destination. Raises LanguageError."""
    if reducer != "prod":
        raise LanguageError(
            f"initial={name!r} is a factor of a prod; with reduce={reducer!r} add it in the vertex step after", line
        )
    prop = properties.get(name)
    if prop is None or (prop.place, prop.shape, prop.dtype) != ("vertex", message.shape, "float"):
        raise LanguageError(
            f"initial={name!r} must name a vertex float of shape {message.shape}, the message's; declare it before",
            line,
        )
    return read("dst", name, prop.shape, prop.dtype)


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


def check_named(stage: Stage, stages: Sequence[Stage], control: Control) -> None:
    """Raise LanguageError if a stage names vertices where that has no meaning."""
    if not names_vertices(stage):
        return
    if isinstance(stage, GraphReduce):
        raise LanguageError(
            f"{stage.name} reads v.at() in a reduction over the graph; read it in a vertex stage before", stage.line
        )
    if control.alternate:
        raise LanguageError(
            f"{stage.name} names vertices by values, which may be of either side; remove alternate_sides()", stage.line
        )
    for other in stages:
        if isinstance(other, EdgeStep):
            raise LanguageError(
                f"{stage.name} names vertices by values, which is not supported beside {other.name}, a step that "
                "updates both ends of edges",
                stage.line,
            )


def check_edge_step(stage: EdgeStep, properties: Mapping[str, Property], control: Control) -> None:
    """Raise LanguageError unless a step that updates both ends of edges reads and writes what such a step may."""
    for name in stage.writes:
        prop = properties.get(name)
        if prop is None or (prop.place, prop.role, prop.dtype) != ("vertex", "state", "float"):
            raise LanguageError(
                f"{stage.name} updates {name!r} in place; declare it as a float of vertices with a start", stage.line
            )
    if any(space == "reverse" for space, _ in reads(stage)):
        raise LanguageError(f"{stage.name} updates both ends of an edge; it cannot read edge.reverse", stage.line)
    if any(node.op == "without" for node in walk(*stage.expressions())):
        raise LanguageError(f"{stage.name} updates both ends of an edge; without() has no meaning in it", stage.line)
    if control.alternate:
        raise LanguageError(f"{stage.name} updates both ends of an edge; remove alternate_sides()", stage.line)
    if control.settles:
        raise LanguageError(
            f"{stage.name} moves both ends of an edge each time it runs, so the program never settles; use p.repeat(n)",
            stage.line,
        )
