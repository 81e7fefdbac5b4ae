"""Onyx on CUDA: the vertices of many in-edges, each of which a warp or a block owns in a pull."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from harness.api.cuda import Listed, WorkList, by_side

if TYPE_CHECKING:
    from engines.onyx.policy import Policy
    from harness.api import Graph, GraphFacts
    from harness.api.cuda import Bounds


@dataclass(frozen=True)
class VerticesByDegree(WorkList):
    """The vertices of at least ``least`` in-edges, and of at most ``most`` (None: no limit), sorted, uint32.

    ``name``: of the list, as kernels take it. ``sides``: of vertices that supersteps update.
    """

    name: str
    least: int
    most: int | None
    sides: tuple[Bounds, ...]

    def of(self, graph: Graph) -> Listed:
        """Return the vertices."""
        degrees = graph.in_degrees
        fits = degrees >= self.least if self.most is None else (degrees >= self.least) & (degrees <= self.most)
        listed = np.flatnonzero(fits).astype(np.uint32)
        return Listed({self.name: listed}, by_side(listed, self.sides))

    def count(self, graph: GraphFacts) -> int:
        """Return the number of the vertices."""
        return graph.in_degrees.between(self.least, self.most)

    def nbytes(self, graph: GraphFacts) -> int:
        """Return the bytes of the list."""
        return 4 * self.count(graph)


def middle_edges(facts: GraphFacts, policy: Policy, share: int) -> tuple[int, ...]:
    """Return the numbers of in-edges, for each of ``share`` lane groups, from which a warp may own a vertex.

    The first one whose vertices have enough of the edges is taken. Fewer in-edges are tried in small graphs that have
    vertices of many.
    """
    differ = facts.max_in_degree >= policy.middle_edges * share
    if differ and facts.num_edges < policy.small_graph and policy.fewer_middle_edges < policy.middle_edges:
        return policy.fewer_middle_edges, policy.middle_edges
    return (policy.middle_edges,)
