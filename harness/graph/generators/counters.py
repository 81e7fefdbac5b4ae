"""Random numbers by their number: any thread computes any of them, so that graphs do not depend on threads.

Number ``i`` of a stream is output ``i`` of SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number
generators", 2014) from the key of the stream.
"""

# mypy: allow-untyped-decorators
from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

GAMMA, FIRST, SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB  # of SplitMix64
BY_INVERSION = 10.0  # Poisson variables of smaller means are drawn by inversion
ATTEMPTS = 1 << 32  # numbers of a vertex's draws are this far apart, as there are no more vertices

_GAMMA, _FIRST, _SECOND = np.uint64(GAMMA), np.uint64(FIRST), np.uint64(SECOND)
_S11, _S27, _S30, _S31 = np.uint64(11), np.uint64(27), np.uint64(30), np.uint64(31)
_ATTEMPTS = np.uint64(ATTEMPTS)
_ONE, _TWO = np.uint64(1), np.uint64(2)


def key_of(seed: int, stream: int) -> np.uint64:
    """Return the key of a stream of a seed."""
    one = np.array([seed % (1 << 64)], np.uint64)
    return np.uint64(number(np.uint64(number(one[0], np.uint64(0))), np.uint64(stream)))


@njit(cache=True, inline="always")  # pragma: no cover - compiled
def number(key: Any, i: Any) -> Any:
    """Return number ``i`` of the stream with a key: uniform in 0 .. 2^64 - 1, uint64."""
    z = key + (i + _ONE) * _GAMMA
    z = (z ^ (z >> _S30)) * _FIRST
    z = (z ^ (z >> _S27)) * _SECOND
    return z ^ (z >> _S31)


@njit(cache=True, inline="always")  # pragma: no cover - compiled
def uniform(key: Any, i: Any) -> Any:
    """Return number ``i`` of a stream as one of the 2^53 midpoints of equal parts of the interval (0, 1)."""
    return (np.float64(number(key, i) >> _S11) + 0.5) * 2.0**-53


@njit(nogil=True, cache=True)  # pragma: no cover - compiled
def poisson(mean: float, key: Any, v: Any) -> Any:
    """Return a Poisson variable, the one of vertex ``v`` < 2^32 in a stream.

    Small means are inverted. For others, transformed rejection (Hörmann, "The transformed rejection method for
    generating Poisson random variables", 1993, algorithm PTRS) draws pairs of numbers until one is accepted.
    """
    if mean < BY_INVERSION:
        u = uniform(key, v)
        k, share = 0, math.exp(-mean)
        below = share
        while u > below and share > 0:
            k += 1
            share *= mean / k
            below += share
        return k
    b = 0.931 + 2.53 * math.sqrt(mean)
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    inside = 0.9277 - 3.6224 / (b - 2)
    attempt = np.uint64(0)
    while True:
        u = uniform(key, attempt * _ATTEMPTS + v) - 0.5
        w = uniform(key, (attempt + _ONE) * _ATTEMPTS + v)
        attempt += _TWO
        distance = 0.5 - abs(u)
        k = math.floor((2 * a / distance + b) * u + mean + 0.43)
        if distance >= 0.07 and w <= inside:
            return k
        if k < 0 or (distance < 0.013 and w > distance):
            continue
        accepted = math.log(w) + math.log(inverse_alpha) - math.log(a / (distance * distance) + b)
        if accepted <= -mean + k * math.log(mean) - math.lgamma(k + 1.0):
            return k
