"""Build a CSR from lists of edges: check, symmetrize, sort, merge parallel edges."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from harness.graph.adjacency import Adjacency, Array, as_index, compress, id_dtype
from harness.graph.errors import GraphError

Duplicates = Literal["error", "sum", "min", "keep"]


def build(
    sources: ArrayLike,
    destinations: ArrayLike,
    num_vertices: int | None,
    weights: ArrayLike | None,
    duplicates: Duplicates,
    symmetrize: bool,
    edge_data: Mapping[str, ArrayLike] | None,
    name: str,
) -> tuple[Adjacency, Array | None, dict[str, Array]]:
    """Return the CSR of the edges, and their weights and data in CSR order; see `Graph.from_edges` for the arguments.

    Raises GraphError for invalid or inconsistent arguments.
    """
    if duplicates not in get_args(Duplicates):
        raise GraphError(f"graph {name!r}: duplicates={duplicates!r}; choose one of {', '.join(get_args(Duplicates))}")
    u, v, num_vertices = checked_ids(sources, destinations, num_vertices, name)
    w = None if weights is None else checked_weights(weights, u.size, name)
    data = {key: _checked_edge_data(key, value, u.size, name) for key, value in (edge_data or {}).items()}
    if symmetrize:
        u, v, w, data = _both_ways(u, v, w, data)
    payload = np.arange(u.size, dtype=id_dtype(u.size)) if data else w
    csr, payload = compress(u, v, num_vertices, payload)
    del u, v
    if data:
        assert payload is not None
        order, payload = payload, None if w is None else w[payload]
        data = {key: value[order] for key, value in data.items()}
    csr, payload = merge_parallel(csr, payload, duplicates, name, bool(data))
    return csr, payload, data


def checked_ids(
    sources: ArrayLike, destinations: ArrayLike, num_vertices: int | None, name: str
) -> tuple[Array, Array, int]:
    """Return sources and destinations in the index dtype of SciPy's sorts, and the number of vertices.

    Raises GraphError for lists of different lengths, ids that are not integers, and ids out of range.
    """
    ends = [np.asarray(sources), np.asarray(destinations)]
    if ends[0].shape != ends[1].shape or ends[0].ndim != 1:
        raise GraphError(
            f"graph {name!r}: sources have shape {ends[0].shape}, destinations {ends[1].shape}; "
            "give two lists of the same length"
        )
    if ends[0].size == 0:
        empty = np.empty(0, dtype=np.int32)
        return empty, empty, num_vertices or 0
    for what, array in zip(("sources", "destinations"), ends, strict=True):
        if array.dtype.kind not in "iu":
            raise GraphError(f"graph {name!r}: {what} are {array.dtype}; vertex ids must be integers")
    largest = max(int(array.max()) for array in ends)
    count = largest + 1 if num_vertices is None else int(num_vertices)
    if min(int(array.min()) for array in ends) < 0 or largest >= count:
        raise GraphError(f"graph {name!r}: {_stray_edge(ends[0], ends[1], count)}; ids run from 0 to num_vertices - 1")
    if count > 2**62:
        raise GraphError(f"graph {name!r}: vertex id {largest} is too large; number the vertices from 0")
    size = max(count, ends[0].size)
    return as_index(ends[0], size), as_index(ends[1], size), count


def _stray_edge(sources: Array, destinations: Array, count: int) -> str:
    stray = (sources < 0) | (sources >= count) | (destinations < 0) | (destinations >= count)
    i = int(np.argmax(stray))
    return f"edge {i}, {sources[i]} -> {destinations[i]}, is outside the {count} vertices"


def checked_weights(weights: ArrayLike, num_edges: int, name: str) -> NDArray[np.float32]:
    """Return the weights as float32[E]. Raises GraphError for a wrong shape or kind, or values that are not finite."""
    given = np.asarray(weights)
    if given.dtype.kind not in "fiub" or given.shape != (num_edges,):
        raise GraphError(
            f"graph {name!r}: weights are {given.dtype}{list(given.shape)}; "
            f"give one real number for each of {num_edges} edges"
        )
    with np.errstate(over="ignore"):
        single = given.astype(np.float32, copy=False)
    finite = np.isfinite(single)
    if not finite.all():
        i = int(np.argmin(finite))
        raise GraphError(f"graph {name!r}: the weight of edge {i} is {given[i]}; weights must be finite as float32")
    return single


def checked_labels(labels: ArrayLike, name: str) -> NDArray[np.int32]:
    """Return the labels as int32. Raises GraphError for labels that are not integers in the range of int32."""
    given = np.asarray(labels)
    limits = np.iinfo(np.int32)
    if given.dtype.kind not in "iub" or (given.size and not limits.min <= given.min() <= given.max() <= limits.max):
        raise GraphError(
            f"graph {name!r}: labels are {given.dtype}{list(given.shape)}; give integers below 2^31, -1 for unknown"
        )
    return given.astype(np.int32)


def _checked_edge_data(key: str, value: ArrayLike, num_edges: int, name: str) -> Array:
    array = np.asarray(value)
    if array.shape[:1] != (num_edges,):
        raise GraphError(
            f"graph {name!r}: edge_data {key!r} has shape {array.shape}; "
            f"its first axis must be {num_edges}, one entry per edge"
        )
    return array


def _both_ways(
    u: Array, v: Array, w: Array | None, data: dict[str, Array]
) -> tuple[Array, Array, Array | None, dict[str, Array]]:
    """Return all edges from the lower to the higher vertex, then their reverses; self-loops once.

    In this order the i-th of parallel edges pairs with its own reverse.
    """
    proper = u != v
    back = slice(None) if proper.all() else proper
    data = {key: np.concatenate([value, value[back]]) for key, value in data.items()}
    if w is not None:
        w = np.concatenate([w, w[back]])
    lower, upper = np.minimum(u, v), np.maximum(u, v)
    return np.concatenate([lower, upper[back]]), np.concatenate([upper, lower[back]]), w, data


def merge_parallel(
    csr: Adjacency, weights: Array | None, duplicates: Duplicates, name: str, has_edge_data: bool
) -> tuple[Adjacency, Array | None]:
    """Apply the `duplicates` policy to sorted rows; `weights` are in CSR order."""
    if duplicates == "keep" or csr.neighbours.size == 0:
        return csr, weights
    first = first_of_parallel(csr)
    if first.all():
        return csr, weights
    if duplicates == "error" or has_edge_data:
        again = int(np.argmin(first))
        source = int(np.searchsorted(csr.offsets, again, side="right")) - 1
        extra = first.size - int(np.count_nonzero(first))
        mend = (
            "merge the data of parallel edges first, or keep them"
            if has_edge_data
            else "choose duplicates=sum, min or keep"
        )
        raise GraphError(
            f"graph {name!r}: edge {source} -> {csr.neighbours[again]} is given more than once "
            f"({extra} repeated edges); {mend}"
        )
    starts = np.flatnonzero(first)
    if weights is not None:
        merge = np.add if duplicates == "sum" else np.minimum
        weights = checked_weights(merge.reduceat(weights, starts, dtype=np.float64), starts.size, name)
    offsets = np.searchsorted(starts, csr.offsets).astype(np.int64)
    return Adjacency(offsets, csr.neighbours[starts]), weights


def first_of_parallel(csr: Adjacency) -> NDArray[np.bool_]:
    """Return bool[E] in CSR order: whether each edge is the first from its source to its destination."""
    first = np.empty(csr.neighbours.size, dtype=bool)
    np.not_equal(csr.neighbours[1:], csr.neighbours[:-1], out=first[1:])
    first[csr.offsets[:-1][csr.degrees > 0]] = True
    return first


def with_missing_reverses(csr: Adjacency) -> tuple[Adjacency, Array]:
    """Return the CSR with a reverse added for every edge without one, and the old position of each new edge's data.

    All edges, followed by all reversed edges, are sorted stably together. A group of parallel edges then begins with
    its `p` existing edges. The i-th reversed edge after them is missing if i >= p, i.e. from place 2p of the group on.
    """
    num_vertices, num_edges = csr.offsets.size - 1, csr.neighbours.size
    sources, destinations = csr.row_of_edge, csr.neighbours
    u, v = np.concatenate([sources, destinations]), np.concatenate([destinations, sources])
    del sources
    both, payload = compress(u, v, num_vertices, np.arange(2 * num_edges, dtype=id_dtype(2 * num_edges)))
    del u, v
    assert payload is not None
    starts = np.flatnonzero(first_of_parallel(both))
    existing = np.add.reduceat(payload < num_edges, starts, dtype=np.int64)
    sizes = np.diff(np.append(starts, payload.size))
    place = np.arange(payload.size) - np.repeat(starts, sizes)
    kept = np.flatnonzero((payload < num_edges) | (place >= np.repeat(2 * existing, sizes)))
    del place
    origin = payload[kept] % np.asarray(num_edges, dtype=payload.dtype)
    offsets = np.searchsorted(kept, both.offsets).astype(np.int64)
    return Adjacency(offsets, both.neighbours[kept]), origin


def both_directions(csr: Adjacency) -> tuple[Adjacency, Array, NDArray[np.bool_]]:
    """Return the CSR of all edges and their reverses, the old position of each edge, and whether it is an old edge."""
    num_vertices, num_edges = csr.offsets.size - 1, csr.neighbours.size
    sources, destinations = csr.row_of_edge, csr.neighbours
    both, payload = compress(
        np.concatenate([sources, destinations]), np.concatenate([destinations, sources]), num_vertices,
        np.arange(2 * num_edges, dtype=id_dtype(2 * num_edges)),
    )  # fmt: skip
    assert payload is not None
    return both, payload % np.asarray(max(num_edges, 1), dtype=payload.dtype), payload < num_edges


def select(csr: Adjacency, keep: Array, name: str) -> Adjacency:
    """Return the CSR of the edges where `keep` holds. Raises GraphError if `keep` is not bool[E]."""
    num_edges = csr.neighbours.size
    if keep.dtype != np.bool_ or keep.shape != (num_edges,):
        raise GraphError(
            f"graph {name!r}: edges are selected by {keep.dtype}{list(keep.shape)}; "
            f"give bool[{num_edges}], one for each edge"
        )
    offsets = np.concatenate([[0], np.cumsum(keep, dtype=np.int64)])[csr.offsets]
    return Adjacency(offsets, csr.neighbours[keep])
