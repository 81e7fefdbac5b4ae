"""Monotone programs: the direction in which values move, derived from the expressions.

A program *tightens* if all it does is ``x = min(x, aggregate, constants)``, or max. It *peels* if all it does is
``x = where(sum >= c, x, least)``. Such a program moves in one direction from its start, by monotone steps. Therefore it
settles at the same values from every state between its start and its fixed point. A warm start provides such a state.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from harness.language.analysis import (
    change_driven,
    compose,
    depends,
    increasing,
    mutable,
    source_properties,
)
from harness.language.expressions import Expression
from harness.language.program import EdgeReduce, EdgeStep, EdgeUpdate, GraphReduce, Program, VertexStep, reads


@dataclass(frozen=True, eq=False)
class OneWay:
    """The monotone form of a program.

    ``kind``: *tightens* or *peels*. ``state``: the vertex property that moves. ``reduction``: the reduction that moves
    it. ``sign``: 1 if values only decrease, -1 if they only increase. ``least``: the value that peeling assigns.
    """

    kind: Literal["tightens", "peels"]
    state: str
    reduction: EdgeReduce
    sign: int = 1
    least: float = 0.0


def one_way(program: Program) -> OneWay | str:
    """Return the monotone form of a program, or the reason why none is known."""
    reductions = [stage for stage in program.stages if isinstance(stage, EdgeReduce)]
    states = [prop.name for prop in program.properties.values() if prop.role == "state"]
    others = [stage for stage in program.stages if isinstance(stage, (EdgeUpdate, GraphReduce, EdgeStep))]
    if len(reductions) != 1 or len(states) != 1 or others or program.control.alternate or program.names_vertices:
        return f"{program.name} is not one reduction over edges that moves one property"
    (reduction,), (state,) = reductions, states
    if source_properties(program, reduction) != (state,):
        return f"{reduction.name} does not read {state!r} from its sources"
    if reduction.reducer in ("min", "max"):
        forms = change_driven(program)
        sign = 1 if reduction.reducer == "min" else -1
        return forms if isinstance(forms, str) else OneWay("tightens", state, reduction, sign)
    return _peeling(program, state, reduction)


def _peeling(program: Program, state: str, reduction: EdgeReduce) -> OneWay | str:
    """Match ``state = where(aggregate >= constant, state, least)`` with a sum that is nondecreasing in the sources."""
    unknown = f"{program.name} does not keep {state!r} where a sum is large enough and set it to a constant elsewhere"
    steps = [stage for stage in program.stages if isinstance(stage, VertexStep)]
    value = dict(compose(steps)).get(state)
    if reduction.reducer != "sum" or value is None or value.op != "where":
        return unknown
    condition, kept, least = value.args
    grows = increasing(reduction.message, frozenset([state]))
    if not grows or condition.op not in ("ge", "gt") or least.op != "const" or not _is(kept, "v", state):
        return unknown
    aggregate, threshold = condition.args
    constant = all(not mutable(program, name) for _, name in reads(threshold))
    if not constant or not _is(aggregate, "v", reduction.into):
        return unknown
    return OneWay("peels", state, reduction, least=float(least.attribute))


def _is(node: Expression, space: str, name: str) -> bool:
    return node.op == "read" and tuple(node.attribute) == (space, name)


def reaching(program: Program) -> tuple[str, float]:
    """Return the property that a program of paths tightens, and the value of vertices that have not been reached.

    These send nothing: their messages are the identity of the reduction, if other values are finite. The name is empty
    if the program has no such property.
    """
    form = one_way(program)
    if isinstance(form, str) or form.kind != "tightens" or not strictly_increasing(form.reduction.message, form.state):
        return "", math.inf
    return form.state, form.sign * math.inf


def strictly_increasing(message: Expression, name: str) -> bool:
    """Return whether every feature of the message increases strictly with the same feature of ``name``, and with no
    other.

    ``name`` is a property of the source. If so, the edge that supplied a value still supplies it.
    """
    names = frozenset([name])
    if not depends(message, names):
        return False
    args = message.args
    match message.op:
        case "read":
            return True
        case "add":
            return all(strictly_increasing(arg, name) for arg in args if depends(arg, names))
        case "sub":
            return strictly_increasing(args[0], name) and not depends(args[1], names)
        case "mul":
            either = (args, args[::-1])
            return any(a.op == "const" and a.attribute > 0 and strictly_increasing(b, name) for a, b in either)
        case _:
            return False
