"""Reads at named vertices in generated code (:mod:`harness.language.named_vertices`)."""

from __future__ import annotations

from collections.abc import Sequence

from harness.language.expressions import Expression, read, substitute
from harness.lowering.cpu.kernels import KernelBuilder


def located(builder: KernelBuilder, values: Sequence[Expression], block: str) -> list[Expression]:
    """Return values in which reads at named vertices are reads of spaces that are bound in ``block``.

    Code that selects the vertices is added to the block, whose own vertex is ``v``. No vertex becomes ``v``.
    """
    spaces: dict[str, str] = {}

    def replace(node: Expression) -> Expression | None:
        if node.op != "at":
            return None
        number = substitute(node.args[0], replace)
        if number.key not in spaces:
            space = spaces[number.key] = builder.mapping.fresh("named")
            text = builder.lower(number).text
            builder.blocks[block].line(f"{space} = int64({text}) if {names_one(builder, text)} else int64(v)")
            builder.bind(space, block, space)
        return read(spaces[number.key], node.attribute, node.shape, node.dtype)

    return [substitute(value, replace) for value in values]


def names_one(builder: KernelBuilder, number: str) -> str:
    """Return the condition that a number, the text of a float32, names a vertex."""
    return f"{number} >= 0 and {number} < {builder.lower(read('graph', 'num_vertices', (), 'float')).text}"
