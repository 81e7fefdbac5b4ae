"""One direction of a graph in compressed rows, and the linear-time sorts that build and transpose it.

The counting sorts are SciPy's C routines behind `coo_array.tocsc` and `csr_array.tocsc`. They are stable, take O(V + E)
time and allocate nothing but their result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.facts import Degrees, Spans
from harness.graph.file_maps import release_pages

Array = NDArray[Any]
INT32_MAX = 2**31 - 1
RUN_OF_EDGES, SAMPLED_RUNS = 1 << 12, 16  # of which spans are measured


def id_dtype(count: int) -> np.dtype[Any]:
    """Return the dtype for ids 0 .. `count` - 1: uint32 if they fit, else uint64."""
    return np.dtype(np.uint32) if count <= 2**32 else np.dtype(np.uint64)


def frozen(array: Array, dtype: np.dtype[Any] | type | None = None) -> Array:
    """Return a read-only, C-contiguous ndarray view of `array`; copy only to change the dtype or the layout.

    ``setflags(write=True)`` on a numeric view raises ValueError, because its base is a read-only buffer.
    """
    plain = np.ascontiguousarray(array, dtype=dtype).view(np.ndarray).reshape(np.shape(array))  # () became (1,)
    view = np.asarray(plain.data.toreadonly()) if plain.dtype.kind in "biuf" else plain[...]
    view.flags.writeable = False
    return view


@dataclass(frozen=True, eq=False)
class Adjacency:
    """The edges of one direction, grouped by vertex.

    offsets: int64[V+1]; row v is offsets[v] : offsets[v+1].
    neighbours: uint32[E] (uint64 if V > 2**32): the destinations in CSR, the sources in CSC; ascending within a row.
    edge_ids: None in CSR, where an edge's id is its position. In CSC the CSR position of each edge, uint32[E] (uint64
        if E > 2**32); parallel edges are in CSR order.
    """

    offsets: NDArray[np.int64]
    neighbours: Array
    edge_ids: Array | None = None

    @property
    def degrees(self) -> NDArray[np.int64]:
        """Number of edges in each row, int64[V]."""
        return np.diff(self.offsets)

    @property
    def degree_summary(self) -> Degrees:
        """The number of rows of each degree, counted in O(V + largest degree)."""
        return degree_summary(self.degrees)

    @property
    def spans(self) -> Spans:
        """The distances between the ends of edges, of all or of evenly spaced runs of a long array."""
        counts: Counter[int] = Counter()
        for differences in self._sampled():
            counts.update(np.frexp(np.abs(differences))[1].tolist())  # the bit lengths
        return Spans(tuple(sorted(counts.items())))

    @property
    def differences(self) -> tuple[int, int]:
        """The number of the edges that :attr:`spans` takes, and of distinct differences of their ends."""
        sampled = np.concatenate([np.zeros(0, np.int64), *self._sampled()])
        return sampled.size, np.unique(sampled).size

    def _sampled(self) -> Iterator[NDArray[np.int64]]:
        """Yield neighbour - row of the edges of evenly spaced runs, or of all edges of a short array."""
        size = self.neighbours.size
        firsts = np.linspace(0, max(0, size - RUN_OF_EDGES), SAMPLED_RUNS, dtype=np.int64)
        runs = [(0, size)] if size <= SAMPLED_RUNS * RUN_OF_EDGES else [(int(e), int(e) + RUN_OF_EDGES) for e in firsts]
        for first, last in runs:
            rows = np.searchsorted(self.offsets, np.arange(first, last), side="right") - 1
            found = self.neighbours[first:last].astype(np.int64) - rows
            release_pages(self.neighbours[first:last])
            yield found

    @property
    def row_of_edge(self) -> Array:
        """The vertex whose row contains each edge, [E], in the dtype of `neighbours`."""
        rows = np.arange(self.offsets.size - 1, dtype=self.neighbours.dtype)
        return np.repeat(rows, self.degrees)


def degree_summary(degrees: NDArray[np.int64]) -> Degrees:
    """Return the number of rows of each degree, counted in O(V + largest degree)."""
    counts = np.bincount(degrees)
    return Degrees(tuple((int(degree), int(counts[degree])) for degree in np.flatnonzero(counts)))


def as_index(ids: Array, count: int) -> Array:
    """Convert `ids` in 0 .. `count` - 1 to the signed dtype of SciPy's routines, without a copy where possible."""
    if count > INT32_MAX:
        return ids.view(np.int64) if ids.dtype == np.uint64 else ids.astype(np.int64, copy=False)
    return ids.view(np.int32) if ids.dtype == np.uint32 else ids.astype(np.int32, copy=False)


def _as_ids(index: Array, count: int) -> Array:
    """Convert an int32 or int64 result of SciPy's routines to the dtype of ids."""
    unsigned = index.view(np.uint32) if index.dtype == np.int32 else index
    return unsigned.astype(id_dtype(count), copy=False)


def compress(
    sources: Array, destinations: Array, num_vertices: int, payload: Array | None
) -> tuple[Adjacency, Array | None]:
    """Return the CSR of the edges, sorted stably by (source, destination), and `payload` [E] in the same order.

    The ids must lie in 0..num_vertices-1; this is not checked.
    """
    from scipy.sparse import coo_array

    size = max(num_vertices, sources.size)
    data = np.zeros(sources.size, dtype=np.int8) if payload is None else payload
    coordinates = (as_index(sources, size), as_index(destinations, size))
    edges: Any = coo_array((data, coordinates), shape=(num_vertices, num_vertices))
    edges.has_canonical_format = True  # prevents SciPy from summing parallel edges
    by_destination = edges.tocsc()
    del edges, coordinates, data
    rows = by_destination.tocsr()
    neighbours = _as_ids(rows.indices, num_vertices)
    return Adjacency(rows.indptr.astype(np.int64), neighbours), None if payload is None else rows.data


def transpose(csr: Adjacency) -> Adjacency:
    """Return the CSC of a CSR: rows by destination, sources ascending, and the CSR position of each edge."""
    from scipy.sparse import csr_array

    num_vertices, num_edges = csr.offsets.size - 1, csr.neighbours.size
    size = max(num_vertices, num_edges)
    positions = np.arange(num_edges, dtype=id_dtype(num_edges))
    index = (as_index(csr.neighbours, size), as_index(csr.offsets, size))
    columns: Any = csr_array((positions, *index), shape=(num_vertices, num_vertices)).tocsc()
    return Adjacency(columns.indptr.astype(np.int64), _as_ids(columns.indices, num_vertices), columns.data)
