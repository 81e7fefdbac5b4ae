"""Views of the same vertices, each a graph of its own: the manifolds and the modalities of learning."""

from __future__ import annotations

import functools
import math
import operator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from harness.algorithms.edge_blocks import edge_blocks
from harness.algorithms.hashed_pairs import hashed_pairs
from harness.graph import Graph
from harness.language import InvalidInput

if TYPE_CHECKING:
    import scipy.sparse

VIEWS = ("pixels", "projections", "gradients")
VIEWS_HELP = "some of pixels, projections, gradients, separated by blanks; auto: all, or three drawn views"
DRAWN = 3  # number of modalities of a graph without images
AFFINITY = "affinity"


def number_of_views(views: str) -> int:
    """Return the number of views in a list separated by blanks; *auto* means three.

    Raises InvalidInput for an empty list or a name that is not in VIEWS.
    """
    names = views.split()
    if names == ["auto"]:
        return DRAWN
    for name in names or [""]:
        if name not in VIEWS:
            raise InvalidInput(f"view {name!r} is not known; views is auto, or some of {', '.join(VIEWS)}")
    return len(names)


def joined_views(graph: Graph, views: str, neighbours: int, seed: int) -> Graph:
    """Return the undirected graph of all edges of the views, with affinities ``edge_data["affinity"]`` ``[E, M]``.

    In every view an image is joined with its ``neighbours`` nearest ones, in both directions, with affinity exp(-d^2 /
    sigma^2); sigma is the mean distance of these. The affinity is 0 if only another view has the edge. Views of
    ``vertex_data["pixels"]`` (square images): *pixels*; *projections*, half as many Gaussian projections of them, drawn
    with ``seed``; *gradients*, differences of horizontally and vertically adjacent pixels.

    *auto*: all three if there are images; otherwise the graph itself, see :func:`affinities`. Distances are computed
    between all pairs, in blocks. Raises InvalidInput if the graph lacks the images that the views need.
    """
    number_of_views(views)
    if "pixels" not in graph.vertex_data:
        if views != "auto":
            raise InvalidInput(f"graph {graph.name!r} has no images (vertex data 'pixels'); use views=auto")
        return graph
    if not 1 <= neighbours < graph.num_vertices:
        raise InvalidInput(f"neighbours={neighbours}; it must be 1 to {graph.num_vertices - 1}")
    names = VIEWS if views == "auto" else views.split()
    near = [_nearest(_view(graph, name, seed), neighbours) for name in names]
    edges = functools.reduce(operator.add, near).tocoo()
    return Graph.from_edges(
        edges.row, edges.col, num_vertices=graph.num_vertices, name=f"{graph.name}_views", directed=False,
        labels=graph.labels, vertex_data=graph.vertex_data, meta=graph.meta,
        edge_data={AFFINITY: np.stack([view[edges.row, edges.col] for view in near], axis=1).astype(np.float32)},
    )  # fmt: skip


def affinities(
    graph: Graph, views: str, seed: int, columns: NDArray[np.integer[Any]] | None = None
) -> NDArray[np.float32]:
    """Return the affinity of the ends of every edge in each view, ``[E, M]``: those of :func:`joined_views`.

    ``columns``: the views of the columns of the result, ``[k]``; None: each view once.

    On a graph without them, three modalities are generated: the weights (or 1), each times a number from 0.5 to 1.5.
    The number is a hash of the two ends, the view and ``seed`` (:func:`harness.algorithms.hashed_pairs.hashed_pairs`).
    So affinities are symmetric, and do not change when other edges are added or removed.

    Raises InvalidInput for negative weights.
    """
    count = number_of_views(views)
    columns = np.arange(count) if columns is None else columns
    if AFFINITY in graph.edge_data:
        return np.asarray(graph.edge_data[AFFINITY], np.float32).take(columns, axis=1)
    weights = graph.weights
    if weights is not None and len(weights) and float(weights.min()) < 0:
        raise InvalidInput(f"affinities are >= 0; graph {graph.name!r} has negative weights")
    found = np.empty((graph.num_edges, len(columns)), np.float32)
    for part, sources, destinations in edge_blocks(graph):
        drawn = 0.5 + hashed_pairs(sources, destinations, seed, range(1, 1 + count)) / 2.0**64
        if weights is not None:
            drawn *= weights[part]
        found[part] = drawn.T.astype(np.float32).take(columns, axis=1)
    return found


def _view(graph: Graph, name: str, seed: int) -> NDArray[np.float64]:
    pixels = np.asarray(graph.vertex_data["pixels"], np.float64)
    count = pixels.shape[1]
    if name == "projections":
        return np.asarray(pixels @ np.random.default_rng(seed).standard_normal((count, max(1, count // 2))))
    if name == "gradients":
        side = math.isqrt(count)
        if side * side != count:
            raise InvalidInput(f"graph {graph.name!r}: gradients need square images; these have {count} pixels")
        image = pixels.reshape(-1, side, side)
        return np.hstack([np.diff(image, axis=axis).reshape(len(pixels), -1) for axis in (1, 2)])
    return pixels


def _nearest(points: NDArray[np.float64], neighbours: int) -> scipy.sparse.csr_array:
    """Return the affinities ``[V, V]`` of points ``[V, d]`` with their nearest ones; ties go to the lower index."""
    import scipy.sparse

    count, block = len(points), 1024
    length = (points**2).sum(axis=1)
    nearest: NDArray[Any] = np.empty((count, neighbours), np.int64)
    distance = np.empty((count, neighbours))
    for first in range(0, count, block):
        rows = np.arange(first, min(first + block, count))
        squared = length[rows, None] + length - 2 * points[rows] @ points.T
        squared[rows - first, rows] = np.inf
        nearest[rows] = np.argsort(squared, axis=1, kind="stable")[:, :neighbours]
        distance[rows] = np.sqrt(np.maximum(np.take_along_axis(squared, nearest[rows], axis=1), 0))
    sigma = float(distance.mean()) or 1.0
    ends = (np.repeat(np.arange(count), neighbours), nearest.ravel())
    one_way = scipy.sparse.csr_array((np.exp(-((distance.ravel() / sigma) ** 2)), ends), shape=(count, count))
    return one_way.maximum(one_way.T).tocsr()
