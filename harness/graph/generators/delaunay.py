"""Delaunay triangulations of random points, like the delaunay_n* graphs of the 10th DIMACS Challenge."""

from __future__ import annotations

import numpy as np

from harness.graph.errors import GraphError
from harness.graph.graph import Graph


def delaunay(num_vertices: int = 65536, seed: int = 1, weighted: bool = True) -> Graph:
    """Return the Delaunay triangulation of points drawn uniformly from the unit square, undirected.

    Weights are Euclidean lengths, or absent if `weighted` is False. vertex_data["position"] is float32[V, 2]. Raises
    GraphError for fewer than 3 vertices.
    """
    from scipy.spatial import Delaunay

    check_delaunay(num_vertices)
    points = np.random.default_rng(seed).random((num_vertices, 2))
    triangles = Delaunay(points).simplices.astype(np.int32)
    u = np.concatenate([triangles[:, 0], triangles[:, 1], triangles[:, 2]])
    v = np.concatenate([triangles[:, 1], triangles[:, 2], triangles[:, 0]])
    del triangles
    weights = None
    if weighted:
        weights = np.hypot(points[u, 0] - points[v, 0], points[u, 1] - points[v, 1]).astype(np.float32)
    return Graph.from_edges(
        u,
        v,
        num_vertices=num_vertices,
        weights=weights,
        name=f"delaunay_{num_vertices}",
        symmetrize=True,
        duplicates="min",  # an inner edge belongs to two triangles
        vertex_data={"position": points.astype(np.float32)},
        meta={"generator": "delaunay", "seed": seed},
    )


def check_delaunay(num_vertices: int) -> None:
    """Raise GraphError for invalid parameters of `delaunay`."""
    if num_vertices < 3:
        raise GraphError(f"delaunay: num_vertices={num_vertices}; a triangulation needs at least 3 points")
