"""Change a share of a graph's edges, and match the edges of two graphs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from harness.graph.adjacency import Array
from harness.graph.errors import GraphError
from harness.graph.graph import FORWARD, Graph

Change = Literal["insert", "delete", "heavier", "lighter", "weights", "mixed"]
LARGEST = 2**63 - 1
HEAVIER, LIGHTER = (1.25, 2.0), (0.5, 0.8)  # the range of the factor of a changed weight
ROUNDS = 64  # attempts to draw pairs of vertices without an edge


@dataclass(frozen=True)
class Correspondence:
    """The edges that two graphs share, as int64 positions in CSR order.

    A shared edge is at ``old[i]`` of the old graph and at ``new[i]`` of the new one. ``removed`` are positions in the
    old graph, ``added`` in the new one. The i-th of parallel edges matches the i-th in the other graph.
    """

    old: NDArray[np.int64]
    new: NDArray[np.int64]
    removed: NDArray[np.int64]
    added: NDArray[np.int64]


def correspondence(old: Graph, new: Graph) -> Correspondence:
    """Match the edges of two graphs on the same vertices by their end points, in O(E log E).

    Raises GraphError if the graphs have different numbers of vertices or are too large for 64-bit keys.
    """
    if old.num_vertices != new.num_vertices:
        raise GraphError(
            f"graphs {old.name!r} and {new.name!r} have {old.num_vertices} and {new.num_vertices} vertices; "
            "edges correspond only between graphs on the same vertices"
        )
    places = [_place_among_parallel(graph) for graph in (old, new)]
    most = 1 + max(int(place.max(initial=0)) for place in places)
    if old.num_vertices**2 * most > LARGEST:
        raise GraphError(f"graph {old.name!r} is too large to be matched: {old.num_vertices} vertices, {most} parallel")
    mine, theirs = (_edge_keys(graph) * most + place for graph, place in zip((old, new), places, strict=True))
    at = np.minimum(np.searchsorted(theirs, mine), max(len(theirs) - 1, 0))
    same = theirs[at] == mine if len(theirs) else np.zeros(len(mine), np.bool_)
    kept = np.asarray(at[same], np.int64)
    added = np.ones(new.num_edges, np.bool_)
    added[kept] = False
    return Correspondence(np.flatnonzero(same), kept, np.flatnonzero(~same), np.flatnonzero(added))


def _edge_keys(graph: Graph) -> NDArray[np.int64]:
    """Return an int64 key of the end points of every edge, non-decreasing in CSR order."""
    sources, destinations = graph.csr.row_of_edge.astype(np.int64), graph.csr.neighbours.astype(np.int64)
    return np.asarray(sources * graph.num_vertices + destinations)


def _place_among_parallel(graph: Graph) -> NDArray[np.int64]:
    """Return for every edge the number of earlier edges with the same end points."""
    keys = _edge_keys(graph)
    first = np.ones(len(keys), np.bool_)
    first[1:] = keys[1:] != keys[:-1]
    starts = np.flatnonzero(first)
    return np.arange(len(keys)) - np.repeat(starts, np.diff(np.append(starts, len(keys))))


def change_graph(graph: Graph, share: float, *, kind: Change = "mixed", seed: int = 0) -> Graph:
    """Return the graph with a ``share`` of its edges changed (at least one), drawn with ``seed``.

    ``kind``: *insert* adds edges between unconnected vertices (in a bipartite graph, from the left side to the right),
    with the weight and the edge data of an existing edge. *delete* removes edges. *heavier* and *lighter* multiply
    weights by a factor in ``HEAVIER`` or ``LIGHTER``; *weights* does half of each. *mixed* is one third insertions, one
    third deletions, one third weights (one half each for an unweighted graph). If every edge has its reverse, an edge
    and its reverse change together and count once. No self-loop or parallel edge is created.

    Raises GraphError for a share outside (0, 1], an unknown kind, changed weights of an unweighted graph, a graph of
    :meth:`Graph.both_directions`, or if no edge can be changed or added.
    """
    if kind not in get_args(Change):
        raise GraphError(f"change {kind!r} is not known; it is {', '.join(get_args(Change))}")
    if not 0.0 < share <= 1.0:
        raise GraphError(f"the share of edges to change is {share}; it lies in (0, 1]")
    if graph.weights is None and kind in ("heavier", "lighter", "weights"):
        raise GraphError(f"graph {graph.name!r} has no weights that could change; choose insert, delete or mixed")
    if FORWARD in graph.edge_data:
        raise GraphError(
            f"graph {graph.name!r} stores every edge in both directions, for aggregation over out-edges; changes of "
            "its edges are not supported"
        )
    if not graph.num_edges:
        raise GraphError(f"graph {graph.name!r} has no edges, so no share of them can change")
    rng = np.random.default_rng(seed)
    edges = _edges(graph)
    chosen = rng.permutation(edges)[: max(1, round(share * len(edges)))]
    parts = _parts(kind, graph.weights is not None)
    cuts = np.cumsum(rng.multinomial(len(chosen), np.array(list(parts.values())) / sum(parts.values())))[:-1]
    drawn = dict(zip(parts, np.split(chosen, cuts), strict=True))
    return _changed(graph, drawn, rng)


def _parts(kind: Change, weighted: bool) -> dict[str, float]:
    """Return the proportions of the simple kinds in ``kind``."""
    if kind == "weights":
        return {"heavier": 1.0, "lighter": 1.0}
    if kind == "mixed":
        simple = {"insert": 2.0, "delete": 2.0}
        return simple | ({"heavier": 1.0, "lighter": 1.0} if weighted else {})
    return {kind: 1.0}


def _edges(graph: Graph) -> Array:
    """Return the CSR positions of all edges; if all have reverses, only of the one from the smaller vertex."""
    positions = np.arange(graph.num_edges)
    return positions[positions <= graph.reverse_edges] if graph.has_reverse_edges else positions


def _changed(graph: Graph, drawn: dict[str, Array], rng: np.random.Generator) -> Graph:
    """Apply the changes: ``drawn`` holds edges by kind of change; inserted edges copy the data of those of "insert"."""
    weights = None if graph.weights is None else graph.weights.copy()
    for kind, (low, high) in (("heavier", HEAVIER), ("lighter", LIGHTER)):
        edges = drawn.get(kind, np.empty(0, np.int64))
        if weights is not None and len(edges):
            factor = rng.uniform(low, high, len(edges)).astype(np.float32)
            weights[edges] *= factor
            if graph.has_reverse_edges:
                proper = graph.reverse_edges[edges] != edges
                weights[graph.reverse_edges[edges][proper]] *= factor[proper]
    keep = np.ones(graph.num_edges, np.bool_)
    gone = drawn.get("delete", np.empty(0, np.int64))
    keep[gone] = False
    if graph.has_reverse_edges:
        keep[graph.reverse_edges[gone]] = False
    likes = drawn.get("insert", np.empty(0, np.int64))
    sources, destinations = _new_pairs(graph, len(likes), rng)
    origin = likes[: len(sources)]
    if graph.has_reverse_edges:
        sources, destinations = np.append(sources, destinations), np.append(destinations, sources)
        origin = np.append(origin, graph.reverse_edges[origin].astype(np.int64))
    rows = np.append(np.flatnonzero(keep), origin)
    return Graph.from_edges(
        np.append(graph.csr.row_of_edge[keep].astype(np.int64), sources),
        np.append(graph.csr.neighbours[keep].astype(np.int64), destinations),
        num_vertices=graph.num_vertices, weights=None if weights is None else weights[rows], name=graph.name,
        directed=graph.directed, duplicates="keep", labels=graph.labels, vertex_data=graph.vertex_data,
        edge_data={key: value[rows] for key, value in graph.edge_data.items()}, bipartite=graph.bipartite,
        meta=graph.meta,
    )  # fmt: skip


def _new_pairs(graph: Graph, count: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Draw up to ``count`` distinct pairs of unconnected vertices; u < v if every edge has its reverse."""
    taken = _edge_keys(graph)  # ascending
    found: Any = np.empty(0, np.int64)
    left = graph.num_vertices if graph.bipartite is None else graph.bipartite[0]
    for _ in range(ROUNDS):
        if len(found) >= count:
            break
        first = 0 if graph.bipartite is None else left
        u = rng.integers(0, max(left, 1), 2 * count)
        v = rng.integers(first, max(graph.num_vertices, first + 1), 2 * count)
        if graph.has_reverse_edges:
            u, v = np.minimum(u, v), np.maximum(u, v)
        keys = (u * graph.num_vertices + v)[(u != v) & (v < graph.num_vertices)]
        at = np.minimum(np.searchsorted(taken, keys), len(taken) - 1)
        found = np.union1d(found, keys[taken[at] != keys])
    if count and not len(found):
        raise GraphError(f"graph {graph.name!r} has no pair of vertices left that an edge could join")
    found = rng.permutation(found)[:count]
    return found // graph.num_vertices, found % graph.num_vertices
