"""Windows of streamed edges on the CPU, planned from facts: their size, their bytes, and what they cannot hold."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from harness.edge_places import Placement
from harness.facts import GraphFacts
from harness.language.program import EdgeUpdate, Program
from harness.lowering.buffers import Order
from harness.lowering.cpu.buffers import CpuBuffer
from harness.lowering.graph_store import Table
from harness.lowering.packed_sizes import most_window_bytes
from harness.lowering.packed_sizes import refusal as unpackable

IN_MEMORY = 2  # the window that kernels read, and the next one


@dataclass(frozen=True)
class Windows:
    """Windows of ``edges`` edges at most, each of ``edge_bytes`` bytes; ``nbytes``: of those in memory.

    All are 0 unless edges are streamed. ``packed``: ids are; ``room_bytes`` of ``nbytes`` are for those of a window.
    """

    edges: int = 0
    edge_bytes: int = 0
    nbytes: int = 0
    packed: bool = False
    room_bytes: int = 0

    @classmethod
    def of(cls, placement: Placement, facts: GraphFacts, ids: str, buffers: Iterable[CpuBuffer]) -> Self:
        """Return the windows for given edge values in ``buffers``. A kernel reads the arrays of either CSR or CSC."""
        if not placement.window_bytes:
            return cls()
        per_edge = {Order.CSR: 0, Order.CSC: 0}
        for buffer in buffers:
            if buffer.placed and buffer.order is not None:
                per_edge[buffer.order] += buffer.stride * np.dtype(buffer.dtype).itemsize
        edge_bytes = max(per_edge.values()) + (4 if ids == "ids32" else 8)
        edges = max(1, placement.window_bytes // edge_bytes)
        stored = min(edges, facts.num_edges)
        room = most_window_bytes(stored, facts.num_vertices) if placement.packed else 0
        return cls(edges, edge_bytes, IN_MEMORY * stored * edge_bytes + room, placement.packed, room)

    def refusal(self, program: Program, facts: GraphFacts, tables: Iterable[Table[Any]]) -> str:
        """Return why the edges of a program cannot be streamed; empty if they can, or are not to be."""
        if not self.edges:
            return ""
        updated = next((stage for stage in program.stages if isinstance(stage, EdgeUpdate)), None)
        if updated is not None:
            return f"edges=streamed: {updated.name} updates an edge property, and only edges that do not change stream"
        if self.packed and unpackable(facts):
            return unpackable(facts)
        if any(table.of_edges for table in tables):
            return "edges=streamed: the program reads reverse edges, which are in other windows; give edges=mapped"
        largest = max(facts.in_degrees.largest, facts.out_degrees.largest)
        if largest > self.edges:
            wanted = f"give window_mb={-(-largest * self.edge_bytes // 10**6)}"
            return f"edges=streamed: a window has {self.edges:,} edges, and a vertex has {largest:,}; {wanted}"
        return ""
