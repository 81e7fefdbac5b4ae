"""Random graphs that are made row by row on all cores, for billions of edges: no list of edges, and no sort of them.

A row is a function of the seed and its vertex. The degrees of all vertices give the offsets, and then threads fill the
rows of a CSR in place (:mod:`harness.graph.generators.row_kernels`). Only each row is sorted. The memory is that of the
graph. Graphs do not depend on the number of threads. Compiled loops are loaded when a graph is made.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.graph.adjacency import Adjacency, Array
from harness.graph.errors import GraphError
from harness.graph.graph import Graph
from harness.graph.named import not_cached
from harness.graph.pages import array_in_pages
from harness.graph.slices import in_slices

DEGREES, DESTINATIONS, WEIGHTS = range(3)  # streams of random numbers
SCRAMBLING = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D)  # odd; of the permutation of vertices
MOST_VERTICES = 1 << 31
MOST_EDGES = 1 << 36  # expected: numbers of random bits of edges then fit 64 bits, and so do sums of degrees
MOST_WEIGHT = 1 << 24  # float32 has all integers up to this


@not_cached
def rmat_rows(
    scale: int = 14,
    edge_factor: float = 16,
    a: float = 0.57,
    b: float = 0.19,
    c: float = 0.19,
    d: float = 0.05,
    seed: int = 1,
    permuted: bool = True,
    max_weight: int = 0,
) -> Graph:
    """Return a directed R-MAT multigraph of 2**scale vertices and about edge_factor * 2**scale edges, made by rows.

    Let E = edge_factor * 2**scale, and p(u, v) the product of a, b, c or d over the bits of u and v. The number of
    edges u -> v is a Poisson variable of the mean E * p(u, v), independent of those of other pairs. These are the draws
    of `rmat` if their number is itself a Poisson variable of the mean E. The graph is drawn in two steps. Let p(u) be
    the product of a + b for each 0 among the bits of u and c + d for each 1. The out-degree of u is a Poisson variable
    of the mean E * p(u). Each edge of u then has a destination whose bits are independent: 1 with the probability
    b / (a + b) below a 0 of u and d / (c + d) below a 1, rounded to a multiple of 2**-32.

    It differs from the default of `rmat` as follows. Self-loops and parallel edges are kept. The number of edges is
    random: its standard deviation is the root of E. Edges are directed, without their reverses. `permuted` renumbers
    vertices by a fixed permutation (products with odd numbers and shifts), not by a random one.

    max_weight: 0 for no weights, else integers drawn uniformly from 1..max_weight for every edge.
    Raises GraphError for invalid parameters, and MemoryError.
    """
    check_rmat_rows(scale, edge_factor, a, b, c, d, max_weight)
    recipe = RmatRows(scale, edge_factor * 2**scale, (a, b, c, d), seed, permuted)
    meta = {"generator": "rmat_rows", "scale": scale, "quadrants": [a, b, c, d], "seed": seed}
    return _graph(recipe, 2**scale, f"rmat_rows_{scale}", seed, max_weight, meta)


@not_cached
def urand_rows(
    num_vertices: int = 65536, least_degree: int = 16, most_degree: int = 48, seed: int = 1, max_weight: int = 0
) -> Graph:
    """Return a directed multigraph of random rows: out-degrees and destinations are independent and uniform.

    Out-degrees are integers in least_degree .. most_degree; destinations are all vertices, with self-loops and
    parallel edges. The defaults are the degrees of the graph GU in Min et al. 2020, figure 6, which has 134 million
    vertices; GU itself was drawn otherwise and is undirected.

    max_weight: 0 for no weights, else integers drawn uniformly from 1..max_weight for every edge.
    Raises GraphError for invalid parameters, and MemoryError.
    """
    check_urand_rows(num_vertices, least_degree, most_degree, max_weight)
    recipe = EvenRows(num_vertices, least_degree, most_degree, seed)
    meta = {"generator": "urand_rows", "degrees": [least_degree, most_degree], "seed": seed}
    return _graph(recipe, num_vertices, f"urand_rows_{num_vertices}", seed, max_weight, meta)


@dataclass(frozen=True)
class RmatRows:
    """Rows of an R-MAT graph of 2**scale vertices and ``edges`` expected edges. ``quadrants``: a, b, c, d."""

    scale: int
    edges: float
    quadrants: tuple[float, float, float, float]
    seed: int
    permuted: bool

    def degrees(self, first: int, degrees: NDArray[np.int64]) -> None:
        """Set the degrees of the vertices from ``first`` on."""
        from harness.graph.generators import row_kernels as kernels

        a, b, c, d = self.quadrants
        ones = np.arange(self.scale + 1)
        means = self.edges * (a + b) ** (self.scale - ones) * (c + d) ** ones
        _, inverses, shift, mask = self._permutation
        kernels.rmat_degrees(means, kernels.key_of(self.seed, DEGREES), inverses, shift, mask, first, degrees)

    def rows(self, offsets: NDArray[np.int64], first: int, last: int, base: int, neighbours: Array) -> None:
        """Set the rows ``first..last``; ``neighbours[0]`` is edge ``base``."""
        from harness.graph.generators import row_kernels as kernels

        a, b, c, d = self.quadrants
        shares = [b / (a + b) if a + b else 0.0, d / (c + d) if c + d else 0.0]
        limits = np.array([round(share * 2**32) for share in shares], np.uint64)
        key, permutation = kernels.key_of(self.seed, DESTINATIONS), self._permutation
        kernels.rmat_rows_of(offsets, first, last, limits, key, self.scale, *permutation, base, neighbours)

    @property
    def _permutation(self) -> tuple[NDArray[np.uint64], NDArray[np.uint64], np.uint64, np.uint64]:
        """The factors of the permutation of vertices, their inverses, the shift, and the mask of the bits."""
        size, factors = 1 << self.scale, SCRAMBLING if self.permuted else ()
        inverses = [pow(factor, -1, size) for factor in factors]
        shift = max(1, (self.scale + 1) // 2)
        return np.array(factors, np.uint64), np.array(inverses, np.uint64), np.uint64(shift), np.uint64(size - 1)


@dataclass(frozen=True)
class EvenRows:
    """Rows of uniform length, ``least`` to ``most``, and uniform destinations."""

    num_vertices: int
    least: int
    most: int
    seed: int

    def degrees(self, first: int, degrees: NDArray[np.int64]) -> None:
        """Set the degrees of the vertices from ``first`` on."""
        from harness.graph.generators import row_kernels as kernels

        kernels.even_degrees(self.least, self.most, kernels.key_of(self.seed, DEGREES), first, degrees)

    def rows(self, offsets: NDArray[np.int64], first: int, last: int, base: int, neighbours: Array) -> None:
        """Set the rows ``first..last``; ``neighbours[0]`` is edge ``base``."""
        from harness.graph.generators import row_kernels as kernels

        key = kernels.key_of(self.seed, DESTINATIONS)
        kernels.even_rows_of(offsets, first, last, self.num_vertices, key, base, neighbours)


def offsets_of(recipe: RmatRows | EvenRows, num_vertices: int) -> NDArray[np.int64]:
    """Return the offsets of the rows of a recipe, int64[V + 1], in private pages."""
    offsets: NDArray[np.int64] = array_in_pages(num_vertices + 1, np.int64)
    degrees = offsets[1:]
    in_slices(lambda part: recipe.degrees(part.start, degrees[part]), num_vertices)
    np.cumsum(degrees, out=degrees)
    return offsets


def neighbours_of(recipe: RmatRows | EvenRows, offsets: NDArray[np.int64]) -> Array:
    """Return the neighbours in all rows of a recipe, uint32[E], in private pages; threads take rows of about as many
    edges."""
    num_edges = int(offsets[-1])
    neighbours = array_in_pages(num_edges, np.uint32)

    def fill(part: slice) -> None:  # the rows that begin in a part of the edges
        first, last = np.searchsorted(offsets[:-1], [part.start, part.stop])
        recipe.rows(offsets, int(first), int(last), 0, neighbours)

    in_slices(fill, num_edges)
    return neighbours


def _graph(
    recipe: RmatRows | EvenRows, num_vertices: int, name: str, seed: int, max_weight: int, meta: dict[str, Any]
) -> Graph:
    offsets = offsets_of(recipe, num_vertices)
    neighbours = neighbours_of(recipe, offsets)
    weights = _weights(neighbours.size, seed, max_weight) if max_weight else None
    return Graph(Adjacency(offsets, neighbours), name=name, directed=True, weights=weights, meta=meta)


def _weights(num_edges: int, seed: int, max_weight: int) -> NDArray[np.float32]:
    from harness.graph.generators import row_kernels as kernels

    weights: NDArray[np.float32] = array_in_pages(num_edges, np.float32)
    key = kernels.key_of(seed, WEIGHTS)
    in_slices(lambda part: kernels.even_weights(max_weight, key, part.start, weights[part]), num_edges)
    return weights


def check_rmat_rows(scale: int, edge_factor: float, a: float, b: float, c: float, d: float, max_weight: int) -> None:
    """Raise GraphError for invalid parameters of `rmat_rows`."""
    quadrants = (a, b, c, d)
    if not 0 <= scale <= 31:
        raise GraphError(f"rmat_rows: scale={scale}; it must be 0..31")
    if not 0 <= edge_factor * 2**scale <= MOST_EDGES:
        raise GraphError(f"rmat_rows: edge_factor={edge_factor}; edge_factor * 2**scale must be 0 to 2**36 edges")
    if min(quadrants) < 0 or abs(sum(quadrants) - 1) > 1e-6:
        raise GraphError(f"rmat_rows: a, b, c, d = {quadrants}; they must be probabilities that add up to 1")
    _check_weight("rmat_rows", max_weight)


def check_urand_rows(num_vertices: int, least_degree: int, most_degree: int, max_weight: int) -> None:
    """Raise GraphError for invalid parameters of `urand_rows`."""
    if not 1 <= num_vertices <= MOST_VERTICES:
        raise GraphError(f"urand_rows: num_vertices={num_vertices}; it must be 1 to 2**31")
    if not 0 <= least_degree <= most_degree or num_vertices * most_degree > MOST_EDGES:
        raise GraphError(
            f"urand_rows: least_degree={least_degree}, most_degree={most_degree}; they must satisfy "
            "0 <= least_degree <= most_degree, and num_vertices * most_degree must be at most 2**36 edges"
        )
    _check_weight("urand_rows", max_weight)


def _check_weight(name: str, max_weight: int) -> None:
    if not 0 <= max_weight <= MOST_WEIGHT:
        raise GraphError(f"{name}: max_weight={max_weight}; it must be 0 to 2**24, up to which float32 is exact")
