"""Products as sums of logarithms: rewrite a program so that its only reductions are sums, minima and maxima.

A product over in-edges becomes three sums: of the logarithms of the magnitudes of its non-zero factors, of the number
of zero factors, and of the number of negative ones. The last is left out if the program promises that there are none. A
vertex step computes the product from them, and a read :meth:`without` a factor subtracts that factor's share.
Therefore every engine that sums can multiply, a hub of 10^5 factors stays within the range of a float, and nothing is
divided by a factor that is taken out.

Along edges, most factors that are taken out of a product are not zero. They need only its *masked* logarithms, minus
infinity if a factor is zero, which the vertex step also keeps. The sums themselves are read only if the factor has a
zero (``masked``, if a back end computes only the chosen side of a ``where``).

A product of vectors is known up to a positive factor per vertex (``harness.language.products``). Logarithms are
therefore shifted to mean zero over the features, which keeps their sums small: the belief at a hub of 10^5 factors is
then accurate to about 4e-5 in float32.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Mapping, Sequence

from harness.language.expressions import Expression, arithmetic, read, substitute, walk
from harness.language.operators import absolute, exp, full, largest, total, where
from harness.language.program import (
    EdgeReduce,
    EdgeStep,
    EdgeUpdate,
    Program,
    Property,
    Role,
    Stage,
    VertexReduce,
    VertexStep,
    reads,
)
from harness.lowering.accumulators import unused

PARTS = ("log", "zeros", "negatives")
SELDOM = "seldom"  # the attribute of a ``where`` whose first side is seldom chosen, and correct everywhere
POSITIVE = "positive"  # the attribute of a logarithm of a value that is always positive


def shares(factor: Expression, parts: Collection[str]) -> tuple[Expression, ...]:
    """Return the terms that one factor adds to the sums; it is nonnegative if *negatives* is not among them."""
    zero, signed = factor == 0.0, "negatives" in parts
    positive = where(zero, 1.0, absolute(factor) if signed else factor)
    magnitude = Expression("log", (positive,), shape=positive.shape, attribute=POSITIVE)
    if factor.shape:
        magnitude = magnitude - total(magnitude) * (1.0 / total(full(factor.shape, 1.0)))
    counted = (where(factor < 0.0, 1.0, 0.0),) if signed else ()
    return magnitude, where(zero, 1.0, 0.0), *counted


def product(sums: tuple[Expression, ...]) -> Expression:
    """Return the product that the sums represent; of vectors, scaled to a largest magnitude of 1."""
    logs, zeros, *signs = sums
    return _powers(mask(logs, zeros), signs)


def _powers(masked: Expression, signs: Sequence[Expression]) -> Expression:
    if masked.shape:
        top = largest(masked)
        masked = masked - where(top > float("-inf"), top, 0.0)
    if not signs:
        return exp(masked)
    odd = signs[0] - 2.0 * arithmetic("floor", signs[0] * 0.5) > 0.5
    return where(odd, -exp(masked), exp(masked))


def mask(logs: Expression, zeros: Expression) -> Expression:
    """Return minus infinity where a factor is zero, else the logarithms."""
    return where(zeros > 0.5, float("-inf"), logs)


def products_as_sums(program: Program, *, masked: bool = False) -> Program:
    """Return the program with every product written as sums; the same program if there is none.

    ``masked``: masked logarithms are kept too, of vector products from which factors are taken out.
    """
    reduced = {s.into: s for s in program.stages if isinstance(s, EdgeReduce) and s.reducer == "prod"}
    if not reduced:
        return program
    properties = dict(program.properties)
    parts: dict[str, dict[str, str]] = {}
    for name, reduction in reduced.items():
        parts[name] = {part: unused(f"{name}_{part}", properties) for part in _parts(program, reduction)}
        for own, start in zip(parts[name].values(), _starts(program.properties[name]), strict=False):
            role: Role = "temporary" if start is None else "state"
            properties[own] = Property(own, "vertex", reduction.message.shape, role=role, start=start)
    kept = {name: unused(f"{name}_masked", properties) for name in reduced if masked and _taken_out(program, name)}
    for name, own in kept.items():
        logs, zeros = (properties[parts[name][part]] for part in PARTS[:2])
        properties[own] = dataclasses.replace(logs, name=own, start=-math.inf if zeros.start == 1.0 else logs.start)
    stages: list[Stage] = []
    for stage in program.stages:
        plain = _without_as_difference(stage, parts, kept)
        if isinstance(plain, EdgeReduce) and plain.reducer == "prod":
            stages += _sums(plain, parts[plain.into], kept.get(plain.into), properties)
        else:
            stages.append(plain)
    return dataclasses.replace(program, properties=properties, stages=tuple(stages))


def _parts(program: Program, reduction: EdgeReduce) -> tuple[str, ...]:
    """Return the sums of a product.

    Signs need not be counted if every factor that is put in or taken out, and the start, is read from a nonnegative
    property.
    """
    nodes = [node for stage in program.stages for node in walk(*stage.expressions()) if node.op == "without"]
    taken = [node.args[1] for node in nodes if node.args[0].attribute[1] == reduction.into]
    factors = [*reduction.expressions(), *taken]
    read_alone = all(f.op == "read" and program.properties[f.attribute[1]].nonnegative for f in factors)
    start = program.properties[reduction.into].start
    whole = isinstance(start, str) or (start is not None and start < 0)
    return PARTS[:2] if read_alone and not whole else PARTS


def _taken_out(program: Program, name: str) -> bool:
    """Return whether factors are taken out of a product of vectors."""
    nodes = [node for stage in program.stages for node in walk(*stage.expressions()) if node.op == "without"]
    return any(node.args[0].attribute[1] == name and len(node.shape) == 1 for node in nodes)


def _starts(product: Property) -> tuple[float | None, ...]:
    """Return the sums before the first superstep if the product starts as a constant: the shares of that one factor."""
    value = product.start
    if not isinstance(value, (int, float)):
        return (None, None, None)
    magnitude = 0.0 if product.shape or value == 0 else math.log(abs(value))
    return magnitude, float(value == 0), float(value < 0)


def _sums(
    stage: EdgeReduce, parts: Mapping[str, str], masked: str | None, properties: dict[str, Property]
) -> list[Stage]:
    """Return the sums of a product, and the step that multiplies them out.

    A message that reads the sums reads those of the previous superstep. They are then computed separately, and the step
    writes them all.
    """
    apart = bool({*parts.values(), masked} & {name for _, name in reads(stage)})
    into = {part: unused(f"{own}_made", properties) if apart else own for part, own in parts.items()}
    found: list[Stage] = []
    for (part, own), share in zip(into.items(), shares(stage.message, parts), strict=True):
        properties.setdefault(own, Property(own, "vertex", stage.message.shape))
        found.append(EdgeReduce(f"{stage.name}_{part}", own, "sum", share, stage.line))
    sums = _read_sums("v", into, stage.message)
    if stage.initial is not None:
        own_shares = shares(read("v", stage.initial.attribute[1], stage.message.shape, "float"), parts)
        sums = tuple(a + b for a, b in zip(sums, own_shares, strict=True))
    again = apart or stage.initial is not None
    writes: list[tuple[str, Expression]] = list(zip(parts.values(), sums, strict=True)) if again else []
    if masked:
        writes.append((masked, mask(*sums[:2])))
    found.append(VertexStep(f"{stage.name}_product", ((stage.into, product(sums)), *writes), stage.line))
    return found


def _read_sums(space: str, parts: Mapping[str, str], like: Expression) -> tuple[Expression, ...]:
    return tuple(read(space, own, like.shape, "float") for own in parts.values())


def _left(sums: Sequence[Expression], taken: Sequence[Expression], masked: Expression, zero: Expression) -> Expression:
    """Return a product that is kept masked, without one factor that is seldom ``zero`` anywhere."""
    logs, zeros, *signs = (a - b for a, b in zip(sums, taken, strict=True))
    sides = where(zero, mask(logs, zeros), masked - taken[0])
    return _powers(Expression(sides.op, sides.args, shape=sides.shape, attribute=SELDOM), signs)


def _without_as_difference(stage: Stage, parts: Mapping[str, Mapping[str, str]], kept: Mapping[str, str]) -> Stage:
    """Return the stage with every ``product.without(factor)`` written as a difference of sums.

    ``kept``: the properties that hold the masked logarithms of products.
    """

    def replace(node: Expression) -> Expression | None:
        if node.op != "without" or node.args[0].attribute[1] not in parts:
            return None
        space, name = node.args[0].attribute
        factor = substitute(node.args[1], replace)
        taken, sums = shares(factor, parts[name]), _read_sums(space, parts[name], node)
        if name in kept:
            return _left(sums, taken, read(space, kept[name], node.shape, "float"), factor == 0.0)
        return product(tuple(a - b for a, b in zip(sums, taken, strict=True)))

    match stage:
        case EdgeReduce():
            return dataclasses.replace(stage, message=substitute(stage.message, replace))
        case EdgeUpdate():
            return dataclasses.replace(stage, value=substitute(stage.value, replace))
        case VertexStep():
            values = tuple((name, substitute(value, replace)) for name, value in stage.values)
            return dataclasses.replace(stage, values=values)
        case EdgeStep() | VertexReduce():
            return stage  # reads no aggregate without a factor
    return dataclasses.replace(stage, value=substitute(stage.value, replace))
