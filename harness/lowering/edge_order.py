"""Edges in order of their sources, in any storage order of their values.

If all edges pair, rows of CSR and CSC list the same vertices: the j-th out-edge in a CSR row is the reverse of the j-th
in-edge in the same CSC row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from harness.language.analysis import mutable
from harness.language.expressions import Expression, read, substitute
from harness.language.program import Program

if TYPE_CHECKING:
    from harness.graph import Graph


def places(graph: Graph) -> NDArray[np.unsignedinteger]:
    """Return the position in the CSC of each edge of the CSR, [E]; if all edges pair, this permutation is its own
    inverse.
    """
    in_edge_ids = graph.in_edge_ids
    if graph.has_reverse_edges:
        return in_edge_ids
    found = np.empty_like(in_edge_ids)
    found[in_edge_ids] = np.arange(len(found), dtype=found.dtype)
    return found


def constants_by_source(program: Program, value: Expression) -> Expression:
    """Return the value with constant edge properties read from the space ``given``.

    That space is in CSR order, in which the values of a row are contiguous.
    """

    def replace(node: Expression) -> Expression | None:
        if node.op == "read" and node.attribute[0] == "edge" and not mutable(program, node.attribute[1]):
            return read("given", node.attribute[1], node.shape, node.dtype)
        return None

    return substitute(value, replace)
