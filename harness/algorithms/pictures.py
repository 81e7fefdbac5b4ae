"""Pictures of an answer on a pixel graph."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from harness.graph import Graph


def write_segmentation(graph: Graph, label: NDArray[Any], path: Path) -> None:
    """Write a PNG in which every pixel has the mean colour of its segment; ``label``: ``[V]`` ints.

    The graph's ``meta`` gives height and width, its vertex data ``colour`` ``[V, channels]`` in 0..1.
    """
    from PIL import Image  # installed with the photographs' package

    height, width = int(graph.meta["height"]), int(graph.meta["width"])
    colour = np.asarray(graph.vertex_data["colour"], np.float64).reshape(len(label), -1)
    count = np.maximum(np.bincount(label), 1)
    mean = np.stack([np.bincount(label, colour[:, c]) / count for c in range(colour.shape[1])], axis=1)
    picture = np.clip(mean[label] * 255.0, 0, 255).astype(np.uint8)
    Image.fromarray(np.broadcast_to(picture, (len(label), 3)).reshape(height, width, 3)).save(path)
