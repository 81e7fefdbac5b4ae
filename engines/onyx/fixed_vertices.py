"""Vertices that never move: their steps choose a given value by a condition on given values."""

from __future__ import annotations

from collections.abc import Sequence

from harness.api import Expression, Program, mutable, reads


def never_moving(program: Program, writes: Sequence[tuple[str, Expression]]) -> Expression | None:
    """Return the condition under which a vertex has the same values after every superstep; None if there is none.

    ``writes``: what the steps of a vertex write. All of it must be chosen by one condition, and neither that condition
    nor the chosen values may depend on anything that changes during a run (label propagation: the known labels).
    """
    conditions = {value.args[0].key: value.args[0] for _, value in writes if value.op == "where"}
    if len(conditions) != 1 or any(value.op != "where" for _, value in writes):
        return None
    (condition,) = conditions.values()
    given = [condition, *(value.args[1] for _, value in writes)]
    if condition.shape or not all(_given(program, expression) for expression in given):
        return None
    return condition if reads(condition) else None


def _given(program: Program, expression: Expression) -> bool:
    return all(space == "v" and not mutable(program, name) for space, name in reads(expression))
