"""Pseudo-random numbers for pairs of vertices by hashing: independent of a graph's other edges, without a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def hashed_pairs(
    one: NDArray[np.unsignedinteger[Any]], other: NDArray[np.unsignedinteger[Any]], seed: int, streams: Sequence[int]
) -> NDArray[np.uint64]:
    """Return numbers uint64[streams, n] for ``n`` pairs of vertices, in either order, ``seed`` and ``streams``.

    The hash is the finaliser of MurmurHash3 over the pair of vertices, shifted by the odd constants of SplitMix64.
    """
    pairs = np.minimum(one, other).astype(np.uint64) << np.uint64(32)
    pairs += np.maximum(one, other)
    starts = [(seed * 0x9E3779B97F4A7C15 + stream * 0xBF58476D1CE4E5B9) % 2**64 for stream in streams]
    numbers: NDArray[np.uint64] = np.add.outer(np.array(starts, np.uint64), pairs)
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        numbers ^= numbers >> np.uint64(33)
        numbers *= np.uint64(factor)
    numbers ^= numbers >> np.uint64(33)
    return numbers
