"""The content hash of a graph."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from harness.graph.adjacency import Array
from harness.graph.file_maps import release_pages

DIGEST_BYTES = 20
LARGE = 1 << 32  # bytes of an array from which on its blocks are hashed on all cores: one hashes 1 GB a second
BLOCK = 1 << 26  # bytes


def content_hash(given: Iterable[tuple[str, Array]], *, directed: bool, bipartite: tuple[int, int] | None) -> str:
    """Return the hexadecimal BLAKE2b of a graph's kind and arrays (little-endian, with names, dtypes and shapes).

    An array of LARGE bytes and more is represented by the BLAKE2b of each of its blocks of BLOCK bytes.
    """
    digest = hashlib.blake2b(digest_size=DIGEST_BYTES)
    arrays = [(place, np.asarray(array, dtype=array.dtype.newbyteorder("<"))) for place, array in given]
    head = {
        "directed": directed,
        "bipartite": bipartite,
        "arrays": [[place, array.dtype.str, array.shape] for place, array in arrays],
    }
    digest.update(json.dumps(head, sort_keys=True).encode())
    for _, array in arrays:
        values = array.reshape(-1).view(np.uint8)
        digest.update(values.data if values.size < LARGE else _of_blocks(values))
    return digest.hexdigest()


def _of_blocks(values: Array) -> bytes:
    """Return the digests of the blocks of an array of bytes, in order."""

    def of_block(first: int) -> bytes:
        part = values[first : first + BLOCK]
        found = hashlib.blake2b(part.data, digest_size=DIGEST_BYTES).digest()
        release_pages(part)
        return found

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        return b"".join(pool.map(of_block, range(0, values.size, BLOCK)))
