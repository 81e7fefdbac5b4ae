"""Digests of arrays, to detect that a cached or shared array has changed."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import xxhash

from harness.graph.adjacency import Array
from harness.graph.file_maps import in_parts

# Threads are faster above this size; xxhash releases the interpreter's lock.
_BYTES_FOR_THREADS = 32_000_000
_MOST_THREADS = 4


def array_digest(array: Array) -> str:
    """Return the hexadecimal XXH3 (128 bits) of an array's dtype, shape and values in C order.

    It finds changes by accident, at the speed of memory; it is no protection against chosen values.
    """
    plain = np.ascontiguousarray(array)
    hashed = xxhash.xxh3_128(f"{plain.dtype.str}{array.shape}".encode())
    for part in in_parts(plain.reshape(-1)):
        hashed.update(part.view(np.uint8).data)
    return hashed.hexdigest()


def array_digests(arrays: Mapping[str, Array]) -> dict[str, str]:
    """Return the :func:`array_digest` of each array by name; large arrays are hashed on several threads."""
    if sum(array.nbytes for array in arrays.values()) < _BYTES_FOR_THREADS:
        return {name: array_digest(array) for name, array in arrays.items()}
    with ThreadPoolExecutor(min(_MOST_THREADS, len(os.sched_getaffinity(0)))) as threads:
        return dict(zip(arrays, threads.map(array_digest, arrays.values()), strict=True))


def text_digest(data: object) -> str:
    """Return the hexadecimal BLAKE2b of plain data in its canonical JSON form."""
    return hashlib.blake2b(json.dumps(data, sort_keys=True).encode(), digest_size=16).hexdigest()
