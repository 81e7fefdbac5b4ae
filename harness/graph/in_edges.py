"""In-degrees and in-edges of a few vertices from a CSR, without its CSC: for graphs whose CSC would not fit.

NumPy processes small graphs. Compiled loops process others, and are loaded only then.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.graph.adjacency import Adjacency, Array
from harness.graph.file_maps import ROWS_AT_ONCE, release_pages
from harness.graph.slices import in_slices

FEW_EDGES = 1 << 22  # NumPy takes milliseconds
LEAST_RANGE = 1 << 16  # destinations of a thread


def in_offsets(csr: Adjacency) -> NDArray[np.int64]:
    """Return the offsets of the CSC, int64[V + 1]: all destinations are counted, in O(V) additional memory."""
    num_vertices = csr.offsets.size - 1
    offsets = np.zeros(num_vertices + 1, np.int64)
    if csr.neighbours.size <= FEW_EDGES:
        offsets[1:] = np.bincount(csr.neighbours, minlength=num_vertices)
    else:
        _count(csr.neighbours, offsets[1:])
    np.cumsum(offsets, out=offsets)
    return offsets


def _count(neighbours: Array, degrees: NDArray[np.int64]) -> None:
    """Add the in-degrees. Each thread has a range of destinations, and reads all edges: no two write one number."""
    from harness.graph.in_edge_kernels import count_between

    threads = max(1, min(len(os.sched_getaffinity(0)), len(degrees) // LEAST_RANGE))
    bounds = np.linspace(0, len(degrees), threads + 1).astype(np.int64)

    def count(thread: int) -> None:
        first, last = bounds[thread], bounds[thread + 1]
        for begin in range(0, neighbours.size, ROWS_AT_ONCE):
            part = neighbours[begin : begin + ROWS_AT_ONCE]
            count_between(part, first, last, degrees)
            if thread == 0:
                release_pages(part)

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(count, range(threads)))


def edges_into(csr: Adjacency, vertices: NDArray[Any]) -> tuple[Array, Array]:
    """Return the edges that lead to some vertices: their CSR positions, ascending, int64, and their destinations.

    All edges are read once, on all cores.
    """
    wanted = np.zeros(csr.offsets.size - 1, np.bool_)
    wanted[vertices] = True
    if csr.neighbours.size <= FEW_EDGES:
        positions = np.flatnonzero(wanted[csr.neighbours])
        return positions, csr.neighbours[positions]
    from harness.graph.in_edge_kernels import count_wanted, list_wanted

    found: dict[int, Array] = {}

    def search(part: slice) -> None:
        neighbours = csr.neighbours[part]
        positions = np.empty(count_wanted(neighbours, wanted), np.int64)
        list_wanted(neighbours, wanted, part.start, positions)
        found[part.start] = positions
        release_pages(neighbours)

    in_slices(search, csr.neighbours.size)
    positions = np.concatenate([np.zeros(0, np.int64), *(found[first] for first in sorted(found))])
    return positions, csr.neighbours[positions]


def any_self_loop(csr: Adjacency) -> bool:
    """Return whether some edge leads from a vertex to itself; all edges are read once, in parts."""
    size = csr.neighbours.size
    for first in range(0, size, ROWS_AT_ONCE):
        last = min(first + ROWS_AT_ONCE, size)
        begin = int(np.searchsorted(csr.offsets, first, side="right")) - 1
        end = int(np.searchsorted(csr.offsets, last, side="left"))
        bounds = np.clip(csr.offsets[begin : end + 1], first, last).astype(np.int64)
        part = csr.neighbours[first:last]
        found = bool((np.repeat(np.arange(begin, end, dtype=part.dtype), bounds[1:] - bounds[:-1]) == part).any())
        release_pages(part)
        if found:
            return True
    return False


def sources_of(csr: Adjacency, positions: NDArray[np.int64]) -> Array:
    """Return the sources of edges at CSR positions, in the dtype of `neighbours`."""
    rows = np.searchsorted(csr.offsets, positions, side="right") - 1
    return rows.astype(csr.neighbours.dtype)
