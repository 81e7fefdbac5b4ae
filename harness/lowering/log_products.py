"""Products as sums of logarithms: a program whose reductions are sums, minima and maxima alone.

A product over in-edges becomes three sums: of the logarithms of the factors' magnitudes (zero factors left out), of
the number of zero factors, and of the number of negative ones; a vertex step makes the product of them again, and what
is read :meth:`without` a factor subtracts that factor's share. So every engine that sums can multiply, a hub of 10^5
factors leaves the range of no float, and what is taken out is never divided by.

A product of vectors is known up to a positive factor per vertex (``harness.language.products``). Logarithms are
therefore shifted to mean zero over the features, which keeps their sums small: the belief at a hub of 10^5 factors is
then good to about 4e-5 in float32.
"""

from __future__ import annotations

import dataclasses
import math

from harness.language.expressions import Expression, arithmetic, read, substitute
from harness.language.operators import absolute, exp, full, largest, log, total, where
from harness.language.program import EdgeReduce, EdgeUpdate, Program, Property, Role, Stage, VertexStep

PARTS = ("log", "zeros", "negatives")


def shares(factor: Expression) -> tuple[Expression, ...]:
    """What one factor adds to the three sums."""
    zero = factor == 0.0
    magnitude = where(zero, 0.0, log(where(zero, 1.0, absolute(factor))))
    if factor.shape:
        magnitude = magnitude - total(magnitude) / total(full(factor.shape, 1.0))
    return magnitude, where(zero, 1.0, 0.0), where(factor < 0.0, 1.0, 0.0)


def product(sums: tuple[Expression, ...]) -> Expression:
    """The product that three sums stand for; of vectors, scaled to a largest magnitude of 1."""
    logs, zeros, negatives = sums
    masked = where(zeros > 0.5, float("-inf"), logs)
    if logs.shape:
        top = largest(masked)
        masked = masked - where(top > float("-inf"), top, 0.0)
    odd = negatives - 2.0 * arithmetic("floor", negatives * 0.5) > 0.5
    return where(odd, -exp(masked), exp(masked))


def products_as_sums(program: Program) -> Program:
    """The program with every product written as sums; the same program where there is none."""
    reduced = {s.into: s for s in program.stages if isinstance(s, EdgeReduce) and s.reducer == "prod"}
    if not reduced:
        return program
    properties = dict(program.properties)
    for name, reduction in reduced.items():
        for part, start in zip(PARTS, _starts(program.properties[name]), strict=True):
            role: Role = "temporary" if start is None else "state"
            properties[f"{name}_{part}"] = Property(
                f"{name}_{part}", "vertex", reduction.message.shape, role=role, start=start
            )
    stages: list[Stage] = []
    for stage in program.stages:
        plain = _without_as_difference(stage, reduced)
        if isinstance(plain, EdgeReduce) and plain.reducer == "prod":
            stages += _sums(plain)
        else:
            stages.append(plain)
    return dataclasses.replace(program, properties=properties, stages=tuple(stages))


def _starts(product: Property) -> tuple[float | None, ...]:
    """What the sums are before the first superstep, where the product starts as a constant: the shares of that one
    factor."""
    value = product.start
    if not isinstance(value, (int, float)):
        return (None, None, None)
    magnitude = 0.0 if product.shape or value == 0 else math.log(abs(value))
    return magnitude, float(value == 0), float(value < 0)


def _sums(stage: EdgeReduce) -> list[Stage]:
    """The three sums of a product, and the step that multiplies them out."""
    found: list[Stage] = []
    for part, share in zip(PARTS, shares(stage.message), strict=True):
        found.append(EdgeReduce(f"{stage.name}_{part}", f"{stage.into}_{part}", "sum", share, stage.line))
    sums = _read_sums("v", stage.into, stage.message)
    writes: list[tuple[str, Expression]] = []
    if stage.initial is not None:
        own = shares(read("v", stage.initial.attribute[1], stage.message.shape, "float"))
        sums = tuple(a + b for a, b in zip(sums, own, strict=True))
        writes = [(f"{stage.into}_{part}", value) for part, value in zip(PARTS, sums, strict=True)]
    found.append(VertexStep(f"{stage.name}_product", ((stage.into, product(sums)), *writes), stage.line))
    return found


def _read_sums(space: str, name: str, like: Expression) -> tuple[Expression, ...]:
    return tuple(read(space, f"{name}_{part}", like.shape, "float") for part in PARTS)


def _without_as_difference(stage: Stage, reduced: dict[str, EdgeReduce]) -> Stage:
    """The stage with every ``product.without(factor)`` written as a difference of sums."""

    def replace(node: Expression) -> Expression | None:
        if node.op != "without" or node.args[0].attribute[1] not in reduced:
            return None
        space, name = node.args[0].attribute
        taken = shares(substitute(node.args[1], replace))
        whole = _read_sums(space, name, node)
        return product(tuple(a - b for a, b in zip(whole, taken, strict=True)))

    match stage:
        case EdgeReduce():
            return dataclasses.replace(stage, message=substitute(stage.message, replace))
        case EdgeUpdate():
            return dataclasses.replace(stage, value=substitute(stage.value, replace))
        case VertexStep():
            values = tuple((name, substitute(value, replace)) for name, value in stage.values)
            return dataclasses.replace(stage, values=values)
    return dataclasses.replace(stage, value=substitute(stage.value, replace))
