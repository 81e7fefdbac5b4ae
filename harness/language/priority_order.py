"""Programs of paths whose values may be found in order of priority, and the condition on their inputs.

In a program that only tightens values (:mod:`harness.language.monotone`), every order of relaxations ends at the same
fixed point: if each message increases with its source's value, a relaxation never makes a later one worse than it was
before. If no message is better than its source's value, a vertex with the best value of all that have not sent yet is
final, so that an order near to that of the values sends few messages twice (Dijkstra 1959). The second condition may
depend on the inputs, such as lengths that are not negative. It is proved for their ranges by interval arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from harness.language.analysis import compose
from harness.language.expressions import Expression, walk
from harness.language.message_bounds import message_bound
from harness.language.program import EdgeReduce, Program, VertexStep, reads

Range: TypeAlias = tuple[float, float]
Ranges: TypeAlias = Mapping[str, Range]
NOTHING_KNOWN: Range = (-math.inf, math.inf)


@dataclass(frozen=True, eq=False)
class PriorityOrder:
    """The form of a program whose values may be found in order of priority.

    ``state``: the vertex property, which is the output. ``reduction``: its messages read that property of the source,
    ``inputs`` (scalar edge properties) and ``parameters``. ``sign``: 1 if the least value is the best, -1 if the
    largest is.
    """

    state: str
    reduction: EdgeReduce
    sign: int
    inputs: tuple[str, ...]
    parameters: tuple[str, ...]

    @property
    def message(self) -> Expression:
        """The message, a function of the source's value for each feature alone."""
        return self.reduction.message

    def refusal(self, ranges: Ranges) -> str:
        """Return why a message may be better than its source's value; empty if none can be.

        ``ranges``: the least and the largest value of each input and parameter.
        """
        if _no_better(self.message, self.sign, ranges):
            return ""
        known = ", ".join(f"{name!r} from {low:g} to {high:g}" for name, (low, high) in sorted(ranges.items()))
        met = f"with {known} " if known else ""
        return f"{met}a message of {self.reduction.name} may be better than the value of its source"


def priority_order(program: Program) -> PriorityOrder | str:
    """Return the form of a program whose values may be found in order of priority, or the reason why it has none.

    Requirements on inputs are checked later, by :meth:`PriorityOrder.refusal`. Here each is taken as zero.
    """
    reducers = {stage.reducer for stage in program.stages if isinstance(stage, EdgeReduce)}
    for other in sorted(reducers - {"min", "max"}):
        return f"{program.name} reduces by {other}, of which every message counts"
    bound = message_bound(program)
    if isinstance(bound, str):
        return bound
    stage, state = bound.reduction, bound.state
    used = {name for space, name in reads(stage.message) if space == "edge"}
    parameters = {node.attribute for node in walk(stage.message) if node.op == "param"}
    order = PriorityOrder(state, stage, bound.way.sign, tuple(sorted(used)), tuple(sorted(parameters)))
    return _refusal(program, order) or order.refusal(dict.fromkeys((*used, *parameters), (0.0, 0.0))) or order


def _refusal(program: Program, order: PriorityOrder) -> str:
    stage, state = order.reduction, order.state
    if program.setup or program.earlier is not None:
        return f"{program.name} has stages that run before its supersteps"
    if not program.control.settles or program.outputs != (state,):
        return f"{program.name} gives more than the values of its fixed point"
    steps = [one for one in program.stages if isinstance(one, VertexStep)]
    value = dict(compose(steps))[state]
    read = {tuple(arg.attribute) for arg in value.args if arg.op == "read"}
    if value.op not in ("min", "max") or read != {("v", state), ("v", stage.into)}:
        return f"{program.name} does more than to compare a vertex with its messages"
    for space, name in reads(stage.message):
        prop = program.properties[name]
        if (space, name) != ("src", state) and (space != "edge" or prop.shape or prop.dtype != "float"):
            return f"the message of {stage.name} reads {name!r}, which is no number of an edge"
    return ""


def fold(
    node: Expression, leaf: Callable[[Expression], Any], operators: Mapping[str, Callable[[Any, Any], Any]]
) -> Any:
    """Return the value of a message in some algebra: ``leaf`` gives that of a property, a parameter or a constant,
    ``operators`` those of add, sub, mul, min and max."""
    if node.op in operators:
        first, second = (fold(arg, leaf, operators) for arg in node.args)
        return operators[node.op](first, second)
    return leaf(node)


def _no_better(node: Expression, sign: int, ranges: Ranges) -> bool:
    """Return whether it is proved that the value of ``node`` is never better than that of the source."""
    if node.op in ("min", "max"):
        every = (node.op == "min") == (sign > 0)
        return (all if every else any)(_no_better(arg, sign, ranges) for arg in node.args)
    if node.op == "add":
        return any(_no_better(a, sign, ranges) and _worse(b, sign, ranges) for a, b in (node.args, node.args[::-1]))
    if node.op == "sub":
        return _no_better(node.args[0], sign, ranges) and _worse(node.args[1], -sign, ranges)
    return node.op == "read" and node.attribute[0] == "src"


def _worse(node: Expression, sign: int, ranges: Ranges) -> bool:
    """Return whether adding ``node`` makes no value better."""
    low, high = fold(node, lambda one: _range(one, ranges), INTERVALS)
    return bool(low >= 0 if sign > 0 else high <= 0)


def _range(node: Expression, ranges: Ranges) -> Range:
    if node.op == "const":
        return float(node.attribute), float(node.attribute)
    name = node.attribute if node.op == "param" else node.attribute[1]
    return NOTHING_KNOWN if node.op == "read" and node.attribute[0] == "src" else ranges[name]


def _known(low: float, high: float) -> Range:
    return NOTHING_KNOWN if math.isnan(low) or math.isnan(high) else (low, high)


def _products(a: Range, b: Range) -> Range:
    found = [x * y for x in a for y in b]
    return NOTHING_KNOWN if any(math.isnan(one) for one in found) else (min(found), max(found))


INTERVALS: Mapping[str, Callable[[Range, Range], Range]] = {
    "add": lambda a, b: _known(a[0] + b[0], a[1] + b[1]),
    "sub": lambda a, b: _known(a[0] - b[1], a[1] - b[0]),
    "mul": _products,
    "min": lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
    "max": lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
}
