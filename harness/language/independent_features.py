"""Programs in which the k features are independent: feature j of every value depends only on feature j of the inputs.

Such a program can run for a *panel* of features at a time: the answer for some columns of the inputs is the same as
those columns of the answer for all of them. The analysis reads the expressions of all stages. The features are the last
dimension of a value. Elementwise operations keep them apart, and so do sums, minima and maxima over edges or vertices.
Reductions over features, matrix products that sum over features, k x k matrices, and products over edges, which are
scaled by their largest feature (:mod:`harness.language.products`), do not. No operation of the language yields the
number of a feature, except in a k x k matrix.
"""

from __future__ import annotations

from typing import Final

from harness.language.expressions import ELEMENTWISE, REDUCTIONS, Expression, K, Shape, walk
from harness.language.program import SUPERSTEP, EdgeStep, Program, reads

# Operations that move whole rows of features, or none; shapes are checked for all operations.
_KEEPS_APART: Final = frozenset(
    ["const", "param", "read", "at", "without", "index", "stack", "full", "outer", "transpose", "eye", "solve_spd",
     "inverse"]
)  # fmt: skip
_INNER_PRODUCTS: Final = frozenset(["dot", "matmul", "max_product"])


def independent_features(program: Program) -> str:
    """Return why the features of a program are not independent; empty if they are.

    The stages that run once are included, an earlier phase is not. Programs without a vector of k features have none.
    """
    if not any(K in prop.shape for prop in program.properties.values()):
        return f"no value of {program.name} has an entry for each feature"
    for prop in program.properties.values():
        if K in prop.shape[:-1]:
            return f"{prop.name!r} has the shape {_text(prop.shape)}, whose rows belong to different features"
    for stage in (*program.setup, *program.stages):
        for node in walk(*stage.expressions()):
            reason = _mixes(node)
            if reason:
                return f"{stage.name} {reason}"
        if getattr(stage, "reducer", None) == "prod" and K in program.properties[stage.writes[0]].shape:
            return f"{stage.name} scales its products by their largest feature"
    return ""


def not_in_panels(program: Program) -> str:
    """Return why a program cannot run for one panel of features after the other; empty if it can.

    Its features are independent, and a panel may be left and continued later, from the values of its properties. A
    panel settles by the criterion of the program over its own features. Both norms require it of every feature, so that
    a run has settled if all panels have (:mod:`harness.language.criterion`). Without a tolerance nothing moves in a
    settled panel, and more supersteps would change nothing. With one, features that settle early take fewer supersteps
    than in a run of all features, as they would in a run of only these features. Values without features must then not
    change, because they would be those of different supersteps.
    """
    reason = independent_features(program)
    if reason:
        return reason
    if program.control.alternate:
        return "supersteps update the two sides of the graph in turn, and a continued panel begins with the left one"
    for stage in program.stages:
        if isinstance(stage, EdgeStep):
            return f"{stage.name} updates both ends of edges in place, in an order that may differ between panels"
        if any(name == SUPERSTEP for _, name in reads(stage)):
            return f"{stage.name} reads the number of the superstep, which begins again when a panel is continued"
        if getattr(stage, "reducer", None) == "prod" and program.properties[stage.writes[0]].role == "state":
            return f"{stage.name} keeps a product, whose factors are not known when a panel is continued"
    for prop in program.properties.values():
        if program.control.settles and prop.role == "state" and K not in prop.shape:
            return f"{prop.name!r} has no features and changes during a run, and panels settle in different supersteps"
    return ""


def _mixes(node: Expression) -> str:
    """Return how a node combines different features; empty if it does not."""
    shapes = [node.shape, *(arg.shape for arg in node.args)]
    for shape in shapes:
        if K in shape[:-1]:
            return f"has a value of the shape {_text(shape)}, whose rows belong to different features"
    if node.op in REDUCTIONS:
        return f"reduces over features ({node.op})" if K in node.args[0].shape else ""
    if node.op == "normalize":
        return f"normalises over features ({node.attribute})" if node.shape[-1] is K else ""
    if node.op in _INNER_PRODUCTS:
        return f"sums over features ({node.op})" if node.args[0].shape[-1] is K else ""
    if node.op in ELEMENTWISE or node.op in _KEEPS_APART:
        return ""
    return f"uses {node.op}, of which it is not known whether it combines features"


def _text(shape: Shape) -> str:
    return " x ".join("k" if dim is K else str(dim) for dim in shape)


def row_of_features(shape: Shape) -> bool:
    """Return whether a value has a row for the features: its last dimension is k."""
    return bool(shape) and shape[-1] is K


__all__ = ["independent_features", "not_in_panels", "row_of_features"]
