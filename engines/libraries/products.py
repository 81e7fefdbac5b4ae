"""Recognition of reductions that are sparse matrix products: a sum of ``coefficient(dst, edge) * dense(src)``."""

from __future__ import annotations

from dataclasses import dataclass

from harness.api import EdgeReduce, Expression, Program, constant, mutable, reads, walk

_UNBOUNDED = ("div", "log", "exp", "pow", "sqrt")  # operators whose result may be infinite or undefined


@dataclass(frozen=True)
class Product:
    """``into(v) = sum over in-edges of coefficient * dense(u)``: a constant scalar times a value of the source."""

    coefficient: Expression
    dense: Expression


def as_product(program: Program, stage: EdgeReduce) -> Product | str:
    """Return a reduction as a product, or the reason why it is not one."""
    if stage.reducer != "sum":
        return f"{stage.name} reduces with {stage.reducer}, which is not a sparse product"
    found = factors(program, stage.message)
    if found is None:
        return f"the message of {stage.name} is not a constant of the edge times a value of its source"
    return found


def _spaces(node: Expression) -> set[str]:
    return {space for space, _ in reads(node)}


def of_constants(program: Program, node: Expression) -> bool:
    """Return whether a value of an edge or its destination is constant during a run."""
    return _spaces(node) <= {"edge", "dst"} and not any(mutable(program, name) for _, name in reads(node))


def _constant(program: Program, node: Expression) -> bool:
    """Return whether a value of an edge or its ends is constant during a run."""
    return _spaces(node) <= {"edge", "src", "dst"} and not any(mutable(program, name) for _, name in reads(node))


def of_source(node: Expression) -> bool:
    """Return whether a value depends only on the source."""
    return _spaces(node) <= {"src"}


def factors(program: Program, node: Expression, *, vectors: bool = False, masked: bool = False) -> Product | None:
    """Return a message as a coefficient times a dense value; None if it is not such a product.

    ``vectors``: allow coefficients that are not scalars. ``masked``: some edges send nothing. A product multiplies the
    dense value by 0 there, so it must be finite at every source: what is constant belongs to the coefficient, and a
    message that divides by changing values is no such product.
    """
    if masked and (vectors or not node.shape) and _constant(program, node):
        return Product(node, constant(1.0))
    if of_source(node) and not (masked and any(one.op in _UNBOUNDED for one in walk(node))):
        return Product(constant(1.0), node)
    if (vectors or not node.shape) and of_constants(program, node):
        return Product(node, constant(1.0))
    if node.op == "neg":
        inner = factors(program, node.args[0], vectors=vectors, masked=masked)
        return None if inner is None else Product(inner.coefficient, -inner.dense)
    if node.op == "where" and node.args[2].op == "const" and node.args[2].attribute == 0.0:
        condition, taken, _ = node.args
        inner = factors(program, taken, vectors=vectors, masked=True)
        if inner is None or condition.shape or not of_constants(program, condition):
            return None
        either = (condition, inner.coefficient, constant(0.0))
        return Product(Expression("where", either, shape=inner.coefficient.shape), inner.dense)
    if node.op in ("mul", "div"):
        left, right = (factors(program, side, vectors=vectors, masked=masked) for side in node.args)
        if left is None or right is None:
            return None
        if node.op == "div":
            if masked and any(True for _ in reads(right.dense)):
                return None
            return Product(left.coefficient / right.coefficient, left.dense / right.dense)
        return Product(left.coefficient * right.coefficient, left.dense * right.dense)
    return None
