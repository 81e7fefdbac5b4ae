"""Comparison of programs up to the names of properties, parameters and stages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.language.expressions import Expression
from harness.language.program import EdgeReduce, EdgeStep, GraphReduce, Program, Stage, VertexReduce


@dataclass
class Names:
    """The names in a program of the properties and the parameters of a template."""

    properties: dict[str, str] = field(default_factory=dict)
    parameters: dict[str, str] = field(default_factory=dict)


def matched(template: Program, program: Program) -> Names | None:
    """Return the program's names if it is the template up to names; None if it is another program.

    Stages, expressions, properties, outputs and the stopping rule are the same. The limit of supersteps, the bounds of
    outputs, promises of signs, and the order and conflicts of steps in place are not compared. Operands in another
    order make another program.
    """
    names = Names()
    pairs = list(zip(template.stages, program.stages, strict=False))
    if len(template.stages) != len(program.stages) or not all(_same_stage(*pair, names) for pair in pairs):
        return None
    mine, theirs = template.control, program.control
    if (mine.settles, mine.relative, mine.alternate, mine.norm) != (
        theirs.settles, theirs.relative, theirs.alternate, theirs.norm,
    ):  # fmt: skip
        return None
    if not _bound(names.parameters, mine.tolerance, theirs.tolerance):
        return None
    if len(template.outputs) != len(program.outputs) or not all(
        _bound(names.properties, one, other) for one, other in zip(template.outputs, program.outputs, strict=True)
    ):
        return None
    return names if _same_properties(template, program, names) else None


def _bound(table: dict[str, str], mine: str | None, theirs: str | None) -> bool:
    """Bind a name of the template to a name of the program; return whether that agrees with earlier bindings."""
    if mine is None or theirs is None:
        return mine is theirs
    if mine not in table and theirs in table.values():
        return False
    return table.setdefault(mine, theirs) == theirs


def _same_stage(mine: Stage, theirs: Stage, names: Names) -> bool:
    if type(mine) is not type(theirs) or len(mine.writes) != len(theirs.writes):
        return False
    if isinstance(mine, (EdgeReduce, VertexReduce, GraphReduce)) and mine.reducer != getattr(theirs, "reducer", None):
        return False
    if isinstance(mine, EdgeStep) and isinstance(theirs, EdgeStep) and not _same_ends(mine, theirs, names):
        return False
    if not all(_bound(names.properties, *pair) for pair in zip(mine.writes, theirs.writes, strict=True)):
        return False
    expressions, others = mine.expressions(), theirs.expressions()
    return len(expressions) == len(others) and all(
        _same(one, other, names) for one, other in zip(expressions, others, strict=True)
    )


def _same_ends(mine: EdgeStep, theirs: EdgeStep, names: Names) -> bool:
    """Return whether two steps write the same properties at the same ends."""
    return len(mine.values) == len(theirs.values) and all(
        end == other_end and _bound(names.properties, name, other_name)
        for (end, name, _), (other_end, other_name, _) in zip(mine.values, theirs.values, strict=True)
    )


def _same(mine: Expression, theirs: Expression, names: Names) -> bool:
    if (mine.op, mine.shape, mine.dtype, len(mine.args)) != (theirs.op, theirs.shape, theirs.dtype, len(theirs.args)):
        return False
    if mine.op == "read":
        (space, name), (other_space, other_name) = mine.attribute, theirs.attribute
        return space == other_space and _bound(names.properties, name, other_name)
    if mine.op == "param":
        return _bound(names.parameters, mine.attribute, theirs.attribute)
    known = (
        _bound(names.properties, mine.attribute, theirs.attribute)
        if mine.op == "at"
        else mine.attribute == theirs.attribute
    )
    return known and all(_same(one, other, names) for one, other in zip(mine.args, theirs.args, strict=True))


def _same_properties(template: Program, program: Program, names: Names) -> bool:
    """Return whether bound properties have the same kind and start, and the built-in ones the same name."""
    pending = list(names.properties)
    while pending:
        name = pending.pop()
        mine, theirs = template.properties[name], program.properties[names.properties[name]]
        if (mine.place, mine.shape, mine.dtype, mine.role) != (theirs.place, theirs.shape, theirs.dtype, theirs.role):
            return False
        if mine.role == "builtin" and mine.name != theirs.name:
            return False
        if isinstance(mine.start, str) and isinstance(theirs.start, str):
            known = mine.start in names.properties
            if not _bound(names.properties, mine.start, theirs.start):
                return False
            pending += [] if known else [mine.start]
        elif mine.start != theirs.start:
            return False
    return _same_implicit(template, program, names.properties)


def _same_implicit(template: Program, program: Program, properties: Mapping[str, str]) -> bool:
    """Return whether an edge's weight, which the graph supplies by its name, is bound to itself."""
    implicit = {name for name in ("weight",) if name in template.properties or name in program.properties}
    return all((mine in implicit) == (theirs in implicit) for mine, theirs in properties.items())
