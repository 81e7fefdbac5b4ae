"""Expressions as text in the author's syntax."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "pow": "**", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
          "eq": "==", "ne": "!=", "and": "&", "or": "|", "matmul": "@"}  # fmt: skip
_SPELLING = {"sum": "total", "reduce_max": "largest", "reduce_min": "smallest", "any": "any_feature",
             "all": "all_features", "min": "minimum", "max": "maximum", "abs": "absolute"}  # fmt: skip


class Node(Protocol):
    """A node of an expression, as :class:`harness.language.expressions.Expression` documents it."""

    @property
    def op(self) -> str: ...
    @property
    def args(self) -> Sequence[Node]: ...
    @property
    def attribute(self) -> Any: ...
    @property
    def shape(self) -> tuple[object, ...]: ...


def format_expression(node: Node) -> str:
    """Format an expression in the author's syntax."""
    args = [format_expression(arg) for arg in node.args]
    match node.op:
        case "read":
            space, name = node.attribute
            return f"{'edge.reverse' if space == 'reverse' else space}.{name}"
        case "at":
            return f"v.at({args[0]}).{node.attribute}"
        case "param":
            return f"self.{node.attribute}"
        case "const":
            return _format_constant(node.attribute)
        case op if op in _INFIX:
            return f"({args[0]} {_INFIX[op]} {args[1]})"
        case "neg" | "not":
            return f"{'-' if node.op == 'neg' else '~'}{args[0]}"
        case "index":
            return f"{args[0]}[{node.attribute}]"
        case "transpose":
            return f"{args[0]}.T"
        case "without":
            return f"{args[0]}.without({args[1]})"
        case "normalize":
            return f"normalize({args[0]}, {node.attribute!r})"
        case "eye":
            return f"eye({node.shape[0]})"
        case "full":
            return f"full({node.shape}, {args[0]})"
        case _:
            return f"{_SPELLING.get(node.op, node.op)}({', '.join(args)})"


def _format_constant(value: float | bool) -> str:
    short = f"{value:g}"
    return str(value) if isinstance(value, bool) or float(short) != value else short
