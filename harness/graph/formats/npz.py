"""NumPy archives of CSR arrays: `indptr`, `indices`, and optionally `weight`, `meta` (JSON), `labels` and more arrays.

Arrays of V rows become vertex data, of E rows edge data; `feat_indptr`, `feat_indices`, `feat_shape` (a sparse 0/1
matrix) become the dense vertex_data["features"], uint8[V, F].
"""

from __future__ import annotations

import json
import zipfile
import zlib
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from harness.graph.adjacency import Array
from harness.graph.errors import GraphError
from harness.graph.formats.source import Source
from harness.graph.graph import Graph

if TYPE_CHECKING:
    from harness.graph.formats import ReadOptions

STRUCTURE = ("indptr", "indices", "weight", "meta", "labels", "feat_indptr", "feat_indices", "feat_shape")
MOST_FEATURE_BYTES = 2**30


def read(source: Source, options: ReadOptions) -> Graph:
    """The graph of the archive; `meta` says whether it is directed (the default) and bipartite."""
    arrays = _arrays(source)
    meta = _meta(source, arrays)
    indptr, indices = _structure(source, arrays)
    num_vertices, num_arcs = indptr.size - 1, indices.size
    more = {key: array for key, array in arrays.items() if key not in STRUCTURE and array.ndim}
    vertex_data = {key: array for key, array in more.items() if array.shape[0] == num_vertices}
    edge_data = {key: array for key, array in more.items() if array.shape[0] == num_arcs and key not in vertex_data}
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
    """Every array of the archive, once its header, its size in the archive and the limit agree."""
    arrays: dict[str, Array] = {}
    limit = max(2**20, int(source.size * source.max_expansion))
    try:
        with zipfile.ZipFile(source.path) as archive:
            total = sum(member.file_size for member in archive.infolist())
            if total > limit:
                raise GraphError.in_file(
                    source.path, f"it unpacks to {total} bytes, more than {source.max_expansion:g} times its size",
                    "raise max_expansion if you trust it",
                )  # fmt: skip
            for member in archive.infolist():
                if member.filename.endswith(".npy"):
                    with archive.open(member) as file:
                        arrays[member.filename.removesuffix(".npy")] = _array(source, member, file)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, OSError) as error:
        raise GraphError.in_file(source.path, f"the archive is damaged ({error})", "fetch the file again") from error
    return arrays


def _array(source: Source, member: zipfile.ZipInfo, file: IO[bytes]) -> Array:
    """The array in `member`, allocated only when its header's shape is what the archive holds."""
    try:
        version = np.lib.format.read_magic(file)
        read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = read_header(file)
    except ValueError as error:
        raise GraphError.in_file(
            source.path, f"{member.filename} has no valid header ({error})", "save it with numpy.savez"
        ) from error
    if dtype.hasobject or dtype.kind not in "biufU":
        raise GraphError.in_file(
            source.path, f"{member.filename} holds {dtype}", "only numbers and text are read, nothing pickled"
        )
    count = 1
    for length in shape:
        count *= int(length)
    if count * dtype.itemsize != member.file_size - file.tell():
        raise GraphError.in_file(
            source.path, f"{member.filename} announces {shape} of {dtype}, but the file has another length",
            "fetch the file again",
        )  # fmt: skip
    data = file.read()
    array: Array = np.frombuffer(data, dtype=dtype).reshape(shape, order="F" if fortran else "C")
    return array


def _meta(source: Source, arrays: dict[str, Array]) -> dict[str, Any]:
    if "meta" not in arrays:
        return {}
    try:
        meta = json.loads(str(arrays["meta"]))
    except ValueError as error:
        raise GraphError.in_file(source.path, f"meta is not JSON ({error})", "save it as json.dumps(...)") from error
    if not isinstance(meta, dict):
        raise GraphError.in_file(source.path, "meta is JSON but no object", "save it as {...}")
    return meta


def _structure(source: Source, arrays: dict[str, Array]) -> tuple[Array, Array]:
    missing = [key for key in ("indptr", "indices") if key not in arrays]
    if missing:
        held = ", ".join(sorted(arrays)) or "nothing"
        raise GraphError.in_file(
            source.path, f"{' and '.join(missing)} missing (it holds {held})", "a graph needs CSR arrays"
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
    try:
        indptr, indices, shape = (arrays[f"feat_{part}"].astype(np.int64) for part in ("indptr", "indices", "shape"))
    except KeyError as error:
        raise GraphError.in_file(
            source.path, f"{error} is missing", "features need feat_indptr, feat_indices, feat_shape"
        ) from error
    fits = shape.shape == (2,) and shape[0] == num_vertices and 0 <= shape[0] * shape[1] <= MOST_FEATURE_BYTES
    fits = (
        fits
        and indptr.shape == (num_vertices + 1,)
        and indptr[0] == 0
        and indptr[-1] == indices.size
        and bool((np.diff(indptr) >= 0).all())
    )
    if not fits or (indices.size and (indices.min() < 0 or indices.max() >= shape[1])):
        raise GraphError.in_file(
            source.path, "the sparse features do not fit together", "save a CSR matrix with one row per vertex"
        )
    dense = np.zeros(tuple(shape), dtype=np.uint8)
    dense[np.repeat(np.arange(num_vertices), np.diff(indptr)), indices] = 1
    return dense
