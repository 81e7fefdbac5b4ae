"""The content hash of a graph."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable

import numpy as np

from harness.graph.adjacency import Array

DIGEST_BYTES = 20


def content_hash(given: Iterable[tuple[str, Array]], *, directed: bool, bipartite: tuple[int, int] | None) -> str:
    """Return the hexadecimal BLAKE2b of a graph's kind and arrays (little-endian, with names, dtypes and shapes)."""
    digest = hashlib.blake2b(digest_size=DIGEST_BYTES)
    arrays = [(place, np.asarray(array, dtype=array.dtype.newbyteorder("<"))) for place, array in given]
    head = {
        "directed": directed,
        "bipartite": bipartite,
        "arrays": [[place, array.dtype.str, array.shape] for place, array in arrays],
    }
    digest.update(json.dumps(head, sort_keys=True).encode())
    for _, array in arrays:
        digest.update(array.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()
