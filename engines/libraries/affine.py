"""Recognition of programs whose superstep is an affine function of one vertex property."""

from __future__ import annotations

from collections.abc import Collection

from harness.api import Criterion, EdgeReduce, EdgeUpdate, Expression, Program

NOT_AFFINE = 2
_KEEP_DEGREE = ("add", "sub", "neg", "sum", "transpose", "index", "full", "stack")
_ADD_DEGREES = ("mul", "dot", "matmul", "outer")


def degree(node: Expression, moving: Collection[str]) -> int:
    """Return the degree of an expression in the properties ``moving``: 0, 1, or NOT_AFFINE, decided by its form."""
    if node.op == "read":
        return int(node.attribute[1] in moving)
    degrees = [degree(argument, moving) for argument in node.args]
    if not any(degrees):
        return 0
    if node.op in _KEEP_DEGREE:
        return max(degrees)
    if node.op in _ADD_DEGREES:
        return min(sum(degrees), NOT_AFFINE)
    if node.op == "div":
        return degrees[0] if degrees[1] == 0 else NOT_AFFINE
    if node.op == "where":
        return max(degrees[1:]) if degrees[0] == 0 else NOT_AFFINE
    return NOT_AFFINE


def state_of(program: Program) -> str:
    """Return the name of the property that a superstep changes, of a program that :func:`not_affine` accepts."""
    return next(prop.name for prop in program.properties.values() if prop.role == "state")


def not_affine(program: Program) -> str:
    """Return why the fixed point of a program is not the solution of a linear system; empty if it is."""
    states = [prop for prop in program.properties.values() if prop.role == "state"]
    if len(states) != 1 or states[0].place != "vertex" or states[0].dtype != "float" or len(states[0].shape) > 1:
        return f"{program.name} does not change one scalar or vector of the vertices"
    criterion = Criterion.of(program)
    if criterion is None or criterion.properties != (states[0].name,) or program.control.alternate:
        return f"{program.name} does not converge to a tolerance that is measured on {states[0].name!r}"
    moving = {states[0].name}
    for stage in program.stages:
        if isinstance(stage, EdgeUpdate):
            return f"{stage.name} updates an edge property"
        found = max(degree(expression, moving) for expression in stage.expressions())
        reducer = getattr(stage, "reducer", "sum")
        if found == NOT_AFFINE or (found and reducer != "sum"):
            return f"{stage.name} is not an affine function of {states[0].name!r}"
        if isinstance(stage, EdgeReduce) and reducer != "sum":
            return f"{stage.name} reduces with {reducer}, which is not a sparse product"
        moving |= set(stage.writes) if found else set()
    outputs = set(program.outputs)
    return "" if outputs == {states[0].name} else f"{program.name} has outputs other than {states[0].name!r}"
