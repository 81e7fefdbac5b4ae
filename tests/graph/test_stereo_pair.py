"""The motorcycle stereo pair as a pixel graph."""

import importlib.resources

import numpy as np
import pytest
from PIL import Image

from harness.graph import GraphError, open_graph
from harness.graph.catalogue import BUILTIN_GRAPHS, motorcycle

SPEC = {spec.name: spec for spec in BUILTIN_GRAPHS}["motorcycle"]
FOLDER = importlib.resources.files("skimage.data")


def test_the_full_pair_is_the_published_one():
    graph = open_graph(SPEC)
    graph.validate()
    assert (graph.num_vertices, graph.num_edges) == (500 * 741, 2 * (2 * 500 * 741 - 500 - 741))
    assert (graph.meta["height"], graph.meta["width"], graph.meta["range"]) == (500, 741, 64)
    for side in ("left", "right"):
        with FOLDER.joinpath(f"motorcycle_{side}.png").open("rb") as stream, Image.open(stream) as image:
            pixels = np.asarray(image.convert("RGB"))
        assert np.array_equal((graph.vertex_data[side] * 255).round().reshape(500, 741, 3), pixels)
    with FOLDER.joinpath("motorcycle_disp.npz").open("rb") as stream, np.load(stream) as arrays:
        truth = arrays["arr_0"].ravel()
    known = np.isfinite(truth)
    assert np.array_equal(np.isnan(graph.vertex_data["disparity"]), ~known)
    assert np.array_equal(graph.vertex_data["disparity"][known], truth[known])
    assert 0 < truth[known].min() <= truth[known].max() < graph.meta["range"]


def test_pixels_of_the_right_picture_are_shifted_left_by_the_disparity():
    graph = motorcycle(shrink=2)
    height, width = graph.meta["height"], graph.meta["width"]
    left, right = (graph.vertex_data[side].reshape(height, width, 3) for side in ("left", "right"))
    disparity = graph.vertex_data["disparity"].reshape(height, width)
    row, column = np.nonzero(np.isfinite(disparity))

    def difference(sign):
        there = column + sign * disparity[row, column].round().astype(int)
        inside = (there >= 0) & (there < width)
        at = row[inside], column[inside]
        return float(np.abs(left[at] - right[row[inside], there[inside]]).mean())

    assert difference(-1) < 0.6 * difference(0)
    assert difference(-1) < 0.6 * difference(1)


def test_blocks_of_pixels_become_their_mean():
    whole, half = motorcycle(), motorcycle(shrink=4, neighbours=8)
    assert (half.meta["height"], half.meta["width"], half.meta["range"]) == (125, 185, 16)
    assert half.num_edges == 2 * (2 * 125 * 185 - 125 - 185 + 2 * 124 * 184)
    left = whole.vertex_data["left"].reshape(500, 741, 3)
    np.testing.assert_allclose(half.vertex_data["left"][186], left[4:8, 4:8].mean(axis=(0, 1)), rtol=1e-5)
    disparity = whole.vertex_data["disparity"].reshape(500, 741)
    np.testing.assert_array_equal(half.vertex_data["disparity"][186], disparity[6, 6] / 4)


@pytest.mark.parametrize("wrong", [{"shrink": 0}, {"shrink": 17}, {"neighbours": 5}])
def test_impossible_parameters_are_refused(wrong):
    with pytest.raises(GraphError, match=r"shrink is 1\.\.16, neighbours 4 or 8"):
        motorcycle(**wrong)
