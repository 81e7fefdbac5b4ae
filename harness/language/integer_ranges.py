"""Properties that hold only small integers: float32 adds these, and their changes, without rounding.

The analysis uses only the expressions that are written. Each expression has a range: the least and the largest number
that it can be. Inputs, degrees, parameters and reductions have no range: their numbers are known only at run time, and
need not be integers.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from harness.language.analysis import Delta
from harness.language.expressions import Expression, walk
from harness.language.program import EdgeStep, EdgeUpdate, Program, VertexStep, reads

MOST = 2**24  # float32 represents every integer up to here

Range: TypeAlias = tuple[int, int]


def integer_ranges(program: Program) -> dict[str, Range]:
    """Return the range of each float property that holds only integers, for every graph and all inputs.

    The set is closed: values written to one of its properties consist of constants, conditions and properties of the
    set. The iteration starts with the start values of states, and extends the ranges by what stages write until a fixed
    point. A range that still grows after as many rounds as a start needs to reach every property is considered
    unbounded.
    """
    ranges, written = _starts(program), _written(program)
    refused: set[str] = set()
    for turn in itertools.count():  # each later round, except the last, rejects one property
        before = dict(ranges)
        for name, value in written:
            found = None if value is None else integer_range(value, ranges)
            joined = None if found is None else _within(_hull(found, ranges.get(name, found)))
            grows = turn > len(program.properties) and joined != before.get(name)
            if joined is None or grows or name in refused:
                refused.add(name)
                ranges.pop(name, None)
            else:
                ranges[name] = joined
        if ranges == before:
            break
    return ranges


def integer_range(expression: Expression, ranges: Mapping[str, Range]) -> Range | None:
    """Return the range of an expression, given the ranges of properties.

    Return None if its value may not be an integer, or if the value, a part of it, or a difference of two values of
    either may exceed MOST.
    """
    found: dict[str, Range | None] = {}
    for node in walk(expression):
        args = [found[arg.key] for arg in node.args]
        found[node.key] = (0, 1) if node.dtype == "bool" else _within(_range(node, args, ranges))
    return found[expression.key]


def adds_exactly(form: Delta, ranges: Mapping[str, Range], most_edges: int) -> bool:
    """Return whether summing changes of messages is exact: equal to summing the messages themselves.

    The sum has at most ``most_edges`` terms. Changes of a message, and of its parts that are linear in the moving
    properties, are differences of two values of that part. The sum of old messages, of new messages, and of changes
    must stay below MOST.
    """
    found = integer_range(form.reduction.message, ranges) if form.kind in ("linear", "difference") else None
    return found is not None and most_edges * _reach(found) <= MOST


def _starts(program: Program) -> dict[str, Range]:
    found = {}
    for prop in program.properties.values():
        if prop.role == "state" and prop.dtype == "float" and isinstance(prop.start, (int, float)):
            start = _constant(float(prop.start))
            if start is not None:
                found[prop.name] = start
    return found


def _written(program: Program) -> list[tuple[str, Expression | None]]:
    """Return the expressions that stages write to float properties, in order.

    The expression is None for a reduction, and for a temporary that is read before it is written (as in lowered
    programs) and therefore has no value at first.
    """
    found: list[tuple[str, Expression | None]] = []
    early: set[str] = set()
    for stage in program.stages:
        early |= {name for _, name in reads(stage)} - {name for name, _ in found}
        match stage:
            case VertexStep():
                found += stage.values
            case EdgeUpdate():
                found.append((stage.updates, stage.value))
            case EdgeStep():
                found += [(name, value) for _, name, value in stage.values]
            case _:
                found.append((stage.into, None))
    properties = program.properties
    empty = {name for name in early if properties[name].role == "temporary"}
    return [(name, None if name in empty else value) for name, value in found if properties[name].dtype == "float"]


def _range(node: Expression, args: Sequence[Range | None], ranges: Mapping[str, Range]) -> Range | None:
    if node.op == "const":
        return _constant(float(node.attribute))
    if node.op == "read":
        return ranges.get(node.attribute[1])
    numbers = [arg for arg in args if arg is not None]
    if len(numbers) < len(args):
        return None
    match node.op, numbers:
        case ["float" | "full", [one]]:
            return one
        case "neg", [(low, high)]:
            return -high, -low
        case "where", [_, one, other]:
            return _hull(one, other)
        case "add", [one, other]:
            return one[0] + other[0], one[1] + other[1]
        case "sub", [one, other]:
            return one[0] - other[1], one[1] - other[0]
        case "mul", [one, other]:
            products = [a * b for a in one for b in other]
            return min(products), max(products)
        case "min", [one, other]:
            return min(one[0], other[0]), min(one[1], other[1])
        case "max", [one, other]:
            return max(one[0], other[0]), max(one[1], other[1])
    return None


def _constant(value: float) -> Range | None:
    return _within((int(value), int(value))) if value.is_integer() else None


def _hull(one: Range, other: Range) -> Range:
    return min(one[0], other[0]), max(one[1], other[1])


def _reach(found: Range) -> int:
    """Return the largest magnitude of a value in a range, or of a difference of two."""
    low, high = found
    return max(-low, high, high - low)


def _within(found: Range | None) -> Range | None:
    return found if found is not None and _reach(found) <= MOST else None
