"""Compiled loops of hooking on the CPU, each for a range of vertices. They release the interpreter's lock.

A forest is an array of parents, int32[V]. A parent is never larger than its vertex, and a root is its own parent, so
that the root of a tree is its least vertex. Threads hook at the same time: a root gets a parent by compare and swap.
"""

# mypy: allow-untyped-calls, allow-untyped-decorators
from __future__ import annotations

from typing import Any

from numba import int32, njit
from numpy.typing import NDArray

from harness.api.cpu import exchange_if, publish, published

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


@njit(nogil=True, cache=True)  # pragma: no cover - compiled
def begin(parent: Array, first: int, last: int) -> None:
    """Make each vertex a tree."""
    for v in range(first, last):
        parent[v] = v


@njit(nogil=True, cache=True)  # pragma: no cover - compiled
def hook_first(offsets: Array, neighbours: Array, parent: Array, edges: int, first: int, last: int) -> None:
    """Join trees along the first ``edges`` edges of each vertex."""
    for v in range(first, last):
        for e in range(offsets[v], min(offsets[v] + edges, offsets[v + 1])):
            hook(parent, v, neighbours[e])


@njit(nogil=True, cache=True)  # pragma: no cover - compiled
def hook_others(
    offsets: Array, neighbours: Array, parent: Array, edges: int, largest: int, first: int, last: int
) -> None:
    """Join trees along the edges after those of :func:`hook_first`, of vertices outside of the tree of ``largest``.

    An edge between that tree and another one is hooked at its other end, by its reverse edge.
    """
    for v in range(first, last):
        if published(parent, v) != largest:
            for e in range(offsets[v] + edges, offsets[v + 1]):
                hook(parent, v, neighbours[e])


@njit(nogil=True, cache=True)  # pragma: no cover - compiled
def flatten(parent: Array, first: int, last: int) -> None:
    """Set the parent of each vertex to its root; no thread hooks meanwhile.

    Only the range's own entries are written: a thread that halves the path of another's vertex may replace its root.
    """
    for v in range(first, last):
        at = published(parent, v)
        while True:
            above = published(parent, at)
            if above == at:
                break
            at = above
        publish(parent, v, at)


@njit(nogil=True, cache=True)  # pragma: no cover - compiled
def collect(root: Array, values: Array, least: bool) -> None:
    """Reduce the values of every tree, ``[V, k]``, into the row of its root."""
    for v in range(len(root)):
        at = root[v]
        if at != v:
            for f in range(values.shape[1]):
                if (values[v, f] < values[at, f]) if least else (values[v, f] > values[at, f]):
                    values[at, f] = values[v, f]


@njit(nogil=True, cache=True)  # pragma: no cover - compiled
def spread(root: Array, values: Array, first: int, last: int) -> None:
    """Copy the row of its root to each vertex."""
    for v in range(first, last):
        at = root[v]
        if at != v:
            for f in range(values.shape[1]):
                values[v, f] = values[at, f]
