"""Handwritten digits as a nearest-neighbour graph with true labels.

E. Alpaydin and C. Kaynak, "Optical Recognition of Handwritten Digits", UCI Machine Learning Repository, 1998, as
distributed with scikit-learn: 1797 images of 8 x 8 pixels with values 0..16.
"""

from __future__ import annotations

import numpy as np

from harness.graph.errors import GraphError
from harness.graph.graph import Graph
from harness.graph.named import uses

COUNT = 1797  # images


@uses("scikit-learn", extra="data")
def check_digits(neighbours: int) -> None:
    """Raise GraphError for invalid parameters of `digits`."""
    if not 1 <= neighbours < COUNT:
        raise GraphError(f"digits: neighbours={neighbours}; it must be 1..{COUNT - 1}")


@uses("scikit-learn", extra="data")
def digits(neighbours: int = 10) -> Graph:
    """Return the undirected graph that joins each image to its `neighbours` nearest images; ties go to the first.

    An edge has the weight exp(-d^2 / sigma^2): d is the Euclidean distance of the images, sigma the mean distance over
    all (image, near neighbour) pairs, 20.7 for 10 neighbours. labels are the digits 0..9; vertex_data["pixels"] is
    float32[V, 64]. Raises GraphError for invalid parameters.
    """
    from sklearn.datasets import load_digits

    check_digits(neighbours)
    pixels, labels = load_digits(return_X_y=True)
    count = pixels.shape[0]
    lengths = (pixels**2).sum(axis=1)
    squared = lengths[:, None] + lengths - 2 * pixels @ pixels.T  # exact: pixels are small integers
    np.fill_diagonal(squared, np.inf)
    nearest = np.argsort(squared, axis=1, kind="stable")[:, :neighbours]
    distance = np.sqrt(np.take_along_axis(squared, nearest, axis=1)).ravel()
    sigma = float(distance.mean())
    return Graph.from_edges(
        np.repeat(np.arange(count), neighbours),
        nearest.ravel(),
        num_vertices=count,
        weights=np.exp(-((distance / sigma) ** 2)),
        name=f"digits_{neighbours}",
        symmetrize=True,
        duplicates="min",
        labels=labels,
        vertex_data={"pixels": pixels.astype(np.float32)},
        meta={"origin": "scikit-learn load_digits", "classes": 10, "neighbours": neighbours, "sigma": sigma},
    )
