"""Reads and reductions at named vertices in generated CUDA C++ (:mod:`harness.language.named_vertices`)."""

from __future__ import annotations

from collections.abc import Sequence

from harness.language.expressions import Expression, read, substitute
from harness.language.program import VertexReduce
from harness.lowering.cuda.kernels import CudaKernelBuilder


def located(builder: CudaKernelBuilder, values: Sequence[Expression], block: str) -> list[Expression]:
    """Return values in which reads at named vertices are reads of spaces that are bound in ``block``.

    Statements that select the vertices are added to the block, whose own vertex is ``v``. No vertex becomes ``v``.
    """
    spaces: dict[str, str] = {}

    def replace(node: Expression) -> Expression | None:
        if node.op != "at":
            return None
        number = substitute(node.args[0], replace)
        if number.key not in spaces:
            space = spaces[number.key] = builder.mapping.fresh("named")
            text = builder.mapping.lower(number).text
            index = f"{names_one(builder, text)} ? Id({text}) : Id(v)"
            builder.bind(space, block, builder.blocks[block].declare("Id", space, index))
        return read(spaces[number.key], node.attribute, node.shape, node.dtype)

    return [substitute(value, replace) for value in values]


def reduce_at_named(builder: CudaKernelBuilder, stage: VertexReduce, block: str) -> None:
    """Reduce, atomically, a value of vertex ``v`` in ``block`` into the vertex that it names."""
    builder.bind("v", builder.read_in(block), "v")
    builder.comment(block, stage)
    message, at = located(builder, [stage.message, stage.at], block)
    builder.mapping.lower(message)
    number = builder.mapping.lower(at).text
    builder.blocks[block].line(f"if ({names_one(builder, number)}) {{")
    builder.reduce_into(f"vertex_{stage.into}", f"Id({number})", message, stage.reducer, block)
    builder.blocks[block].line("}")


def names_one(builder: CudaKernelBuilder, number: str) -> str:
    """Return the condition that a number, the text of a float, names a vertex."""
    return f"({number} >= 0.0f && {number} < {builder.mapping.lower(read('graph', 'num_vertices', (), 'float')).text})"
