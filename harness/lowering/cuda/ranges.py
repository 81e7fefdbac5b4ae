"""The work of launches: which vertices, edges or other items a kernel processes in a superstep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from harness.lowering.graph_store import Array, GraphStore, Table

Bounds: TypeAlias = tuple[int, int]  # first, last + 1


class Over(Enum):
    """Vertices or edges, by the side of the graph that a superstep updates. The value describes them."""

    VERTICES = "vertices that are updated"
    IN_EDGES = "in-edges of these vertices"
    SOURCES = "sources of these in-edges"
    OUT_EDGES = "edges that leave these sources"
    ALL_VERTICES = "all vertices"
    ALL_EDGES = "all edges"

    @property
    def of_edges(self) -> bool:
        """Whether the range is one of edges, whose positions may take 64 bits."""
        return self in (Over.IN_EDGES, Over.OUT_EDGES, Over.ALL_EDGES)


@dataclass(frozen=True)
class Listed:
    """Items of work on one graph.

    ``arrays``: by the names of kernel arguments. ``sides``: the bounds of the items of every side.
    """

    arrays: Mapping[str, NDArray[Any]]
    sides: Sequence[Bounds]


class WorkList(Table[Listed]):
    """Items of work that an engine lists in a table; a side may have none."""

    def named(self, made: Listed) -> dict[str, Array]:
        """Return the arrays as kernels take them."""
        return dict(made.arrays)


Range: TypeAlias = Over | WorkList


def by_side(vertices: NDArray[np.unsignedinteger[Any]], sides: Sequence[Bounds]) -> list[Bounds]:
    """Return the bounds of every side's vertices within sorted ``vertices``."""
    return [(int(np.searchsorted(vertices, first)), int(np.searchsorted(vertices, last))) for first, last in sides]


@dataclass(frozen=True)
class WorkRanges:
    """The bounds of ranges on the graph of a store. ``sides``: of vertices."""

    store: GraphStore
    sides: Sequence[Bounds]

    def bounds(self, over: Range, side: int) -> Bounds:
        """Return the bounds of a range in a superstep that updates a side."""
        match over:
            case WorkList():
                return self.store.table(over).sides[side]
        graph = self.store.graph
        vertices, sources = self.sides[side], self.sides[(side + 1) % len(self.sides)]
        match over:
            case Over.VERTICES:
                return vertices
            case Over.SOURCES:
                return sources
            case Over.IN_EDGES:
                return self._edges(graph.in_offsets, vertices)
            case Over.OUT_EDGES:
                return self._edges(graph.csr.offsets, sources)
            case Over.ALL_EDGES:
                return 0, graph.num_edges
            case Over.ALL_VERTICES:
                return 0, graph.num_vertices

    @staticmethod
    def _edges(offsets: NDArray[np.int64], vertices: Bounds) -> Bounds:
        return int(offsets[vertices[0]]), int(offsets[vertices[1]])

    def has_work(self, over: Range, side: int) -> bool:
        """Return whether a launch is made for a side: all are, except for lists of which the side has no item."""
        return not isinstance(over, WorkList) or bool(range(*self.bounds(over, side)))
