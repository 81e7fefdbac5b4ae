"""Sums over the vertices of the graph that skip vertices by a condition."""

from __future__ import annotations

from harness.language.expressions import Expression
from harness.language.program import GraphReduce


def summand(stage: GraphReduce) -> tuple[Expression | None, Expression]:
    """Return the condition under which a vertex takes part in a reduction, and its value; None: every vertex does.

    A sum of ``where(condition, value, 0)`` or ``where(condition, 0, value)`` has a condition: at other vertices nothing
    that ``value`` reads need be read.
    """
    value = stage.value
    if stage.reducer != "sum" or value.op != "where" or value.args[0].shape:
        return None, value
    condition, first, second = value.args
    for given, other, taken in ((first, second, condition), (second, first, ~condition)):
        if given.shape == value.shape and _is_zero(other):
            return taken, given
    return None, value


def _is_zero(node: Expression) -> bool:
    if node.op == "full":
        return _is_zero(node.args[0])
    return node.op == "const" and node.attribute == 0.0
