"""Photographs as pixel graphs, from the images that the scikit-image package contains."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from harness.graph.errors import GraphError
from harness.graph.generators.grid import lattice_edges
from harness.graph.graph import Graph
from harness.graph.named import uses

IMAGES = (
    "astronaut", "brick", "camera", "cell", "chelsea", "clock", "coffee", "coins", "grass", "gravel", "horse",
    "hubble_deep_field", "immunohistochemistry", "microaneurysms", "moon", "page", "retina", "rocket", "text",
)  # fmt: skip
LEAST_WEIGHT = 1e-6  # float32 would round the weight across a sharp contour to zero and disconnect the graph


@uses("scikit-image", extra="data")
def photo(image: str = "astronaut", neighbours: int = 4, beta: float | None = None) -> Graph:
    """Return the undirected graph of the pixels, each joined to its 4 or 8 neighbours; vertex = row * width + column.

    An edge has the weight max(exp(-beta * c^2), 1e-6); c is the Euclidean distance of the colours (channels in 0..1).
    beta None: 1 / (2 * mean of c^2 over all edges), as in Rother, Kolmogorov and Blake, "GrabCut", 2004.
    vertex_data["colour"] is float32[V, 3]; grey images have three equal channels. meta has "height" and "width".
    Raises GraphError for invalid parameters.
    """
    check_photo(image, neighbours)
    colour = _colours(image)
    height, width = colour.shape[:2]
    colour = colour.reshape(-1, 3)
    u, v = lattice_edges(height, width, diagonals=neighbours == 8)
    squared = ((colour[u] - colour[v]) ** 2).sum(axis=1, dtype=np.float64)
    if beta is None:
        mean = float(squared.mean())
        beta = 1 / (2 * mean) if mean > 0 else 0.0
    return Graph.from_edges(
        u,
        v,
        num_vertices=height * width,
        weights=np.maximum(np.exp(-beta * squared), LEAST_WEIGHT),
        name=f"photo_{image}_{neighbours}",
        symmetrize=True,
        vertex_data={"colour": colour},
        meta={
            "origin": f"scikit-image data.{image}",
            "height": height,
            "width": width,
            "neighbours": neighbours,
            "beta": beta,
        },
    )


def _colours(image: str) -> NDArray[np.float32]:
    """Return the image as float32[height, width, 3] in 0..1."""
    import skimage.data

    pixels = np.asarray(getattr(skimage.data, image)())
    scaled = pixels.astype(np.float32) if pixels.dtype == bool else pixels.astype(np.float32) / np.float32(255)
    return np.repeat(scaled[:, :, None], 3, axis=2) if scaled.ndim == 2 else scaled[:, :, :3]


@uses("scikit-image", extra="data")
def check_photo(image: str, neighbours: int) -> None:
    """Raise GraphError for invalid parameters of `photo`."""
    if image not in IMAGES or neighbours not in (4, 8):
        raise GraphError(
            f"photo: image={image!r}, neighbours={neighbours}; images are {', '.join(IMAGES)}, neighbours 4 or 8"
        )
