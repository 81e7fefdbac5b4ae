"""Edges by their sources, wherever their values lie.

Where all arcs pair, rows of CSR and CSC list the same vertices: the j-th out-arc of the one is the reverse of the j-th
in-arc of the other.
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
    """Where each arc of the CSR is in the CSC, [E]; where all arcs pair, that permutation undoes itself."""
    in_edge_ids = graph.in_edge_ids
    if graph.has_reverse_edges:
        return in_edge_ids
    found = np.empty_like(in_edge_ids)
    found[in_edge_ids] = np.arange(len(found), dtype=found.dtype)
    return found


def constants_by_source(program: Program, value: Expression) -> Expression:
    """The value with constant properties of the edge read from the space ``given``: in the order of the CSR, where
    those of a row lie side by side."""

    def replace(node: Expression) -> Expression | None:
        if node.op == "read" and node.attribute[0] == "edge" and not mutable(program, node.attribute[1]):
            return read("given", node.attribute[1], node.shape, node.dtype)
        return None

    return substitute(value, replace)
