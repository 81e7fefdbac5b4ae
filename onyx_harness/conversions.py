"""Convert graphs of other libraries: the graph, and the names of its vertices where they are not 0 to V - 1.

No library is imported: an object is recognised by the module of its class. `onyx_harness.as_graph` documents the
options; every fault of the data raises GraphError.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from itertools import chain, repeat
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from harness.graph import Graph, GraphError
from harness.plugins import closest
from onyx_harness.arrays import host_copy, is_of

Converted: TypeAlias = tuple[Graph, list[Hashable] | None]


def of_networkx(data: Any, *, name: str | None = None, weight: str | None = "weight") -> Converted:
    """Convert by the rows of the adjacency: both directions of an undirected edge, a self-loop once."""
    name = name or str(getattr(data, "name", "")) or "networkx graph"
    nodes = list(data)
    numbers = {node: number for number, node in enumerate(nodes)}
    rows = [row for _, row in data.adjacency()]
    counts = [len(row) for row in rows]
    pairs = chain.from_iterable(rows)
    each: Iterator[Any] = chain.from_iterable(row.values() for row in rows)
    if data.is_multigraph():  # a row has the edges to each neighbour by their keys
        parallel = [list(keys.values()) for keys in each]
        counts = [sum(map(len, row.values())) for row in rows]
        pairs = chain.from_iterable(map(repeat, pairs, map(len, parallel)))
        each = chain.from_iterable(parallel)
    destinations = np.fromiter(map(numbers.__getitem__, pairs), np.int64, sum(counts))
    values = [] if weight is None else [attributes.get(weight) for attributes in each]
    graph = Graph.from_edges(
        np.repeat(np.arange(len(nodes)), counts),
        destinations,
        num_vertices=len(nodes),
        weights=_weights_of_attributes(values, weight, name),
        name=name,
        directed=data.is_directed(),
        duplicates="keep",
        meta={"origin": "networkx"},
    )
    plain = all(type(node) is int and node == number for number, node in enumerate(nodes))
    return graph, None if plain else nodes


def _weights_of_attributes(values: list[Any], attribute: str | None, name: str) -> NDArray[Any] | None:
    """Return the weights, 1 where an edge has none; None if no edge has the attribute "weight"."""
    if values.count(None) == len(values):
        if values and attribute != "weight":
            raise GraphError(f"graph {name!r}: no edge has the attribute {attribute!r}; name another with weight=")
        return None
    try:
        return np.array([1.0 if value is None else float(value) for value in values])
    except (TypeError, ValueError) as error:
        raise GraphError(
            f"graph {name!r}: attribute {attribute!r} is not a number on every edge ({error}); weight=None ignores it"
        ) from error


def of_matrix(
    data: Any, *, name: str = "sparse matrix", weighted: bool = True, symmetrize: bool = False,
    duplicates: str = "sum",
) -> Converted:  # fmt: skip
    """Convert the stored entries; a rectangular matrix holds the ratings of rows for columns.

    A CuPy matrix is copied to the host.
    """
    if is_of(data, "cupyx"):
        data = data.get()
    if len(data.shape) != 2:
        raise GraphError(f"graph {name!r}: the array has {len(data.shape)} dimensions; an adjacency matrix has 2")
    rows, columns = data.shape
    square = rows == columns
    entries = data.tocoo()
    graph = Graph.from_edges(
        entries.row,
        entries.col.astype(np.int64) + (0 if square else rows),
        num_vertices=rows if square else rows + columns,
        weights=entries.data if weighted and entries.data.dtype.kind != "b" else None,
        name=name,
        duplicates=duplicates,  # type: ignore[arg-type]  # checked there
        symmetrize=symmetrize,
        bipartite=None if square else (rows, columns),
        meta={"origin": "scipy.sparse"},
    )
    return graph, None


def of_arrays(
    data: tuple[Any, ...], *, name: str = "edge arrays", num_vertices: int | None = None, symmetrize: bool = False,
    duplicates: str = "error", named: bool = False,
) -> Converted:  # fmt: skip
    """Convert a tuple (src, dst[, weight]) of arrays [E]; ids are vertex numbers or, if strings or ``named``, names."""
    if len(data) not in (2, 3):
        raise GraphError(f"a tuple of {len(data)} is not a graph; give (src, dst) or (src, dst, weight), arrays [E]")
    ends = [_on_host(part) for part in data[:2]]
    weights = _on_host(data[2]) if len(data) == 3 and data[2] is not None else None
    names = None
    if named or any(end.size and end.dtype.kind not in "iu" for end in ends):
        if num_vertices is not None:
            raise GraphError(f"graph {name!r}: num_vertices is for vertex numbers; these ids are names, so omit it")
        names, ends = _numbered(ends, name)
        num_vertices = None if names is None else len(names)
    graph = Graph.from_edges(
        *ends,
        num_vertices=num_vertices,
        weights=weights,
        name=name,
        duplicates=duplicates,  # type: ignore[arg-type]  # checked there
        symmetrize=symmetrize,
        meta={"origin": "arrays"},
    )
    return graph, names


def of_frame(
    data: Any, *, name: str = "edge frame", src: str = "src", dst: str = "dst", weight: str | None = None,
    symmetrize: bool = False, duplicates: str = "error",
) -> Converted:  # fmt: skip
    """Convert a pandas or polars frame with one edge in a row; ids are names."""
    columns = [str(column) for column in data.columns]
    wanted = "weight" if weight is None and "weight" in columns else weight
    for option, column in (("src", src), ("dst", dst), ("weight", wanted)):
        if column is not None and column not in columns:
            hint = closest(column, columns)
            raise GraphError(
                f"graph {name!r}: the frame has no column {column!r}{hint} (it has: {', '.join(columns)}); "
                f"name it with {option}="
            )
    parts = [data[column].to_numpy() for column in (src, dst, wanted) if column is not None]
    return of_arrays(tuple(parts), name=name, symmetrize=symmetrize, duplicates=duplicates, named=True)


def of_edge_index(
    data: Any, *, name: str = "edge index", weight: Any = None, num_vertices: int | None = None,
    symmetrize: bool = False, duplicates: str = "error",
) -> Converted:  # fmt: skip
    """Convert integers [2, E] of any library with DLPack: sources and destinations."""
    index = _on_host(data)
    if index.ndim != 2 or index.shape[0] != 2 or index.dtype.kind not in "iu":
        turned = index.ndim == 2 and index.shape[1] == 2 and index.dtype.kind in "iu"
        mend = (
            "give its transpose" if turned else "give integers [2, E], or a scipy.sparse matrix for an adjacency matrix"
        )
        raise GraphError(f"an array {index.dtype}{list(index.shape)} is not an edge_index; {mend}")
    return of_arrays(
        (index[0], index[1], weight), name=name, num_vertices=num_vertices, symmetrize=symmetrize, duplicates=duplicates
    )


def _on_host(part: Any) -> NDArray[Any]:
    """Return a NumPy array: a copy of an array on a device, others in the same memory. Raises GraphError."""
    try:
        return host_copy(part)
    except (TypeError, ValueError, BufferError, RuntimeError) as error:
        kind = f"{type(part).__module__}.{type(part).__qualname__}"
        raise GraphError(f"a {kind} cannot be read as an array of edges ({error}); give a NumPy array") from error


def _numbered(ends: list[NDArray[Any]], name: str) -> tuple[list[Hashable] | None, list[NDArray[Any]]]:
    """Return the names in ascending order and the edges by number; None if the names are 0 to V - 1."""
    whole = [end.dtype.kind in "iu" for end in ends]
    if all(whole):
        ends = [end.astype(np.int64) for end in ends]
    elif any(whole) and all(end.size for end in ends):  # NumPy would write the integers as text
        other = ends[whole.index(False)].dtype
        raise GraphError(
            f"graph {name!r}: one end of the edges has integers, the other {other}; give only integers or only strings"
        )
    together = _ids(np.concatenate(ends), name)
    ids, numbers = np.unique(together, return_inverse=True)
    split = [numbers[: ends[0].size], numbers[ends[0].size :]]
    if ids.dtype.kind in "iu" and np.array_equal(ids, np.arange(ids.size)):
        return None, split
    return ids.tolist(), split


def _ids(ids: NDArray[Any], name: str) -> NDArray[Any]:
    """Return ids that can be sorted: integers or strings. Raises GraphError for others, and for missing ones."""
    if ids.dtype.kind in "iuU":
        return ids
    values = ids.tolist()
    if ids.dtype.kind == "O" and all(type(value) is int for value in values):
        return ids.astype(np.int64)
    if ids.dtype.kind == "O" and all(isinstance(value, str) for value in values):
        return ids
    strange = next((value for value in values if not isinstance(value, (int, str))), None)
    met = f"{ids.dtype}, such as {strange!r}" if strange is not None else "integers and strings, or missing"
    raise GraphError(f"graph {name!r}: vertex ids are {met}; give only integers or only strings")
