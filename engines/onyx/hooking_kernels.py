"""Compiled loops of hooking on the CPU, over ranges of vertices on threads of Numba's pool.

A forest is an array of parents, int32[V]. A parent is never larger than its vertex, and a root is its own parent, so
that the root of a tree is its least vertex. Threads hook at the same time: a root gets a parent by compare and swap.

A loop takes the range ``ends[part]`` to ``ends[part + 1] - 1``. Two loops have a wait between them.
"""

# mypy: allow-untyped-calls, allow-untyped-decorators
from __future__ import annotations

from typing import Any

import numpy as np
from numba import int32, njit
from numpy.typing import NDArray

from harness.api.cpu import exchange_if, launch, publish, published

Array = NDArray[Any]


@njit(nogil=True, cache=True)  # pragma: no cover - compiled
def root_of(parent: Array, v: int) -> int:
    """Return the root of a vertex, and halve the path to it."""
    while True:
        above = published(parent, v)
        if above == v:
            return above
        beyond = published(parent, above)
        if beyond != above:
            publish(parent, v, beyond)
        v = beyond


@njit(nogil=True, cache=True)  # pragma: no cover - compiled
def hook(parent: Array, u: int, v: int) -> None:
    """Join the trees of both ends of an edge: the larger root gets the smaller one as its parent."""
    while True:
        u, v = root_of(parent, int32(u)), root_of(parent, int32(v))
        if u == v:
            return
        larger, smaller = max(u, v), min(u, v)
        if exchange_if(parent, larger, larger, smaller):
            return


@njit(nogil=True, error_model="numpy", _nrt=False)  # pragma: no cover - compiled
def begin(part: int, worker: int, ends: Array, parent: Array) -> None:
    """Make each vertex a tree."""
    for v in range(ends[part], ends[part + 1]):
        parent[v] = v


@njit(nogil=True, error_model="numpy", _nrt=False)  # pragma: no cover - compiled
def hook_first(
    part: int, worker: int, ends: Array, offsets: Array, neighbours: Array, parent: Array, edges: int
) -> None:
    """Join trees along the first ``edges`` edges of each vertex."""
    for v in range(ends[part], ends[part + 1]):
        for e in range(offsets[v], min(offsets[v] + edges, offsets[v + 1])):
            hook(parent, v, neighbours[e])


@njit(nogil=True, error_model="numpy", _nrt=False)  # pragma: no cover - compiled
def hook_others(
    part: int, worker: int, ends: Array, offsets: Array, neighbours: Array, parent: Array, edges: int, largest: int
) -> None:
    """Join trees along the edges after those of :func:`hook_first`, of vertices outside of the tree of ``largest``.

    An edge between that tree and another one is hooked at its other end, by its reverse edge.
    """
    for v in range(ends[part], ends[part + 1]):
        if published(parent, v) != largest:
            for e in range(offsets[v] + edges, offsets[v + 1]):
                hook(parent, v, neighbours[e])


@njit(nogil=True, error_model="numpy", _nrt=False)  # pragma: no cover - compiled
def flatten(part: int, worker: int, ends: Array, parent: Array) -> None:
    """Set the parent of each vertex to its root; no thread hooks meanwhile.

    Only the range's own entries are written: a thread that halves the path of another's vertex may replace its root.
    """
    for v in range(ends[part], ends[part + 1]):
        at = published(parent, v)
        while True:
            above = published(parent, at)
            if above == at:
                break
            at = above
        publish(parent, v, at)


@njit(nogil=True, cache=True)  # pragma: no cover - compiled
def most_frequent(root: Array, samples: int) -> int:
    """Return the root that most of about ``samples`` vertices have, the least of several; -1 without vertices."""
    if not len(root):
        return -1
    sample = np.sort(root[:: max(1, len(root) // samples)])
    found, most, first = sample[0], 0, 0
    for i in range(1, len(sample) + 1):
        if i == len(sample) or sample[i] != sample[first]:
            if i - first > most:
                found, most = sample[first], i - first
            first = i
    return found


@njit(nogil=True, cache=True)  # pragma: no cover - compiled
def find_trees(
    threads: int, ends: Array, offsets: Array, neighbours: Array, parent: Array, edges: int, samples: int
) -> None:
    """Set the parent of each vertex to the root of its component. ``edges``: of each vertex that are hooked first."""
    parts = len(ends) - 1
    launch(begin, parts, threads, (ends, parent))
    launch(hook_first, parts, threads, (ends, offsets, neighbours, parent, edges))
    launch(flatten, parts, threads, (ends, parent))
    largest = most_frequent(parent, samples)
    launch(hook_others, parts, threads, (ends, offsets, neighbours, parent, edges, largest))
    launch(flatten, parts, threads, (ends, parent))


@njit(nogil=True, cache=True)  # pragma: no cover - compiled
def collect(root: Array, values: Array, least: bool) -> None:
    """Reduce the values of every tree, ``[V, k]``, into the row of its root."""
    for v in range(len(root)):
        at = root[v]
        if at != v:
            for f in range(values.shape[1]):
                if (values[v, f] < values[at, f]) if least else (values[v, f] > values[at, f]):
                    values[at, f] = values[v, f]


@njit(nogil=True, error_model="numpy", _nrt=False)  # pragma: no cover - compiled
def spread(part: int, worker: int, ends: Array, root: Array, values: Array) -> None:
    """Copy the row of its root to each vertex."""
    for v in range(ends[part], ends[part + 1]):
        at = root[v]
        if at != v:
            for f in range(values.shape[1]):
                values[v, f] = values[at, f]


@njit(nogil=True, cache=True)  # pragma: no cover - compiled
def fill(threads: int, ends: Array, root: Array, values: Array, least: bool) -> None:
    """Give each vertex the least or largest value of its tree; ``values``: ``[V, k]``."""
    collect(root, values, least)
    launch(spread, len(ends) - 1, threads, (ends, root, values))
