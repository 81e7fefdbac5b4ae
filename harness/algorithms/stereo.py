"""Stereo matching: the likelihood of k disparities at each pixel of a pair of pictures, and the share of wrong ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from harness.graph import Graph

WEIGHT = 0.07  # per grey step of 1/255 (Felzenszwalb & Huttenlocher 2006, sec. 6)
TRUNCATION = 15.0  # grey steps of 1/255, same source


def disparities(graph: Graph, features: int) -> NDArray[np.float64]:
    """Return the disparity of each label in pixels, float64[k]: evenly spaced from 0 over the graph's "range"."""
    return np.asarray(np.arange(features) * (float(graph.meta["range"]) / features), np.float64)


def matching(graph: Graph, features: int) -> NDArray[np.float64]:
    """Return exp(-WEIGHT * min(|left - right shifted|, TRUNCATION)), with the mean over colours; float64[V, k].

    The right picture is interpolated between pixels. A disparity that leads outside of it counts as a truncated
    difference.
    """
    height, width = int(graph.meta["height"]), int(graph.meta["width"])
    left, right = (
        255.0 * np.asarray(graph.vertex_data[side], np.float64).reshape(height, width, -1) for side in ("left", "right")
    )
    fits = np.empty((height, width, features))
    column = np.arange(width)
    for label, disparity in enumerate(disparities(graph, features)):
        place = column - disparity
        low = np.clip(np.floor(place).astype(np.int64), 0, width - 1)
        share = np.clip(place - low, 0.0, 1.0)[None, :, None]
        shifted = (1 - share) * right[:, low] + share * right[:, np.minimum(low + 1, width - 1)]
        difference = np.abs(left - shifted).mean(axis=2)
        difference[:, place < 0] = TRUNCATION
        fits[:, :, label] = np.exp(-WEIGHT * np.minimum(difference, TRUNCATION))
    return fits.reshape(height * width, features)


def bad_pixels(graph: Graph, belief: NDArray[Any]) -> dict[str, float]:
    """Return ``bad_pixels``: the share of pixels of known disparity whose likeliest disparity is wrong.

    It is wrong if it is off by more than one pixel, or by more than the step between labels if that is larger.
    """
    offered = disparities(graph, belief.shape[1])
    truth = np.asarray(graph.vertex_data["disparity"], np.float64)
    known = np.isfinite(truth)
    if not known.any():
        return {}
    step = float(graph.meta["range"]) / belief.shape[1]
    off = np.abs(offered[belief.argmax(axis=1)] - truth)[known]
    return {"bad_pixels": float((off > max(1.0, step)).mean())}
