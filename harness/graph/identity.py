"""A graph's identity: the hash of its content."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from harness.graph.graph import Graph

DIGEST_BYTES = 20


def content_hash(graph: Graph) -> str:
    """BLAKE2b over the graph's arrays (little-endian, with names, dtypes and shapes) and its kind, in hexadecimal."""
    digest = hashlib.blake2b(digest_size=DIGEST_BYTES)
    arrays = [(place, np.asarray(array, dtype=array.dtype.newbyteorder("<"))) for place, array in graph.arrays()]
    head = {
        "directed": graph.directed,
        "bipartite": graph.bipartite,
        "arrays": [[place, array.dtype.str, array.shape] for place, array in arrays],
    }
    digest.update(json.dumps(head, sort_keys=True).encode())
    for _, array in arrays:
        digest.update(array.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()
