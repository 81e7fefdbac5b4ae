"""Denoising: a photograph of k grey levels with added noise, and the share of clean levels that is recovered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from harness.language import InvalidInput

if TYPE_CHECKING:
    from harness.graph import Graph


def clean_levels(graph: Graph, features: int) -> NDArray[np.int64]:
    """Quantise the photograph to k equal grey levels, int64[V] in 0..k-1; grey is the mean of vertex data "colour"."""
    grey = np.asarray(graph.vertex_data["colour"], np.float64).reshape(graph.num_vertices, -1).mean(axis=1)
    return np.asarray(np.clip(np.floor(grey * features), 0, features - 1), np.int64)


def noisy_levels(graph: Graph, features: int, noise: float, seed: int) -> NDArray[np.float64]:
    """Add normal noise of standard deviation ``noise``, in levels, to the clean levels; float64[V]. Raises
    InvalidInput."""
    if noise <= 0:
        raise InvalidInput(f"noise={noise}: the noise put on the picture, in grey levels, must be positive")
    drawn = np.random.default_rng(seed).standard_normal(graph.num_vertices)
    return clean_levels(graph, features) + noise * drawn


def likelihood(graph: Graph, features: int, noise: float, seed: int) -> NDArray[np.float64]:
    """Return the likelihood of each level at each pixel of the noisy picture, scaled to a maximum of 1; float64[V,
    k]."""
    away = (noisy_levels(graph, features, noise, seed)[:, None] - np.arange(features)) / noise
    energy = away**2 / 2
    return np.asarray(np.exp(energy.min(axis=1, keepdims=True) - energy))


def agreement(graph: Graph, belief: NDArray[Any], noise: float, seed: int) -> dict[str, float]:
    """Return ``agreement``, the share of pixels with the clean level, and ``noisy_agreement``.

    ``noisy_agreement`` is the share of pixels whose nearest level was the clean one before denoising.
    """
    features = belief.shape[1]
    clean = clean_levels(graph, features)
    nearest = np.clip(np.rint(noisy_levels(graph, features, noise, seed)), 0, features - 1)
    return {
        "agreement": float((belief.argmax(axis=1) == clean).mean()),
        "noisy_agreement": float((nearest == clean).mean()),
    }
