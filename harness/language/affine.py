"""Recognition of programs whose superstep is an affine function of one vertex property: x -> A x + b.

A reduction of messages that are linear in the property, the sums over the graph and the vertex steps make A; all else
makes b. The fixed point of such a program solves (I - A) x = b.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from harness.language.analysis import compose, mutable
from harness.language.criterion import Criterion
from harness.language.expressions import Expression, read, substitute
from harness.language.program import EdgeReduce, EdgeUpdate, GraphReduce, Program, VertexStep, reads

NOT_AFFINE = 2
GATHERED = "gathered by the reduction"  # the property that replaces a reduction's result in :class:`Symmetry`
_KEEP_DEGREE = ("add", "sub", "neg", "sum", "transpose", "index", "full", "stack")
_ADD_DEGREES = ("mul", "dot", "matmul", "outer")
_ELEMENTWISE = ("add", "sub", "neg", "mul", "div", "where", "full")


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


@dataclass(frozen=True, eq=False)
class Symmetry:
    """The form of an affine program whose A is symmetric in a weighted inner product if its coefficients are symmetric.

    A superstep is x(v) = g(v) sum over in-edges (u, v) of c(u, v) x(u) + d(v) x(v) + b(v). If c(u, v) = c(v, u), then
    A is self-adjoint in the inner product whose weights are 1 / g(v), wherever g is positive.

    ``coefficient``: c as read at edges; None: 1 everywhere. ``update``: the new value of x, in which a read of the
    vertex property ``GATHERED`` replaces the sum; g is its value for 1 minus that for 0. ``constant``: the reductions
    over edges that do not depend on x.
    """

    state: str
    coefficient: Expression | None
    update: Expression
    constant: tuple[EdgeReduce, ...]

    @property
    def edges(self) -> tuple[str, ...]:
        """The edge properties that the coefficient reads."""
        return () if self.coefficient is None else tuple(sorted({name for _, name in reads(self.coefficient)}))


def symmetry(program: Program) -> Symmetry | str:
    """Return the symmetric form of an affine program, or the reason why it has none."""
    reason = not_affine(program)
    if reason:
        return reason
    state = state_of(program)
    reductions = [stage for stage in program.stages if isinstance(stage, EdgeReduce)]
    moving = [stage for stage in reductions if degree(stage.message, {state}) > 0]
    over = [s.name for s in program.stages if isinstance(s, GraphReduce) and degree(s.value, {state}) > 0]
    if len(moving) != 1 or over:
        where = f"{over[0]} sums {state!r} over the graph" if over else f"not one reduction over edges takes {state!r}"
        return f"{program.name} is not known to be symmetric: {where}"
    (reduction,) = moving
    last = program.stages.index(reduction)
    steps = [stage for stage in program.stages if isinstance(stage, VertexStep)]
    if any(isinstance(stage, VertexStep) for stage in program.stages[:last]):
        return f"{program.name} is not known to be symmetric: vertex steps come before {reduction.name}"
    found, coefficient = _coefficient(reduction.message, state)
    if not found or any(space != "edge" or mutable(program, name) for space, name in _reads(coefficient)):
        return f"{reduction.name} is not {state!r} of the source times a value of the edge"
    update = dict(compose(steps)).get(state)
    gathered = None if update is None else _with_gathered(update, reduction)
    if gathered is None or not _elementwise(gathered, {GATHERED, state}):
        return f"{program.name} does not multiply the result of {reduction.name} by one number of each vertex"
    constant = tuple(stage for stage in reductions if stage is not reduction)
    return Symmetry(state, coefficient, gathered, constant)


def _reads(node: Expression | None) -> list[tuple[str, str]]:
    return [] if node is None else list(reads(node))


def _is(node: Expression, space: str, name: str) -> bool:
    return node.op == "read" and tuple(node.attribute) == (space, name)


def _coefficient(message: Expression, state: str) -> tuple[bool, Expression | None]:
    """Return whether a message is the state of the source, possibly times something, and this factor."""
    if _is(message, "src", state):
        return True, None
    if message.op in ("mul", "outer"):
        for factor, value in (message.args, message.args[::-1]):
            if _is(value, "src", state) and (message.op == "mul" or value is message.args[1]):
                return True, factor
    return False, None


def _with_gathered(update: Expression, reduction: EdgeReduce) -> Expression | None:
    """Replace the result of a reduction, or its product with a constant vector; None if reads of it remain."""
    wide = len(reduction.message.shape) == 2

    def gathered(node: Expression) -> Expression | None:
        if wide and node.op == "matmul" and _is(node.args[1], "v", reduction.into) and not _reads(node.args[0]):
            return read("v", GATHERED, node.shape, "float")
        if not wide and _is(node, "v", reduction.into):
            return read("v", GATHERED, node.shape, "float")
        return None

    found = substitute(update, gathered)
    return None if any(name == reduction.into for _, name in reads(found)) else found


def _elementwise(node: Expression, names: set[str]) -> bool:
    """Return whether an expression treats every feature of the properties ``names`` for itself."""
    if degree(node, names) == 0 or node.op == "read":
        return True
    return node.op in _ELEMENTWISE and all(_elementwise(argument, names) for argument in node.args)


__all__ = ["GATHERED", "NOT_AFFINE", "Symmetry", "degree", "not_affine", "state_of", "symmetry"]
