"""Large graphs for benchmarks on a CUDA device, made on the device, so that making them takes seconds.

All are symmetric, without self-loops and parallel arcs, with random weights.
"""

from __future__ import annotations

import tempfile
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.graph import Graph
from harness.graph.adjacency import Adjacency

QUADRANTS = (0.57, 0.19, 0.19)  # of an R-MAT graph, as in the Graph500 benchmark


def rmat_graph(scale: int, arcs: int, seed: int = 1, *, vertices: int | None = None, name: str = "") -> Graph:
    """An R-MAT graph of 2**scale vertices and exactly ``arcs`` arcs (an even number), vertices shuffled. ``vertices``:
    of that many of these, drawn at random, for sizes that are no power of two."""
    import cupy

    count_all = 1 << scale if vertices is None else vertices
    random = cupy.random.default_rng(seed)
    numbers = random.random(1 << scale).argsort().astype(cupy.uint64)
    first, second, third = np.cumsum(QUADRANTS)
    keys = cupy.empty(0, cupy.uint64)
    while len(keys) < arcs // 2:
        count = int(1.15 * (arcs // 2 - len(keys))) + 1024
        u, v = cupy.zeros(count, cupy.uint64), cupy.zeros(count, cupy.uint64)
        for _ in range(scale):
            draw = random.random(count, dtype=cupy.float32)
            low = draw >= second
            right = (draw >= first) ^ low ^ (draw >= third)
            u = u * 2 + low
            v = v * 2 + right
        u, v = numbers[u], numbers[v]
        drawn = (cupy.minimum(u, v) << np.uint64(scale)) | cupy.maximum(u, v)
        kept = (u != v) & (u < count_all) & (v < count_all)
        keys = cupy.unique(cupy.concatenate([keys, drawn[kept]]))
    keys = keys[cupy.sort(random.random(len(keys)).argsort()[: arcs // 2])]  # any of them, in order again
    mask = np.uint64((1 << scale) - 1)
    return symmetric(keys >> np.uint64(scale), keys & mask, count_all, name or f"rmat_{scale}", seed)


def road_grid(side: int, kept: float = 0.6, seed: int = 1, *, rows: int | None = None, name: str = "") -> Graph:
    """A grid with a share ``kept`` of its edges: about 2.4 arcs a vertex, as in road networks. ``side``: the vertices
    of a row; there are ``rows`` of them, or as many."""
    import cupy

    rows = side if rows is None else rows
    random = cupy.random.default_rng(seed)
    vertices = cupy.arange(rows * side, dtype=cupy.uint64)
    right = vertices[(vertices % side != side - 1) & (random.random(len(vertices)) < kept)]
    below = vertices[(vertices < side * (rows - 1)) & (random.random(len(vertices)) < kept)]
    u = cupy.concatenate([right, below])
    v = cupy.concatenate([right + np.uint64(1), below + np.uint64(side)])
    return symmetric(u, v, rows * side, name or f"grid_{side}", seed)


def symmetric(u: Any, v: Any, vertices: int, name: str, seed: int) -> Graph:
    """The graph of different undirected edges without loops, given on the device as uint64; its CSC is made along."""
    import cupy

    bits = np.uint64(max(1, int(vertices - 1).bit_length()))
    keys = cupy.sort(cupy.concatenate([(u << bits) | v, (v << bits) | u]))
    sources, others = keys >> bits, keys & np.uint64((1 << int(bits)) - 1)
    offsets = cupy.zeros(vertices + 1, cupy.int64)
    offsets[1:] = cupy.cumsum(cupy.bincount(sources.astype(cupy.int64), minlength=vertices))
    reverse = cupy.searchsorted(keys, (others << bits) | sources).astype(cupy.uint32)
    weights = cupy.random.default_rng(seed).random(len(keys), dtype=cupy.float32) + np.float32(0.1)
    csr = Adjacency(offsets.get(), others.astype(cupy.uint32).get())
    graph = Graph(csr, name=name, directed=False, weights=weights.get())
    # Every arc has its reverse, so both directions list the same rows.
    graph.__dict__["csc"] = Adjacency(graph.csr.offsets, graph.csr.neighbours, reverse.get())
    graph.__dict__["has_reverse_edges"] = True
    graph.__dict__["in_weights"] = weights[reverse].get()
    del keys, sources, others, reverse, weights
    cupy.get_default_memory_pool().free_all_blocks()
    return graph


def delaunay_edges(vertices: int, seed: int = 1) -> NDArray[np.uint64]:
    """The undirected edges of a Delaunay triangulation of random points, uint64 [2, E]; the points are numbered along a
    curve that fills the square, as meshes are numbered with locality."""
    from scipy.spatial import Delaunay

    points = np.random.default_rng(seed).random((vertices, 2))
    cells = (points * 1024).astype(np.uint64)
    order = np.argsort(_interleaved(cells[:, 0]) | (_interleaved(cells[:, 1]) << np.uint64(1)), kind="stable")
    triangles = Delaunay(points[order]).simplices.astype(np.uint64)
    pairs = np.concatenate([triangles[:, [0, 1]], triangles[:, [1, 2]], triangles[:, [2, 0]]])
    keys = np.unique((pairs.min(axis=1) << np.uint64(32)) | pairs.max(axis=1))
    return np.stack([keys >> np.uint64(32), keys & np.uint64(0xFFFFFFFF)])


def _interleaved(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Every bit of 16 spread to the even places."""
    for shift, mask in ((8, 0x00FF00FF), (4, 0x0F0F0F0F), (2, 0x33333333), (1, 0x55555555)):
        x = (x | (x << np.uint64(shift))) & np.uint64(mask)
    return x


def save_delaunay(vertices: int, path: str) -> None:
    """Keep :func:`delaunay_edges` as a file (.npy)."""
    np.save(path, delaunay_edges(vertices))


class DelaunayMaker:
    """Triangulates in a process of its own while other work goes on; it hands the edges over as a file, since taking
    them through a pipe would hold up whoever is timed meanwhile."""

    def __init__(self, vertices: int) -> None:
        self.vertices = vertices
        self.folder = tempfile.TemporaryDirectory()
        self.path = str(Path(self.folder.name) / "edges.npy")
        self.process = get_context("spawn").Process(target=save_delaunay, args=(vertices, self.path), daemon=True)
        self.process.start()

    @property
    def ready(self) -> bool:
        """Whether :meth:`graph` need not wait."""
        return not self.process.is_alive()

    def graph(self, name: str = "") -> Graph:
        """The graph, as soon as it is there. Raises RuntimeError where the process has failed."""
        import cupy

        self.process.join()
        if self.process.exitcode:
            raise RuntimeError(
                f"the triangulation of {self.vertices:,} points ended with status {self.process.exitcode}"
            )
        u, v = (cupy.asarray(side) for side in np.load(self.path))
        self.stop()
        return symmetric(u, v, self.vertices, name or f"delaunay_{self.vertices}", 1)

    def stop(self) -> None:
        """End the process, done or not."""
        self.process.terminate()
        self.process.join()
        self.folder.cleanup()
