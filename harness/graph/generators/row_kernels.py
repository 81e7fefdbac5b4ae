"""Compiled loops over the rows of generated graphs. They release the interpreter's lock."""

# mypy: allow-untyped-decorators
from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from harness.graph.generators.counters import key_of, number, poisson

Array = NDArray[Any]

__all__ = ["even_degrees", "even_rows_of", "even_weights", "key_of", "rmat_degrees", "rmat_rows_of"]

_ZERO, _ONE = np.uint64(0), np.uint64(1)
_LOW, _S32 = np.uint64(0xFFFFFFFF), np.uint64(32)


@njit(cache=True, inline="always")  # pragma: no cover - compiled
def scrambled(x: Any, factors: Any, shift: Any, mask: Any) -> Any:
    """Return another number of as many bits as ``mask``: a permutation of odd ``factors`` and shifts by half."""
    for factor in factors:
        x = (x * factor) & mask
        x ^= x >> shift
    return x


@njit(cache=True, inline="always")  # pragma: no cover - compiled
def unscrambled(x: Any, inverses: Any, shift: Any, mask: Any) -> Any:
    """Return the number of which ``x`` is the permuted one; ``inverses``: of the factors modulo the power of two."""
    for i in range(len(inverses) - 1, -1, -1):
        x ^= x >> shift
        x = (x * inverses[i]) & mask
    return x


@njit(nogil=True, cache=True)  # pragma: no cover - compiled
def rmat_degrees(means: Array, key: Any, inverses: Any, shift: Any, mask: Any, first: int, degrees: Array) -> None:
    """Set the out-degrees of the vertices from ``first`` on. ``means``: by the ones among the bits of a source."""
    for i in range(len(degrees)):
        v = np.uint64(first + i)
        source = unscrambled(v, inverses, shift, mask)
        ones = 0
        while source != _ZERO:
            source &= source - _ONE
            ones += 1
        degrees[i] = poisson(means[ones], key, v)


@njit(nogil=True, cache=True)  # pragma: no cover - compiled
def rmat_rows_of(
    offsets: Array, first: int, last: int, limits: Array, key: Any, scale: int, factors: Any, inverses: Any, shift: Any,
    mask: Any, base: int, neighbours: Array,
) -> None:  # fmt: skip
    """Set the rows ``first..last``. ``neighbours[0]`` is edge ``base``.

    ``limits``: uint64[2], the probabilities of a one in the destination below a zero and a one of the source, in 2^-32.
    Two bits take one random number.
    """
    words = np.uint64((scale + 1) // 2)
    of_bit = np.zeros(scale + 1, np.uint64)
    for v in range(first, last):
        start, stop = offsets[v], offsets[v + 1]
        if start == stop:
            continue
        source = unscrambled(np.uint64(v), inverses, shift, mask)
        for bit in range(scale):
            of_bit[bit] = limits[(source >> np.uint64(bit)) & _ONE]
        for e in range(start, stop):
            counter = np.uint64(e) * words
            found = _ZERO
            for word in range((scale + 1) // 2):
                z = number(key, counter + np.uint64(word))
                found |= np.uint64((z & _LOW) < of_bit[2 * word]) << np.uint64(2 * word)
                found |= np.uint64((z >> _S32) < of_bit[2 * word + 1]) << np.uint64(2 * word + 1)
            neighbours[e - base] = np.uint32(scrambled(found, factors, shift, mask))
        if stop - start > 1:
            neighbours[start - base : stop - base].sort()


@njit(nogil=True, cache=True)  # pragma: no cover - compiled
def even_degrees(least: int, most: int, key: Any, first: int, degrees: Array) -> None:
    """Set the out-degrees of the vertices from ``first`` on: uniform in ``least`` .. ``most``, below 2^32."""
    choices = np.uint64(most - least + 1)
    for i in range(len(degrees)):
        degrees[i] = least + np.int64(below(number(key, np.uint64(first + i)), choices))


@njit(nogil=True, cache=True)  # pragma: no cover - compiled
def even_rows_of(
    offsets: Array, first: int, last: int, num_vertices: int, key: Any, base: int, neighbours: Array
) -> None:
    """Set the rows ``first..last``; destinations are uniform. ``neighbours[0]`` is edge ``base``."""
    choices = np.uint64(num_vertices)
    for v in range(first, last):
        start, stop = offsets[v], offsets[v + 1]
        for e in range(start, stop):
            neighbours[e - base] = np.uint32(below(number(key, np.uint64(e)), choices))
        if stop - start > 1:
            neighbours[start - base : stop - base].sort()


@njit(nogil=True, cache=True)  # pragma: no cover - compiled
def even_weights(most: int, key: Any, first: int, weights: Array) -> None:
    """Set the weights of the edges from ``first`` on: integers, uniform in 1 .. ``most``, below 2^32."""
    choices = np.uint64(most)
    for i in range(len(weights)):
        weights[i] = np.float32(_ONE + below(number(key, np.uint64(first + i)), choices))


@njit(cache=True, inline="always")  # pragma: no cover - compiled
def below(z: Any, choices: Any) -> Any:
    """Return z * choices / 2^64, rounded down: uniform in 0 .. choices - 1 up to choices / 2^64; choices <= 2^32."""
    return ((z >> _S32) * choices + (((z & _LOW) * choices) >> _S32)) >> _S32
