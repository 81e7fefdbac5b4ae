"""NumPy archives of CSR arrays: `indptr`, `indices`, and optionally `weight`, `meta` (JSON), `labels` and others.

`scipy_sparse` reads archives written by scipy.sparse.save_npz.

Arrays of V rows become vertex data, arrays of E rows edge data. `feat_indptr`, `feat_indices`, `feat_shape` (a sparse
0/1 matrix) become the dense vertex_data["features"], uint8[V, F].
"""

from __future__ import annotations

import json
import math
import re
import struct
import sys
import zipfile
import zlib
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from harness.graph.adjacency import Array
from harness.graph.errors import GraphError
from harness.graph.formats.scipy_sparse import is_matrix, read_matrix
from harness.graph.formats.source import LONGEST_HEADER_LINE, Source
from harness.graph.graph import Graph

if TYPE_CHECKING:
    from harness.graph.formats import ReadOptions

STRUCTURE = ("indptr", "indices", "weight", "meta", "labels", "feat_indptr", "feat_indices", "feat_shape")
COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # those of numpy.savez and savez_compressed
DAMAGE = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, RuntimeError, UnicodeError, OSError)
HEADER = re.compile(
    rb"\{\s*'descr':\s*(?P<descr>'[^']*'|\[[^\n]*\]),\s*'fortran_order':\s*(?P<fortran>True|False),"
    rb"\s*'shape':\s*\((?P<shape>(?:[0-9]{1,18}\s*,?\s*){0,32})\),?\s*\}\s*"
)
PLAIN = re.compile(r"[<>|=]?[biufU][0-9]{1,6}")  # bool, integers, floats, text
SCIPY_FORMAT = re.compile(r"\|S[0-9]{1,2}")  # the bytes that scipy.sparse.save_npz writes as "format"


def read(source: Source, options: ReadOptions) -> Graph:
    """Read the graph of the archive. Raises GraphError for a faulty file.

    `meta` sets whether the graph is directed (the default) and bipartite.
    """
    arrays = _arrays(source)
    if is_matrix(arrays):
        return read_matrix(source, options, arrays)
    meta = _meta(source, arrays)
    indptr, indices = _structure(source, arrays)
    num_vertices, num_edges = indptr.size - 1, indices.size
    more = {key: array for key, array in arrays.items() if key not in STRUCTURE and array.ndim}
    vertex_data = {key: array for key, array in more.items() if array.shape[0] == num_vertices}
    edge_data = {key: array for key, array in more.items() if array.shape[0] == num_edges and key not in vertex_data}
    if "feat_shape" in arrays:
        vertex_data["features"] = _features(source, arrays, num_vertices)
    graph = Graph.from_edges(
        np.repeat(np.arange(num_vertices, dtype=np.uint32), np.diff(indptr)),
        indices,
        num_vertices=num_vertices,
        weights=arrays.get("weight"),
        name=str(meta.get("name", options.name)),
        directed=bool(meta.get("directed", True)),
        duplicates=options.duplicates,
        symmetrize=options.symmetrize,
        labels=arrays.get("labels"),
        vertex_data=vertex_data,
        edge_data=edge_data,
        bipartite=_bipartite(source, meta, num_vertices),
        meta=meta | {"format": "npz"},
    )
    graph.validate()
    return graph


def _arrays(source: Source) -> dict[str, Array]:
    """Return every array of the archive. Raises GraphError if a header contradicts the size or a limit is exceeded."""
    damaged = (*DAMAGE, ValueError)
    try:
        archive = zipfile.ZipFile(source.path)
    except damaged as error:  # ValueError: names that are not text, offsets outside the file
        raise GraphError.in_file(source.path, f"the archive is damaged ({error})", "fetch the file again") from error
    with archive:
        members = archive.infolist()
        total = sum(member.file_size for member in members)
        if total > max(2**20, int(source.size * source.max_expansion)):
            raise GraphError.in_file(
                source.path, f"it unpacks to {total} bytes, more than {source.max_expansion:g} times its size",
                "raise max_expansion if you trust it",
            )  # fmt: skip
        held = [member for member in members if member.filename.endswith(".npy")]
        return {member.filename.removesuffix(".npy"): _array(source, member, archive) for member in held}


def _array(source: Source, member: zipfile.ZipInfo, archive: zipfile.ZipFile) -> Array:
    """Return the array in `member`; it is allocated only if its header's shape matches its size in the archive."""
    if member.compress_type not in COMPRESSIONS:
        raise GraphError.in_file(
            source.path, f"{member.filename} is compressed by method {member.compress_type}",
            "save it with numpy.savez or numpy.savez_compressed",
        )  # fmt: skip
    try:
        with archive.open(member) as file:
            dtype, fortran, shape = _header(source, member.filename, file)
            if math.prod(shape) * dtype.itemsize != member.file_size - file.tell():
                raise GraphError.in_file(
                    source.path, f"{member.filename} announces {shape} of {dtype}, but its length differs",
                    "fetch the file again",
                )  # fmt: skip
            data = file.read()
    except DAMAGE as error:
        raise GraphError.in_file(
            source.path, f"{member.filename} is damaged ({error})", "fetch the file again"
        ) from error
    if dtype.kind == "U" and (np.frombuffer(data, np.dtype("u4").newbyteorder(dtype.byteorder)) > sys.maxunicode).any():
        raise GraphError.in_file(source.path, f"{member.filename} contains invalid text", "fetch the file again")
    array: Array = np.frombuffer(data, dtype=dtype).reshape(shape, order="F" if fortran else "C")
    return array


def _header(source: Source, name: str, file: IO[bytes]) -> tuple[np.dtype[Any], bool, tuple[int, ...]]:
    """Return dtype, whether the order is Fortran's, and shape.

    NumPy's own reader evaluates the text as Python literals; hostile headers exhaust the stack.
    """
    magic = file.read(8)
    length = int.from_bytes(file.read(2 if magic[6:7] == b"\x01" else 4), "little")
    found = HEADER.fullmatch(file.read(min(length, LONGEST_HEADER_LINE)))
    if not magic.startswith(b"\x93NUMPY") or found is None:
        raise GraphError.in_file(source.path, f"{name} has no valid header", "save an array with numpy.savez")
    described = found["descr"].decode("latin-1").strip("'")
    try:
        known = PLAIN.fullmatch(described) or (name == "format.npy" and SCIPY_FORMAT.fullmatch(described))
        dtype = np.dtype(described) if known else None
    except (TypeError, ValueError):
        dtype = None
    if dtype is None or not dtype.itemsize:
        raise GraphError.in_file(
            source.path, f"{name} contains {described[:40]!r}", "only numbers and text are read, nothing pickled"
        )
    return dtype, found["fortran"] == b"True", tuple(int(length) for length in re.findall(rb"[0-9]+", found["shape"]))


def _meta(source: Source, arrays: dict[str, Array]) -> dict[str, Any]:
    if "meta" not in arrays:
        return {}
    try:
        meta = json.loads(str(arrays["meta"]))
        json.dumps(meta, ensure_ascii=False).encode()  # lone surrogates cannot be encoded
    except (ValueError, RecursionError) as error:
        raise GraphError.in_file(source.path, f"meta is not JSON ({error})", "save it as json.dumps(...)") from error
    if not isinstance(meta, dict):
        raise GraphError.in_file(source.path, "meta is JSON but not an object", "save it as {...}")
    return meta


def _structure(source: Source, arrays: dict[str, Array]) -> tuple[Array, Array]:
    missing = [key for key in ("indptr", "indices") if key not in arrays]
    if missing:
        held = ", ".join(sorted(arrays)) or "nothing"
        raise GraphError.in_file(
            source.path,
            f"{' and '.join(missing)} missing (it contains {held})",
            "save CSR arrays with these names, or use scipy.sparse.save_npz(...)",
        )
    indptr, indices = arrays["indptr"], arrays["indices"]
    if (
        indptr.dtype.kind not in "iu"
        or indices.dtype.kind not in "iu"
        or indptr.ndim != 1
        or indices.ndim != 1
        or not indptr.size
    ):
        raise GraphError.in_file(source.path, "indptr and indices must be lists of integers", "save CSR arrays")
    indptr = indptr.astype(np.int64)
    if indptr[0] != 0 or indptr[-1] != indices.size or (np.diff(indptr) < 0).any():
        raise GraphError.in_file(
            source.path, f"indptr runs from {indptr[0]} to {indptr[-1]}",
            f"it must rise from 0 to the number of indices, {indices.size}",
        )  # fmt: skip
    return indptr, indices


def _bipartite(source: Source, meta: dict[str, Any], num_vertices: int) -> tuple[int, int] | None:
    sides = meta.get("bipartite")
    if sides is None:
        return None
    if (
        not isinstance(sides, list)
        or len(sides) != 2
        or not all(isinstance(side, int) for side in sides)
        or sum(sides) != num_vertices
    ):
        raise GraphError.in_file(
            source.path, f"bipartite is {sides!r}", f"it must be [left, right] with the sum {num_vertices}"
        )
    return sides[0], sides[1]


def _features(source: Source, arrays: dict[str, Array], num_vertices: int) -> Array:
    parts = [arrays.get(f"feat_{part}") for part in ("indptr", "indices", "shape")]
    found = [part.astype(np.int64) for part in parts if part is not None and part.dtype.kind in "iu" and part.ndim == 1]
    if len(found) < len(parts):
        raise GraphError.in_file(
            source.path, "a part of the features is missing or not a list of integers",
            "features need feat_indptr, feat_indices, feat_shape",
        )  # fmt: skip
    indptr, indices, shape = found
    fits = (
        shape.shape == (2,)
        and shape[0] == num_vertices
        and shape[1] >= 0
        and indptr.shape == (num_vertices + 1,)
        and indptr[0] == 0
        and indptr[-1] == indices.size
        and bool((np.diff(indptr) >= 0).all())
    )
    if not fits or (indices.size and (indices.min() < 0 or indices.max() >= shape[1])):
        raise GraphError.in_file(
            source.path, "the sparse features are inconsistent", "save a CSR matrix with one row per vertex"
        )
    source.refuse_table(int(shape[0]) * int(shape[1]), source.size, f"features of {shape[0]} x {shape[1]}")
    dense = np.zeros(tuple(shape), dtype=np.uint8)
    dense[np.repeat(np.arange(num_vertices), np.diff(indptr)), indices] = 1
    return dense
