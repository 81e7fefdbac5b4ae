"""Facts about a graph and a device that an engine plans with: numbers only, no arrays."""

from __future__ import annotations

from dataclasses import dataclass, field
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

    def slices(self, size: int) -> int:
        """Return the number of slices if each vertex's edges are cut into slices of at most ``size`` edges."""
        return sum(-(-degree // size) * count for degree, count in self.counts)


@dataclass(frozen=True)
class Spans:
    """The distances between the numbers of the ends of edges, from a sample of edges.

    ``counts``: pairs ``(bits, edges)``, sorted: the number of sampled edges whose distance has that bit length.
    """

    counts: tuple[tuple[int, int], ...] = ()

    def within(self, distance: float) -> float:
        """Return the share of edges whose ends are less than ``distance`` apart, rounded down to a power of two.

        0 without edges.
        """
        bits = int(max(distance, 0)).bit_length() - 1
        return sum(count for length, count in self.counts if length <= bits) / max(1, sum(n for _, n in self.counts))


@dataclass(frozen=True)
class GraphFacts:
    """The size of a graph, a summary of its degrees, and its kind.

    ``num_edges`` counts stored (directed) edges. ``max_in_degree`` is 0 for a graph without edges. ``bipartite``: the
    numbers of vertices of both sides; None if the graph is not bipartite. ``paired``: every edge has a reverse edge.
    ``self_loops``: some edge leads from a vertex to itself. ``one_way``: the graph is bipartite, and every edge leads
    from its left to its right side. ``spans``: of sampled edges. ``differences``: the number of sampled edges, and of
    distinct differences of their destination and source. Both depend on the numbering; graphs are not compared by it.
    """

    num_vertices: int
    num_edges: int
    max_in_degree: int
    in_degrees: Degrees = Degrees()
    out_degrees: Degrees = Degrees()
    bipartite: tuple[int, int] | None = None
    paired: bool = False
    self_loops: bool = False
    one_way: bool = False
    spans: Spans = field(default=Spans(), compare=False)
    differences: tuple[int, int] = field(default=(0, 0), compare=False)

    @property
    def average_degree(self) -> float:
        """Stored edges per vertex; 0 for a graph without vertices."""
        return self.num_edges / max(1, self.num_vertices)


@dataclass(frozen=True)
class DeviceFacts:
    """The device that a schedule is resolved for.

    ``threads``: those that run on a CPU. ``name``: its model. ``figures``: what an engine has measured on it, by name;
    empty unless the schedule chooses by them. ``cache_bytes``: of a core's own (second-level) cache of a
    CPU.
    """

    kind: Literal["cpu", "cuda"]
    threads: int = 1
    name: str = ""
    figures: tuple[tuple[str, float], ...] = ()
    cache_bytes: int = 1 << 20
