"""Recognising reductions that are sparse matrix products: a sum of ``coefficient(dst, edge) * dense(src)``."""

from __future__ import annotations

from dataclasses import dataclass

from harness.api import EdgeReduce, Expression, Program, constant, mutable, reads


@dataclass(frozen=True)
class Product:
    """``into(v) = sum over in-edges of coefficient * dense(u)``: a scalar of constants times a value of the source."""

    coefficient: Expression
    dense: Expression


def as_product(program: Program, stage: EdgeReduce) -> Product | str:
    """The product that a reduction is, or why it is none."""
    if stage.reducer != "sum":
        return f"{stage.name} reduces with {stage.reducer}, which is no sparse product"
    found = factors(program, stage.message)
    if found is None:
        return f"the message of {stage.name} is not a constant of the edge times a value of its source"
    return found


def _spaces(node: Expression) -> set[str]:
    return {space for space, _ in reads(node)}


def of_constants(program: Program, node: Expression) -> bool:
    """Whether a value of an arc or its destination stays the same throughout a run."""
    return _spaces(node) <= {"edge", "dst"} and not any(mutable(program, name) for _, name in reads(node))


def of_source(node: Expression) -> bool:
    """Whether a value is its source's alone."""
    return _spaces(node) <= {"src"}


def factors(program: Program, node: Expression, *, vectors: bool = False) -> Product | None:
    """A message as a coefficient times a dense value, if it is that; ``vectors``: not of scalar coefficients alone."""
    if of_source(node):
        return Product(constant(1.0), node)
    if (vectors or not node.shape) and of_constants(program, node):
        return Product(node, constant(1.0))
    if node.op == "neg":
        inner = factors(program, node.args[0], vectors=vectors)
        return None if inner is None else Product(inner.coefficient, -inner.dense)
    if node.op in ("mul", "div"):
        left, right = (factors(program, side, vectors=vectors) for side in node.args)
        if left is None or right is None:
            return None
        if node.op == "div":
            return Product(left.coefficient / right.coefficient, left.dense / right.dense)
        return Product(left.coefficient * right.coefficient, left.dense * right.dense)
    return None
