"""Delaunay triangulations of random points, like the delaunay_n* graphs of the 10th DIMACS Challenge."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from harness.graph.errors import GraphError
from harness.graph.graph import Graph

if TYPE_CHECKING:
    from numpy.typing import NDArray


def delaunay(num_vertices: int = 65536, seed: int = 1, weighted: bool = True, local: bool = False) -> Graph:
    """Return the Delaunay triangulation of points drawn uniformly from the unit square, undirected.

    Weights are Euclidean lengths, or absent if `weighted` is False. If `local`, vertices are numbered along a Z curve
    (Morton 1966), so that most neighbours have near numbers, as in published meshes; otherwise at random.
    vertex_data["position"] is float32[V, 2]. Raises GraphError for fewer than 3 vertices.
    """
    from scipy.spatial import Delaunay

    check_delaunay(num_vertices)
    points = np.random.default_rng(seed).random((num_vertices, 2))
    if local:
        points = points[np.argsort(_along_z_curve(points), kind="stable")]
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
        name=f"delaunay_{num_vertices}{'_local' if local else ''}",
        symmetrize=True,
        duplicates="min",  # an inner edge belongs to two triangles
        vertex_data={"position": points.astype(np.float32)},
        meta={"generator": "delaunay", "seed": seed},
    )


def _along_z_curve(points: NDArray[np.float64]) -> NDArray[np.uint64]:
    """Return the place of each point of the unit square [n, 2] on the curve: the bits of its coordinates by turns."""
    bits = (points * (1 << 16)).astype(np.uint64)
    for shift, mask in ((8, 0x00FF00FF), (4, 0x0F0F0F0F), (2, 0x33333333), (1, 0x55555555)):
        bits = (bits | (bits << np.uint64(shift))) & np.uint64(mask)
    return bits[:, 0] | (bits[:, 1] << np.uint64(1))


def check_delaunay(num_vertices: int) -> None:
    """Raise GraphError for invalid parameters of `delaunay`."""
    if num_vertices < 3:
        raise GraphError(f"delaunay: num_vertices={num_vertices}; a triangulation needs at least 3 points")
