"""The numbers of a graph that estimates of schedules depend on, from its facts."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from harness.api import GraphFacts

Counts = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class ProblemFacts:
    """``rows``, ``columns``: vertices of both sides with an edge. ``degree``: the largest of a vertex, of both sides.

    ``column_degree``: the largest of a column. ``row_share``, ``column_share``: the sum of squared shares of the edges,
    which is the chance that two edges have a vertex of the side in common. ``tail``: the degree that 1 % of the
    vertices exceed, over the mean. ``subgraph_degrees``: the sum of the largest degrees of blocks of columns (SGM).
    ``diagonals``, ``block_diagonals``: how many are not empty, by sampled edges.
    """

    edges: float
    rows: float
    columns: float
    degree: float
    column_degree: float
    row_share: float
    column_share: float
    tail: float
    subgraph_degrees: float
    diagonals: float
    block_diagonals: float
    features: float
    epochs: float

    @classmethod
    def of(cls, graph: GraphFacts, features: int, epochs: int, *, nodes: int, blocks: tuple[int, int]) -> ProblemFacts:
        """Return the facts for a graph, k features, a number of supersteps, and block sizes of SGM and BlkDiag."""
        rows, columns = _used(graph.out_degrees.counts), _used(graph.in_degrees.counts)
        both = sorted((*rows, *columns))
        every = graph.num_vertices, graph.num_vertices
        left, right = graph.bipartite if graph.bipartite and graph.one_way else every
        edges = max(1, graph.num_edges)
        diagonals = _diagonals(edges, left + right - 1, graph.differences)
        block_diagonals = _met(edges, max(1, left // blocks[0] + right // blocks[1] - 1))
        return cls(
            edges, sum(n for _, n in rows) or 1, sum(n for _, n in columns) or 1,
            max(graph.out_degrees.largest, graph.in_degrees.largest, 1), max(1, graph.in_degrees.largest),
            _share(rows), _share(columns), _tail(both), sum(_largest_of_blocks(columns, nodes)),
            diagonals, min(block_diagonals, 2 * diagonals), features, max(1, epochs),
        )  # fmt: skip

    @property
    def row_squares(self) -> float:
        """The sum of squared degrees of rows."""
        return self.row_share * self.edges**2

    def named(self) -> dict[str, float]:
        """Return the facts by name."""
        return {name: float(value) for name, value in asdict(self).items()}


def _used(counts: Counts) -> Counts:
    return tuple((degree, vertices) for degree, vertices in counts if degree)


def _share(counts: Counts) -> float:
    edges = sum(degree * vertices for degree, vertices in counts)
    return sum(degree**2 * vertices for degree, vertices in counts) / max(1, edges) ** 2


def _tail(counts: list[tuple[int, int]]) -> float:
    vertices = sum(n for _, n in counts)
    mean = sum(degree * n for degree, n in counts) / max(1, vertices)
    above = 0
    for degree, n in reversed(counts):
        above += n
        if above >= vertices / 100:
            return degree / max(mean, 1.0)
    return 1.0


def _largest_of_blocks(counts: Counts, nodes: int) -> Iterator[int]:
    """Yield the largest degree of each block of ``nodes`` vertices, which are sorted by falling degree."""
    before = 0
    for degree, vertices in reversed(counts):
        first = -(-before // nodes)
        before += vertices
        for _ in range(first, -(-before // nodes)):
            yield degree


def _met(edges: int, places: float) -> float:
    """Return how many of ``places`` have one of ``edges`` that are spread evenly, on average."""
    return places * -math.expm1(-edges / max(1, places))


def _diagonals(edges: int, places: int, sampled: tuple[int, int]) -> float:
    """Return how many of ``places`` diagonals have an edge, by the diagonals of a sample of edges.

    ``sampled``: the edges, and their diagonals. A sample that repeats diagonals has edges on few of all places; edges
    are spread evenly among these.
    """
    count, found = sampled
    if 0 < count >= edges:
        return found
    low, high = float(found), float(places)
    if not count or found >= _met(count, places):
        return _met(edges, places)
    for _ in range(60):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if _met(count, middle) < found else (low, middle)
    return _met(edges, high)
