"""Batches of edges without a common end: matchings, diagonals, levels. Pure functions of a graph's edges.

An order is ``Batches``. Units run at the same time within a batch and the edges of a unit one after another; batches
run one after another.
"""

# mypy: allow-untyped-decorators
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from engines.lonestar.schedule import LonestarSchedule
from engines.lonestar.sorted_edges import alternating, bounds_of, sorted_by
from harness.api import Graph, GraphFacts
from harness.api.cpu import Table, levels

Array = NDArray[Any]
INT64 = 8  # bytes


@dataclass(frozen=True)
class Batches:
    """Edges in the order in which they run.

    ``edges``: CSR positions, int64[E]. ``units``: bounds of units among the edges, int64; None: each edge is a unit.
    ``batches``: bounds of batches among the units, int64.
    """

    edges: Array
    batches: Array
    units: Array | None = None

    @property
    def sizes(self) -> Array:
        """The number of edges of each batch, int64."""
        bounds = self.batches if self.units is None else self.units[self.batches]
        return np.asarray(np.diff(bounds))


def shuffled(edges: int, seed: int) -> Array:
    """Return a random permutation, int64[edges]."""
    return np.random.default_rng(seed).permutation(edges)


def batches_of(graph: Graph, schedule: LonestarSchedule) -> Batches:
    """Return the batches of an offline schedule with every option filled in."""
    rows, columns = graph.csr.row_of_edge.astype(np.int64), graph.csr.neighbours.astype(np.int64)
    number = columns - (graph.bipartite[0] if graph.bipartite else 0)  # of a column among the columns
    match schedule.order:
        case "agm_e":
            return by_key(matching_of_edges(rows, columns, graph.num_vertices, by_column(columns)))
        case "agm_n":
            matching = matching_of_edges(rows, columns, graph.num_vertices, by_column(columns))
            return by_key(matching, number // schedule.nodes)
        case "sgm":
            return subgraph_matchings(rows, columns, graph.num_vertices, schedule.nodes)
        case "diag":
            return by_key(repetition(rows, columns), rows - number)
        case "blkdiag":
            return block_diagonals(rows, number, schedule.block_rows, schedule.block_columns)
        case "grid":
            assert graph.bipartite is not None
            assert schedule.blocks is not None
            return strata(rows, number, graph.bipartite, schedule.blocks)
        case "levels":
            order = shuffled(graph.num_edges, schedule.seed) if schedule.shuffle else np.arange(graph.num_edges)
            groups = list(levels(rows, columns, order))
            bounds = np.cumsum([0, *map(len, groups)], dtype=np.int64)
            return Batches(np.concatenate([order[:0], *groups]), bounds)
    raise ValueError(f"order={schedule.order} has no batches")


def by_column(columns: Array) -> Array:
    """Return the edges sorted by column, each column's in the order of the CSR."""
    return sorted_by(columns)


def repetition(rows: Array, columns: Array) -> Array:
    """Return for each edge how many parallel edges come before it; edges are sorted by row and column, as in the CSR.

    Parallel edges are on one diagonal and have both ends in common.
    """
    new = np.ones(len(rows), np.bool_)
    new[1:] = (np.diff(rows) != 0) | (np.diff(columns) != 0)
    starts = np.flatnonzero(new)
    return np.arange(len(rows)) - np.repeat(starts, np.diff(np.append(starts, len(rows))))


def by_key(key: Array, before: Array | None = None) -> Batches:
    """Return a batch for each value of ``key``, ascending; for each value of ``before`` and ``key``, if given."""
    edges = sorted_by(key)
    if before is not None:
        edges = edges[sorted_by(before[edges])]
    new = np.diff(key[edges]) != 0
    if before is not None:
        new |= np.diff(before[edges]) != 0
    return Batches(edges, bounds_of(new, len(edges)))


def block_diagonals(rows: Array, columns: Array, block_rows: int, block_columns: int) -> Batches:
    """Return the non-empty diagonals of blocks; a unit is the edges of a block, by row and column.

    ``rows``, ``columns``: of each edge, both counted from 0. Edges are given by row and column, as in the CSR.
    """
    block_row, block_column = rows // block_rows, columns // block_columns
    diagonal = block_row - block_column
    edges = sorted_by(diagonal)
    new_diagonal = np.diff(diagonal[edges]) != 0
    new_block = new_diagonal | (np.diff(block_row[edges]) != 0)
    units = bounds_of(new_block, len(edges))
    return Batches(edges, np.searchsorted(units, bounds_of(new_diagonal, len(edges))), units)


def equal_blocks(vertex: Array, count: int, blocks: int) -> Array:
    """Return the block of each of ``count`` vertices, ascending, int64[count]; blocks have about equally many edges.

    ``vertex``: of each edge, counted from 0.
    """
    degrees = np.bincount(vertex, minlength=count)
    middle = np.cumsum(degrees) - degrees / 2
    return np.minimum(middle * blocks / max(1, len(vertex)), blocks - 1).astype(np.int64)


def block_numbers(rows: Array, columns: Array, sides: tuple[int, int], blocks: int) -> Array:
    """Return stratum * blocks + block row of each edge, int64[E]: stratum s has the blocks of block columns i + s.

    ``rows``, ``columns``: of each edge, both counted from 0. ``sides``: the numbers of rows and of columns.
    """
    row, column = equal_blocks(rows, sides[0], blocks)[rows], equal_blocks(columns, sides[1], blocks)[columns]
    return np.asarray((column - row) % blocks * blocks + row)


def strata(rows: Array, columns: Array, sides: tuple[int, int], blocks: int) -> Batches:
    """Return ``blocks`` strata of blocks without a common block row or column; a unit is a block's edges.

    The arguments are those of :func:`block_numbers`. Empty blocks and strata are left out. The edges of a block are in
    the order of :func:`alternating`.
    """
    number = block_numbers(rows, columns, sides, blocks)
    if blocks**2 > len(number):  # most blocks are empty, and counters are allocated for each
        present, dense = np.unique(number, return_inverse=True)
        edges = alternating(rows, dense, len(present))
    else:
        edges = alternating(rows, number, blocks**2)
    number = number[edges]
    units = bounds_of(np.diff(number) != 0, len(edges))
    return Batches(edges, np.searchsorted(units, bounds_of(np.diff(number // blocks) != 0, len(edges))), units)


def matching_of_edges(rows: Array, columns: Array, num_vertices: int, order: Array) -> Array:
    """Return the number of the maximal matching that contains each edge, int64[E], in the order of the edges given.

    Matching i is the greedy maximal matching, in that order, of the edges that are in none before. An edge is in the
    first matching that has no edge at its ends, which is first-fit colouring. The number of matchings is at least the
    largest degree and less than the sum of the two largest.
    """
    whole = np.zeros(len(order), np.int64)
    return _first_fit(rows, columns, order, whole, _list_starts(rows, columns, num_vertices))


def subgraph_matchings(rows: Array, columns: Array, num_vertices: int, nodes: int) -> Batches:
    """Return the matchings of each block of ``nodes`` columns, which are sorted by falling degree (sec. III.A.3)."""
    degrees = np.bincount(columns, minlength=num_vertices)
    place = np.empty(num_vertices, np.int64)
    place[np.argsort(-degrees, kind="stable")] = np.arange(num_vertices)
    block = place[columns] // nodes
    order = sorted_by(place[columns])
    matching = _first_fit(rows, columns, order, block, _list_starts(rows, columns, num_vertices))
    return by_key(matching, block)


def _list_starts(rows: Array, columns: Array, num_vertices: int) -> Array:
    """Return where the list of each vertex begins, with a place for each edge at it, int64[V + 1]."""
    degrees = np.bincount(rows, minlength=num_vertices) + np.bincount(columns, minlength=num_vertices)
    return np.concatenate([[0], np.cumsum(degrees)]).astype(np.int64)


@njit(nogil=True, cache=True)  # pragma: no cover - compiled
def _first_fit(rows: Array, columns: Array, order: Array, block: Array, starts: Array) -> Array:
    """Colour the edges in order, those of each block by themselves; the edges of a block are consecutive.

    A vertex has a list of the colours of its edges. The bits of the colours at a column are kept while its edges follow
    each other; those at a row are set for one edge. So a sweep takes time in the sum of the squares of the rows'
    degrees, and the squares of the columns' divided by 64.
    """
    vertices = len(starts) - 1
    most = 2
    for v in range(vertices):
        most = max(most, 2 * (starts[v + 1] - starts[v]))
    at_column, at_row = np.zeros(most // 64 + 1, np.uint64), np.zeros(most // 64 + 1, np.uint64)
    used = np.empty(starts[vertices], np.int64)
    count = np.zeros(vertices, np.int64)
    counted = np.full(vertices, -1, np.int64)  # the block that a count belongs to
    colour = np.empty(len(order), np.int64)
    one, full = np.uint64(1), ~np.uint64(0)
    last, last_block = -1, -1
    for e in order:
        u, v = rows[e], columns[e]
        if v != last or block[e] != last_block:
            at_column[:] = 0
            if counted[v] == block[e]:
                for i in range(starts[v], starts[v] + count[v]):
                    at_column[used[i] >> 6] |= one << np.uint64(used[i] & 63)
            last, last_block = v, block[e]
        for w in (u, v):
            if counted[w] != block[e]:
                counted[w], count[w] = block[e], 0
        for i in range(starts[u], starts[u] + count[u]):
            at_row[used[i] >> 6] |= one << np.uint64(used[i] & 63)
        word = 0
        while at_column[word] | at_row[word] == full:
            word += 1
        bit = np.uint64(0)
        while (at_column[word] | at_row[word]) >> bit & one:
            bit += one
        colour[e] = 64 * word + np.int64(bit)
        for i in range(starts[u], starts[u] + count[u]):
            at_row[used[i] >> 6] = 0
        at_column[word] |= one << bit
        for w in (u, v):
            used[starts[w] + count[w]] = colour[e]
            count[w] += 1
    return colour


@dataclass(frozen=True)
class OrderedEdges:
    """Batches with the ends of the edges in the order in which they run; ids as the graph has them."""

    batches: Batches
    sources: Array
    destinations: Array


@dataclass(frozen=True)
class BatchTable(Table[OrderedEdges]):
    """The batches of an offline schedule that has every option filled in."""

    schedule: LonestarSchedule

    def of(self, graph: Graph) -> OrderedEdges:
        """Return the batches."""
        found = batches_of(graph, self.schedule)
        return OrderedEdges(found, graph.csr.row_of_edge[found.edges], graph.csr.neighbours[found.edges])

    def nbytes(self, graph: GraphFacts) -> int:
        """Return the bytes of the order, the ends, and the bounds of units and batches, at most."""
        return 5 * INT64 * graph.num_edges + 2 * INT64

    def named(self, made: OrderedEdges) -> dict[str, Array]:
        """Return the arrays as kernels take them."""
        arrays = {
            "edge_order": made.batches.edges, "order_sources": made.sources,
            "order_destinations": made.destinations, "batches": made.batches.batches,
        }  # fmt: skip
        return arrays if made.batches.units is None else {**arrays, "units": made.batches.units}


@dataclass(frozen=True)
class GridTable(Table[tuple[OrderedEdges, Array]]):
    """The strata of *grid*, and the bounds of all blocks, stratum by stratum, int64[blocks * blocks + 1].

    ``schedule``: with every option filled in.
    """

    schedule: LonestarSchedule

    def of(self, graph: Graph) -> tuple[OrderedEdges, Array]:
        """Return the edges in the order of strata, and the bounds of blocks."""
        made = BatchTable(self.schedule).of(graph)
        assert graph.bipartite is not None
        assert self.schedule.blocks is not None
        sources, columns = made.sources.astype(np.int64), made.destinations.astype(np.int64) - graph.bipartite[0]
        number = block_numbers(sources, columns, graph.bipartite, self.schedule.blocks)
        return made, np.searchsorted(number, np.arange(self.schedule.blocks**2 + 1)).astype(np.int64)

    def nbytes(self, graph: GraphFacts) -> int:
        """Return the bytes of the order, the ends, and the bounds of blocks, at most."""
        assert self.schedule.blocks is not None
        return BatchTable(self.schedule).nbytes(graph) + INT64 * (self.schedule.blocks**2 + 1)

    def named(self, made: tuple[OrderedEdges, Array]) -> dict[str, Array]:
        """Return the arrays as kernels take them."""
        edges, bounds = made
        return {
            "edge_order": edges.batches.edges, "order_sources": edges.sources,
            "order_destinations": edges.destinations, "block_bounds": bounds,
        }  # fmt: skip


@dataclass(frozen=True)
class Wave:
    """The blocks of a wavefront: their edges with both ends, and the order in which each row visits the blocks.

    ``bounds``: of the blocks' edges, int64[rows * columns + 1]. ``visits``: block columns, int64[rows * columns].
    """

    edges: Array
    sources: Array
    destinations: Array
    bounds: Array
    visits: Array


@dataclass(frozen=True)
class WaveTable(Table[Wave]):
    """The blocks of a wavefront of ``rows`` block rows and twice as many block columns, so that some are free."""

    rows: int
    seed: int

    @property
    def columns(self) -> int:
        """The number of block columns."""
        return 2 * self.rows

    def of(self, graph: Graph) -> Wave:
        """Return the blocks; edges of a block are in the order of :func:`alternating`."""
        assert graph.bipartite is not None
        left, right = graph.bipartite
        rows, columns = graph.csr.row_of_edge.astype(np.int64), graph.csr.neighbours.astype(np.int64) - left
        block_row = equal_blocks(rows, left, self.rows)[rows]
        block = block_row * self.columns + equal_blocks(columns, right, self.columns)[columns]
        edges = alternating(rows, block, self.rows * self.columns)
        bounds = np.searchsorted(block[edges], np.arange(self.rows * self.columns + 1))
        random = np.random.default_rng(self.seed)
        visits = np.concatenate([random.permutation(self.columns) for _ in range(self.rows)])
        return Wave(edges, graph.csr.row_of_edge[edges], graph.csr.neighbours[edges], bounds.astype(np.int64), visits)

    def nbytes(self, graph: GraphFacts) -> int:
        """Return the bytes of the order, the ends, the bounds and the visits, at most."""
        return 3 * INT64 * graph.num_edges + INT64 * (2 * self.rows * self.columns + 1)

    def named(self, made: Wave) -> dict[str, Array]:
        """Return the arrays as kernels take them."""
        return {
            "edge_order": made.edges, "order_sources": made.sources, "order_destinations": made.destinations,
            "wave_bounds": made.bounds, "visits": made.visits,
        }  # fmt: skip
