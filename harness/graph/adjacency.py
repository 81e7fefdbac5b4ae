"""One direction of a graph in compressed rows, and the linear-time sorts that make and transpose it.

The counting sorts are SciPy's C routines behind `coo_array.tocsc` and `csr_array.tocsc`: O(V + E), stable, and without
temporaries beyond their result.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
INT32_MAX = 2**31 - 1


def id_dtype(count: int) -> np.dtype[Any]:
    """The dtype that numbers `count` things: uint32 while it fits, else uint64."""
    return np.dtype(np.uint32) if count <= 2**32 else np.dtype(np.uint64)


def frozen(array: Array, dtype: np.dtype[Any] | type | None = None) -> Array:
    """Return a read-only, C-contiguous plain view of `array` (a copy only where the dtype or the layout needs one).

    ``setflags(write=True)`` on a view of numbers raises ValueError: its base is a read-only buffer.
    """
    plain = np.ascontiguousarray(array, dtype=dtype).view(np.ndarray)
    view = np.asarray(plain.data.toreadonly()) if plain.dtype.kind in "biuf" else plain[...]
    view.flags.writeable = False
    return view


@dataclass(frozen=True, eq=False)
class Adjacency:
    """The arcs of one direction, grouped by vertex.

    offsets: int64[V+1]; row v is offsets[v] : offsets[v+1].
    neighbours: uint32[E] (uint64 when V > 2**32). In CSR the destinations of row v's arcs, in CSC the sources;
        ascending within a row.
    edge_ids: None in CSR, where an arc's id is its position. In CSC the CSR position of each arc,
        uint32[E] (uint64 when E > 2**32); parallel arcs stand in CSR order.
    """

    offsets: NDArray[np.int64]
    neighbours: Array
    edge_ids: Array | None = None

    @property
    def degrees(self) -> NDArray[np.int64]:
        """Number of arcs in each row, int64[V]."""
        return np.diff(self.offsets)

    @property
    def row_of_arc(self) -> Array:
        """The vertex whose row each arc stands in, in the dtype of `neighbours`, [E]."""
        rows = np.arange(self.offsets.size - 1, dtype=self.neighbours.dtype)
        return np.repeat(rows, self.degrees)


def as_index(ids: Array, count: int) -> Array:
    """Non-negative `ids` below `count` in the signed dtype of SciPy's routines, without a copy where possible."""
    if count > INT32_MAX:
        return ids.view(np.int64) if ids.dtype == np.uint64 else ids.astype(np.int64, copy=False)
    return ids.view(np.int32) if ids.dtype == np.uint32 else ids.astype(np.int32, copy=False)


def _as_ids(index: Array, count: int) -> Array:
    """What SciPy's routines return, int32 or int64, in the dtype of ids."""
    unsigned = index.view(np.uint32) if index.dtype == np.int32 else index
    return unsigned.astype(id_dtype(count), copy=False)


def compress(
    sources: Array, destinations: Array, num_vertices: int, payload: Array | None
) -> tuple[Adjacency, Array | None]:
    """CSR of the arcs, sorted by (source, destination) and stably within parallel arcs; `payload` [E] sorted along.

    The ids must lie in 0..num_vertices-1: they are not checked here.
    """
    from scipy.sparse import coo_array

    size = max(num_vertices, sources.size)
    data = np.zeros(sources.size, dtype=np.int8) if payload is None else payload
    coordinates = (as_index(sources, size), as_index(destinations, size))
    arcs: Any = coo_array((data, coordinates), shape=(num_vertices, num_vertices))
    arcs.has_canonical_format = True  # keeps SciPy from summing parallel arcs
    by_destination = arcs.tocsc()
    del arcs, coordinates, data
    rows = by_destination.tocsr()
    neighbours = _as_ids(rows.indices, num_vertices)
    return Adjacency(rows.indptr.astype(np.int64), neighbours), None if payload is None else rows.data


def transpose(csr: Adjacency) -> Adjacency:
    """CSC of the graph whose CSR is given: rows by destination, sources ascending, and each arc's CSR position."""
    from scipy.sparse import csr_array

    num_vertices, num_edges = csr.offsets.size - 1, csr.neighbours.size
    size = max(num_vertices, num_edges)
    positions = np.arange(num_edges, dtype=id_dtype(num_edges))
    index = (as_index(csr.neighbours, size), as_index(csr.offsets, size))
    columns: Any = csr_array((positions, *index), shape=(num_vertices, num_vertices)).tocsc()
    return Adjacency(columns.indptr.astype(np.int64), _as_ids(columns.indices, num_vertices), columns.data)
