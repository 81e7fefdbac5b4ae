"""Matrices written by `scipy.sparse.save_npz`: A[i, j] is the edge i -> j.

A square matrix is an adjacency matrix; a rectangular one holds the ratings of rows (users) for columns (items).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from harness.graph.adjacency import Array
from harness.graph.errors import GraphError
from harness.graph.formats.source import Source
from harness.graph.graph import Graph

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.graph.formats import ReadOptions

_READ = ("csr", "csc", "coo")
_MEND = "save it again with scipy.sparse.save_npz"


def is_matrix(arrays: Mapping[str, Array]) -> bool:
    """Return whether an archive contains a SciPy matrix."""
    return "format" in arrays and "shape" in arrays


def read_matrix(source: Source, options: ReadOptions, arrays: Mapping[str, Array]) -> Graph:
    """Return the graph of a matrix in CSR, CSC or COO form.

    Stored entries are edges, including explicit zeros. Their values are the weights; a matrix of bools has no weights.
    Raises GraphError for other forms and for inconsistent arrays.
    """
    form = _form(source, arrays)
    rows, columns = _shape(source, arrays)
    data = _array(source, arrays, "data", "biuf")
    if form == "coo":
        sources, destinations = (_array(source, arrays, key, "iu") for key in ("row", "col"))
    else:
        minor = _array(source, arrays, "indices", "iu")
        major = _major(source, _array(source, arrays, "indptr", "iu"), rows if form == "csr" else columns, minor.size)
        sources, destinations = (major, minor) if form == "csr" else (minor, major)
    if not sources.size == destinations.size == data.size:
        raise GraphError.in_file(source.path, "its arrays differ in length", _MEND)
    for name, ends, count in (("row", sources, rows), ("column", destinations, columns)):
        if ends.size and (int(ends.min()) < 0 or int(ends.max()) >= count):
            raise GraphError.in_file(source.path, f"a {name} is outside the shape {rows} x {columns}", _MEND)
    square = rows == columns
    graph = Graph.from_edges(
        sources.astype(np.int64),
        destinations.astype(np.int64) + (0 if square else rows),
        num_vertices=rows if square else rows + columns,
        weights=None if data.dtype.kind == "b" else data,
        name=options.name,
        duplicates=options.duplicates,
        symmetrize=options.symmetrize,
        bipartite=None if square else (rows, columns),
        meta={"origin": source.path.name, "format": "scipy_sparse"},
    )
    graph.validate()
    return graph


def _form(source: Source, arrays: Mapping[str, Array]) -> str:
    """Return the storage format, which SciPy writes as bytes."""
    value = arrays["format"].item() if arrays["format"].ndim == 0 else None
    form = value.decode("ascii", "replace") if isinstance(value, bytes) else str(value)
    if form not in _READ:
        raise GraphError.in_file(
            source.path, f"the sparse matrix has the form {form[:20]!r}", f"save it as one of {', '.join(_READ)}"
        )
    return form


def _shape(source: Source, arrays: Mapping[str, Array]) -> tuple[int, int]:
    shape = _array(source, arrays, "shape", "iu").tolist()
    if len(shape) != 2 or min(shape) < 0:
        raise GraphError.in_file(source.path, f"the shape is {tuple(shape)}", "save a matrix of two dimensions")
    source.refuse_vertices(shape[0] + shape[1], source.size, None)
    return shape[0], shape[1]


def _major(source: Source, indptr: Array, lines: int, entries: int) -> Array:
    """Return the row (CSR) or column (CSC) of each entry, int64[entries]."""
    indptr = indptr.astype(np.int64)
    if indptr.size != lines + 1 or indptr[0] != 0 or indptr[-1] != entries or (np.diff(indptr) < 0).any():
        raise GraphError.in_file(source.path, f"indptr does not rise from 0 to {entries} in {lines + 1} steps", _MEND)
    return np.repeat(np.arange(lines, dtype=np.int64), np.diff(indptr))


def _array(source: Source, arrays: Mapping[str, Array], key: str, kinds: str) -> Array:
    """Return the one-dimensional array ``key`` with a dtype of one of ``kinds``. Raises GraphError."""
    array = arrays.get(key)
    if array is None or array.ndim != 1 or array.dtype.kind not in kinds:
        raise GraphError.in_file(source.path, f"{key} is missing or not a list of numbers", _MEND)
    return array
