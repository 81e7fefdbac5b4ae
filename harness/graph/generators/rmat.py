"""R-MAT (Kronecker) graphs.

Chakrabarti, Zhan and Faloutsos, "R-MAT: A recursive model for graph mining", 2004; defaults of the Graph500 benchmark.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from harness.graph.errors import GraphError
from harness.graph.generators.sampling import ascending, distinct
from harness.graph.graph import Graph

CHUNK = 2**17  # edges drawn together: their working arrays stay in the CPU's cache


def rmat(
    scale: int = 14,
    edge_factor: float = 16,
    num_edges: int | None = None,
    num_vertices: int | None = None,
    a: float = 0.57,
    b: float = 0.19,
    c: float = 0.19,
    d: float = 0.05,
    seed: int = 1,
    symmetric: bool = False,
    permuted: bool = True,
    self_loops: bool = False,
    parallel_edges: bool = False,
    max_weight: int = 0,
) -> Graph:
    """Return an R-MAT graph of 2**scale vertices, or of `num_vertices` for sizes that are not a power of two.

    `num_vertices` selects a random subset of the 2**scale vertices (the first ones if not permuted); drawn edges of
    other vertices are dropped.
    Without `num_edges`, edge_factor * 2**scale edges are drawn; fewer remain, because self-loops are dropped unless
    `self_loops`, and parallel edges are merged unless `parallel_edges`. With `num_edges`, exactly that many distinct
    edges are stored.
    a, b, c, d: probabilities of the four quadrants of the adjacency matrix, a + b + c + d = 1.
    symmetric: draw undirected edges and store both directions of each (both count towards `num_edges`).
    permuted: shuffle the vertex numbers; without it, low numbers have high degrees.
    max_weight: 0 for no weights, else integers drawn uniformly from 1..max_weight, equal for both directions of an
        edge.
    Raises GraphError for invalid parameters.
    """
    check_rmat(scale, edge_factor, num_edges, num_vertices, a, b, c, d, symmetric, self_loops, parallel_edges)
    count = 2**scale if num_vertices is None else num_vertices
    rng = np.random.default_rng(seed)
    draw = _Draw(scale, count, (a, b, c), rng, symmetric, self_loops, permuted)
    if num_edges is None:
        keys = draw(round(edge_factor * 2**scale))
        if not parallel_edges:
            keys = ascending(keys)
    else:
        keys = distinct(draw, num_edges // 2 if symmetric else num_edges, rng)
    weights = None if max_weight == 0 else rng.integers(1, max_weight, keys.size, endpoint=True).astype(np.float32)
    return Graph.from_edges(
        (keys >> np.uint64(scale)).astype(np.uint32),
        (keys & np.uint64(2**scale - 1)).astype(np.uint32),
        num_vertices=count,
        weights=weights,
        name=f"rmat_{scale}" if num_vertices is None else f"rmat_{count}",
        symmetrize=symmetric,
        duplicates="keep",
        meta={"generator": "rmat", "scale": scale, "quadrants": [a, b, c, d], "seed": seed},
    )


class _Draw:
    """Draw edges as keys source << scale | destination; an undirected edge starts at its lower vertex."""

    def __init__(
        self,
        scale: int,
        count: int,
        quadrants: tuple[float, float, float],
        rng: np.random.Generator,
        symmetric: bool,
        self_loops: bool,
        permuted: bool,
    ) -> None:
        self.scale, self.count, self.rng, self.symmetric, self.self_loops = scale, count, rng, symmetric, self_loops
        a, b, c = quadrants
        self.limits = tuple(np.float32(limit) for limit in (a, a + b, a + b + c))
        self.numbers = rng.permutation(np.arange(2**scale, dtype=np.uint32)) if permuted else None

    def __call__(self, count: int) -> NDArray[np.uint64]:
        """Return the keys of `count` draws, uint64, without dropped edges (self-loops, vertices not in the graph)."""
        parts = [self._chunk(min(CHUNK, count - start)) for start in range(0, count, CHUNK)]
        return np.concatenate(parts) if parts else np.empty(0, dtype=np.uint64)

    def _chunk(self, count: int) -> NDArray[np.uint64]:
        first, second, third = self.limits
        u = np.zeros(count, dtype=np.uint32)
        v = np.zeros(count, dtype=np.uint32)
        for _ in range(self.scale):
            r = self.rng.random(count, dtype=np.float32)
            low = r >= second
            right = (r >= first) ^ low ^ (r >= third)
            u += u
            u += low
            v += v
            v += right
        if self.numbers is not None:
            u, v = self.numbers[u], self.numbers[v]
        if self.count < 2**self.scale:
            kept = (u < self.count) & (v < self.count)
            u, v = u[kept], v[kept]
        if self.symmetric:
            u, v = np.minimum(u, v), np.maximum(u, v)
        keys: NDArray[np.uint64] = (u.astype(np.uint64) << np.uint64(self.scale)) | v
        return keys if self.self_loops else keys[u != v]


def check_rmat(
    scale: int,
    edge_factor: float,
    num_edges: int | None,
    num_vertices: int | None,
    a: float,
    b: float,
    c: float,
    d: float,
    symmetric: bool,
    self_loops: bool,
    parallel_edges: bool,
) -> None:
    """Raise GraphError for invalid parameters of `rmat`."""
    quadrants = (a, b, c, d)
    if not 0 <= scale <= 31:
        raise GraphError(f"rmat: scale={scale}; it must be 0..31")
    if edge_factor < 0 or (num_edges is not None and num_edges < 0):
        raise GraphError(f"rmat: edge_factor={edge_factor}, num_edges={num_edges}; they must not be negative")
    if min(quadrants) < 0 or abs(sum(quadrants) - 1) > 1e-6:
        raise GraphError(f"rmat: a, b, c, d = {quadrants}; they must be probabilities that add up to 1")
    if num_edges is not None and parallel_edges:
        raise GraphError("rmat: num_edges counts distinct edges; leave parallel_edges off, or give edge_factor instead")
    if num_edges is not None and symmetric and (num_edges % 2 or self_loops):
        raise GraphError("rmat: a symmetric graph of exactly num_edges edges needs an even number and self_loops=False")
    count = 2**scale if num_vertices is None else num_vertices
    if not 2**scale // 2 < count <= 2**scale and not (scale == 0 and count == 1):
        raise GraphError(f"rmat: num_vertices={count} with scale={scale}; take more than half of 2**scale, or all")
