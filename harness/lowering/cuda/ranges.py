"""The work of launches: which vertices, edges or other pieces a kernel processes in a superstep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from harness.graph import Graph

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
class Teams:
    """The teams of ``blocks`` blocks of an earlier launch."""

    blocks: int


@dataclass(frozen=True)
class Pieces:
    """Pieces of work that an engine lists in its :class:`Tables` under this name; a side may have none.

    ``degree``: they belong to vertices of at least this degree.
    """

    of: str
    degree: int = 0


Range: TypeAlias = Over | Teams | Pieces


@dataclass(frozen=True)
class Tables:
    """Arrays that an engine computes from a graph once, by the names of kernel arguments.

    ``pieces``: for each name of :class:`Pieces`, the bounds of every side's pieces.
    """

    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    pieces: Mapping[str, Sequence[Bounds]] = field(default_factory=dict)


def by_side(vertices: NDArray[np.unsignedinteger[Any]], sides: Sequence[Bounds]) -> list[Bounds]:
    """Return the bounds of every side's vertices within sorted ``vertices``."""
    return [(int(np.searchsorted(vertices, first)), int(np.searchsorted(vertices, last))) for first, last in sides]


@dataclass(frozen=True)
class WorkRanges:
    """The bounds of ranges on one graph. ``sides``: of vertices. ``teams``: teams of a block."""

    graph: Graph
    sides: Sequence[Bounds]
    pieces: Mapping[str, Sequence[Bounds]]
    teams: int

    def bounds(self, over: Range, side: int) -> Bounds:
        """Return the bounds of a range in a superstep that updates a side."""
        match over:
            case Teams(blocks):
                return 0, blocks * self.teams
            case Pieces(of=of):
                return self.pieces[of][side]
        vertices, sources = self.sides[side], self.sides[(side + 1) % len(self.sides)]
        match over:
            case Over.VERTICES:
                return vertices
            case Over.SOURCES:
                return sources
            case Over.IN_EDGES:
                return self._edges(self.graph.csc.offsets, vertices)
            case Over.OUT_EDGES:
                return self._edges(self.graph.csr.offsets, sources)
            case Over.ALL_EDGES:
                return 0, self.graph.num_edges
            case Over.ALL_VERTICES:
                return 0, self.graph.num_vertices

    @staticmethod
    def _edges(offsets: NDArray[np.int64], vertices: Bounds) -> Bounds:
        return int(offsets[vertices[0]]), int(offsets[vertices[1]])

    def has_work(self, over: Range, side: int) -> bool:
        """Return whether a launch is made for a side: all are, except for pieces of which the side has none."""
        return not isinstance(over, Pieces) or bool(range(*self.pieces[over.of][side]))
