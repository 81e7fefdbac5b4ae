"""The motorcycle of the Middlebury stereo benchmark as a pixel graph, from the images that scikit-image contains.

D. Scharstein et al., "High-resolution stereo datasets with subpixel-accurate ground truth", GCPR 2014; scikit-image
contains it at a quarter of its size, 500 x 741.
"""

from __future__ import annotations

import importlib.resources

import numpy as np
from numpy.typing import NDArray

from harness.graph.errors import GraphError
from harness.graph.generators.grid import lattice_edges
from harness.graph.graph import Graph
from harness.graph.named import uses

RANGE = 64  # search range of disparities in pixels, for shrink=1; the true ones are 7.2 to 59.9


@uses("scikit-image", extra="data")
def motorcycle(shrink: int = 1, neighbours: int = 4) -> Graph:
    """Return the undirected graph of the left image's pixels, each joined to its 4 or 8 neighbours.

    The vertex of a pixel is row * width + column. shrink (1..16): blocks of shrink x shrink pixels become one, with the
    mean of their colours and the disparity of the middle one divided by `shrink`. vertex_data: "left" and "right",
    float32[V, 3], the colours in 0..1 at the same place of the two images; "disparity", float32[V], NaN if unknown: the
    point at (row, column) on the left is at (row, column - disparity) on the right. meta: "height", "width", "range"
    (disparities lie in 0 .. range, excluded). Raises GraphError for invalid parameters.
    """
    check_motorcycle(shrink, neighbours)
    left, right = (_shrunk(_picture(f"motorcycle_{side}.png"), shrink) for side in ("left", "right"))
    height, width = left.shape[:2]
    middle = slice(shrink // 2, None, shrink)
    disparity = _disparities()[middle, middle][:height, :width] / np.float32(shrink)
    disparity = np.where(np.isfinite(disparity), disparity, np.float32(np.nan))
    u, v = lattice_edges(height, width, diagonals=neighbours == 8)
    return Graph.from_edges(
        u,
        v,
        num_vertices=height * width,
        name=f"motorcycle_{shrink}_{neighbours}",
        symmetrize=True,
        vertex_data={"left": left.reshape(-1, 3), "right": right.reshape(-1, 3), "disparity": disparity.ravel()},
        meta={
            "origin": "scikit-image data.stereo_motorcycle",
            "height": height,
            "width": width,
            "neighbours": neighbours,
            "range": RANGE // shrink,
        },
    )


def _shrunk(picture: NDArray[np.float32], shrink: int) -> NDArray[np.float32]:
    height, width = (size // shrink for size in picture.shape[:2])
    blocks = picture[: height * shrink, : width * shrink].reshape(height, shrink, width, shrink, 3)
    mean: NDArray[np.float32] = blocks.mean(axis=(1, 3), dtype=np.float64).astype(np.float32)
    return mean


def _picture(file: str) -> NDArray[np.float32]:
    """Return an image as float32[height, width, 3] in 0..1."""
    from PIL import Image  # a dependency of scikit-image

    with importlib.resources.files("skimage.data").joinpath(file).open("rb") as stream, Image.open(stream) as image:
        return np.asarray(image.convert("RGB"), np.float32) / np.float32(255)


def _disparities() -> NDArray[np.float32]:
    """Return the disparities as float32[height, width], infinite where unknown."""
    resource = importlib.resources.files("skimage.data").joinpath("motorcycle_disp.npz")
    with resource.open("rb") as stream, np.load(stream, allow_pickle=False) as arrays:
        return np.asarray(arrays["arr_0"], np.float32)


@uses("scikit-image", extra="data")
def check_motorcycle(shrink: int, neighbours: int) -> None:
    """Raise GraphError for invalid parameters of `motorcycle`."""
    if not 1 <= shrink <= 16 or neighbours not in (4, 8):
        raise GraphError(f"motorcycle: shrink={shrink}, neighbours={neighbours}; shrink is 1..16, neighbours 4 or 8")
