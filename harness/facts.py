"""Facts about a graph and a device that an engine plans with: numbers only, no arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Degrees:
    """The number of vertices of each degree: pairs ``(degree, vertices)``, sorted by degree, without empty ones."""

    counts: tuple[tuple[int, int], ...] = ()

    @property
    def largest(self) -> int:
        """The largest degree; 0 without vertices."""
        return self.counts[-1][0] if self.counts else 0

    def between(self, first: int, last: int | None = None) -> int:
        """Return the number of vertices of degree ``first`` to ``last``, both included; None: no upper limit."""
        return sum(count for degree, count in self.counts if first <= degree and (last is None or degree <= last))

    def pieces(self, size: int) -> int:
        """Return the number of pieces if each vertex's edges are cut into pieces of at most ``size`` edges."""
        return sum(-(-degree // size) * count for degree, count in self.counts)


@dataclass(frozen=True)
class GraphFacts:
    """The size of a graph, a summary of its degrees, and its kind.

    ``num_edges`` counts stored (directed) edges. ``max_in_degree`` is 0 for a graph without edges. ``bipartite``: the
    numbers of vertices of both sides; None if the graph is not bipartite. ``paired``: every edge has a reverse edge.
    """

    num_vertices: int
    num_edges: int
    max_in_degree: int
    in_degrees: Degrees = Degrees()
    out_degrees: Degrees = Degrees()
    bipartite: tuple[int, int] | None = None
    paired: bool = False

    @property
    def average_degree(self) -> float:
        """Stored edges per vertex; 0 for a graph without vertices."""
        return self.num_edges / max(1, self.num_vertices)


@dataclass(frozen=True)
class DeviceFacts:
    """The device that a schedule is resolved for.

    ``threads``: those that run on a CPU. ``name``: its model. ``figures``: what an engine has measured on it, by name;
    empty unless the schedule chooses by them.
    """

    kind: Literal["cpu", "cuda"]
    threads: int = 1
    name: str = ""
    figures: tuple[tuple[str, float], ...] = ()
