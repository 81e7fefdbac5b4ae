"""Matrices that may be overwritten, because nothing reads them again."""

from __future__ import annotations

from collections.abc import Sequence

from harness.language.expressions import Expression, walk
from harness.lowering.cuda.elements import INLINE


def overwritable(values: Sequence[Expression]) -> frozenset[tuple[str, str]]:
    """Return space and name of the properties, read at a vertex, whose last use is one system of equations.

    Each is read by a single expression, elementwise, and only as part of the matrix of that system.
    """
    nodes = {node.key: node for node in walk(*values)}
    readers: dict[str, list[Expression]] = {key: [] for key in nodes}
    for node in nodes.values():
        for key in {arg.key for arg in node.args}:
            readers[key].append(node)
    wanted = {value.key for value in values}

    def ends(node: Expression) -> bool:
        if node.key in wanted or len(readers[node.key]) != 1:
            return False
        (reader,) = readers[node.key]
        if reader.op == "solve_spd":
            return reader.args[0].key == node.key
        return reader.op in INLINE and ends(reader)

    found = [node for node in nodes.values() if node.op == "read" and node.attribute[0] == "v"]
    return frozenset(node.attribute for node in found if ends(node))
