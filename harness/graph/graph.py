"""The graph every engine runs on: CSR, CSC on demand, weights, labels and vertex and edge data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from harness.facts import GraphFacts
from harness.graph import edges, identity, validation
from harness.graph.adjacency import Adjacency, Array, frozen, transpose
from harness.graph.edges import Duplicates
from harness.graph.errors import GraphError
from harness.graph.slices import taken


class Graph:
    """A directed multigraph in compressed rows; an undirected one holds both arcs of every edge (a self-loop once).

    Arrays are read-only. `name` and `meta` describe the graph and take no part in `content_hash`.

    name: for people. directed: False when the arcs are meant as undirected edges.
    csr: out-arcs by source; an arc's position in it is its id. csc: in-arcs by destination, made at first use.
    weights: float32[E] in CSR order, or None. labels: int32[V] (-1 unknown), or None.
    vertex_data, edge_data: arrays by name, first axis V, or E in CSR order.
    bipartite: (left, right) when vertices 0..left-1 are one side and the rest the other, or None.
    meta: plain JSON data: origin, image shape, units.
    """

    def __init__(
        self,
        csr: Adjacency,
        *,
        name: str,
        directed: bool = True,
        weights: Array | None = None,
        labels: Array | None = None,
        vertex_data: Mapping[str, Array] | None = None,
        edge_data: Mapping[str, Array] | None = None,
        bipartite: tuple[int, int] | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> None:
        """Wrap arrays that already are as documented above; `from_edges` makes them. Lengths alone are checked."""
        self.name = name
        self.directed = directed
        self.csr = Adjacency(frozen(csr.offsets, np.int64), frozen(csr.neighbours))
        self.num_vertices = int(self.csr.offsets.size - 1)
        self.num_edges = int(self.csr.neighbours.size)
        self.weights: NDArray[np.float32] | None = None if weights is None else frozen(weights, np.float32)
        self.labels: NDArray[np.int32] | None = None if labels is None else frozen(labels, np.int32)
        self.vertex_data = {key: frozen(value) for key, value in (vertex_data or {}).items()}
        self.edge_data = {key: frozen(value) for key, value in (edge_data or {}).items()}
        self.bipartite = None if bipartite is None else (int(bipartite[0]), int(bipartite[1]))
        self.meta: dict[str, Any] = dict(meta or {})
        self._check_lengths()

    @classmethod
    def from_edges(
        cls,
        sources: ArrayLike,
        destinations: ArrayLike,
        *,
        num_vertices: int | None = None,
        weights: ArrayLike | None = None,
        name: str,
        directed: bool = True,
        duplicates: Duplicates = "error",
        symmetrize: bool = False,
        labels: ArrayLike | None = None,
        vertex_data: Mapping[str, ArrayLike] | None = None,
        edge_data: Mapping[str, ArrayLike] | None = None,
        bipartite: tuple[int, int] | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> Graph:
        """The graph of the arcs sources[i] -> destinations[i], integers [E], in any order.

        num_vertices: 1 + the largest id when None. weights: [E], finite as float32.
        duplicates: what parallel arcs become: an error, one arc of their summed or least weight (one plain arc when
            there are no weights), or "keep": themselves, in the order given.
        symmetrize: every arc also backwards with its weight, self-loops once, before `duplicates` applies; the graph
            is then undirected. edge_data: [E, ...], in the order of the arcs; only where no arcs are merged.

        Raises GraphError for ids, weights or lengths that do not fit.
        """
        csr, sorted_weights, sorted_data = edges.build(
            sources, destinations, num_vertices, weights, duplicates, symmetrize, edge_data, name
        )
        return Graph(
            csr,
            name=name,
            directed=directed and not symmetrize,
            weights=sorted_weights,
            labels=None if labels is None else edges.checked_labels(labels, name),
            vertex_data={key: np.array(value) for key, value in (vertex_data or {}).items()},
            edge_data=sorted_data,
            bipartite=bipartite,
            meta=meta,
        )

    @cached_property
    def csc(self) -> Adjacency:
        """In-arcs by destination, with the CSR position of each arc; a counting transposition at first use."""
        made = transpose(self.csr)
        assert made.edge_ids is not None
        return Adjacency(frozen(made.offsets), frozen(made.neighbours), frozen(made.edge_ids))

    @cached_property
    def in_weights(self) -> NDArray[np.float32] | None:
        """The weights in CSC order, float32[E], or None."""
        return None if self.weights is None else frozen(taken(self.weights, self.in_edge_ids))

    def in_csc_order(self, values: NDArray[Any]) -> NDArray[Any]:
        """Values of arcs, ``[E, ...]`` in CSR order, in CSC order; the weights are ordered once."""
        weights = self.in_weights if values is self.weights else None
        return taken(values, self.in_edge_ids) if weights is None else weights

    @property
    def in_edge_ids(self) -> Array:
        """CSR position of each arc in CSC order, [E]."""
        ids = self.csc.edge_ids
        assert ids is not None
        return ids

    @property
    def out_degrees(self) -> NDArray[np.int64]:
        """Out-arcs of each vertex, int64[V]."""
        return self.csr.degrees

    @property
    def in_degrees(self) -> NDArray[np.int64]:
        """In-arcs of each vertex, int64[V]."""
        return self.csc.degrees

    @cached_property
    def facts(self) -> GraphFacts:
        """Size and degree summary, computed at first use."""
        return GraphFacts(self.num_vertices, self.num_edges, int(self.in_degrees.max(initial=0)))

    @cached_property
    def has_reverse_edges(self) -> bool:
        """Whether every arc u -> v pairs with an arc v -> u: as many of the one as of the other."""
        same_rows = np.array_equal(self.csr.offsets, self.csc.offsets)
        return same_rows and np.array_equal(self.csr.neighbours, self.csc.neighbours)

    @property
    def reverse_edges(self) -> Array:
        """CSR position of each arc's reverse, [E], in CSR order.

        The i-th of the parallel arcs u -> v pairs with the i-th of v -> u, so the reverse of the reverse is the arc;
        a self-loop is its own reverse. Where all arcs pair, CSR and CSC list the same (vertex, neighbour) rows, so
        the j-th arc of the one is the reverse of the j-th of the other: this *is* the CSC's edge_ids.

        Raises GraphError when some arc has no reverse.
        """
        if not self.has_reverse_edges:
            raise GraphError(
                f"graph {self.name!r}: some arcs have no reverse arc; use graph.with_reverse_arcs(), "
                "or load it with symmetrize=True"
            )
        return self.in_edge_ids

    @cached_property
    def content_hash(self) -> str:
        """Hexadecimal BLAKE2b of the structure, weights, labels and data; not of name, meta or origin."""
        return identity.content_hash(self.arrays(), directed=self.directed, bipartite=self.bipartite)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays held, the CSC's and `in_weights` once they are made."""
        total = sum(array.nbytes for _, array in self.arrays())
        if "csc" in self.__dict__:
            total += self.csc.offsets.nbytes + self.csc.neighbours.nbytes + self.in_edge_ids.nbytes
        if "in_weights" in self.__dict__ and self.in_weights is not None:
            total += self.in_weights.nbytes
        return total

    def arrays(self) -> Iterator[tuple[str, Array]]:
        """Every array that makes the graph (so not the CSC), by a name that says its place, in a fixed order."""
        yield "offsets", self.csr.offsets
        yield "neighbours", self.csr.neighbours
        if self.weights is not None:
            yield "weights", self.weights
        if self.labels is not None:
            yield "labels", self.labels
        for group, data in (("vertex_data", self.vertex_data), ("edge_data", self.edge_data)):
            for key in sorted(data):
                yield f"{group}/{key}", data[key]

    def with_reverse_arcs(self) -> Graph:
        """The undirected graph in which every arc also runs backwards with its weight and edge data.

        Arcs that already have a reverse keep it (the i-th of u -> v pairs with the i-th of v -> u) and only the
        missing ones are added, so a graph whose arcs all pair is returned as it is.
        """
        if self.has_reverse_edges:
            return self
        csr, origin = edges.with_missing_reverses(self.csr)
        return self._with_arcs(csr, origin, directed=False)

    def with_weights(self, weights: ArrayLike | None) -> Graph:
        """The same graph with other weights, [E] in CSR order, finite (None: without). The CSC is shared."""
        checked = None if weights is None else edges.checked_weights(np.array(weights), self.num_edges, self.name)
        changed = self._replace(weights=checked)
        if "csc" in self.__dict__:
            changed.__dict__["csc"] = self.csc
        return changed

    def select_arcs(self, keep: ArrayLike) -> Graph:
        """The graph of the arcs for which `keep`, bool[E] in CSR order, holds; weights and edge data selected along.

        Vertices and all that is known of them stay. An undirected graph stays undirected while every arc that is kept
        has its reverse; otherwise the result is directed.

        Raises GraphError when `keep` is not one bool for each arc.
        """
        kept = np.asarray(keep)
        selected = self._with_arcs(edges.select(self.csr, kept, self.name), kept, directed=True)
        selected.directed = self.directed or not selected.has_reverse_edges
        return selected

    def validate(self) -> None:
        """Check all that this class promises, in O(V + E). Raises GraphError on the first thing that does not hold."""
        fault = (
            validation.structure(self.csr)
            or validation.order(self.csr)
            or validation.values(self.weights, self.labels)
            or ("it is undirected, but some arcs have no reverse arc" if self._lacks_reverses() else "")
            or validation.sides(self.csr, self.bipartite)
        )
        if fault:
            raise GraphError(f"graph {self.name!r}: {fault}; build it with Graph.from_edges")

    def _lacks_reverses(self) -> bool:
        return not self.directed and not self.has_reverse_edges

    def _with_arcs(self, csr: Adjacency, origin: Array, *, directed: bool) -> Graph:
        """Return the graph of other arcs; `origin`: the positions here, or a mask, of their weights and data."""
        return self._replace(
            csr=csr,
            directed=directed,
            weights=None if self.weights is None else self.weights[origin],
            edge_data={key: value[origin] for key, value in self.edge_data.items()},
        )

    def _replace(self, **changes: Any) -> Graph:
        fields: dict[str, Any] = {
            "name": self.name, "directed": self.directed, "weights": self.weights, "labels": self.labels,
            "vertex_data": self.vertex_data, "edge_data": self.edge_data, "bipartite": self.bipartite,
            "meta": self.meta,
        }  # fmt: skip
        return Graph(changes.pop("csr", self.csr), **(fields | changes))

    def _check_lengths(self) -> None:
        expected = {"weights": self.num_edges, "labels": self.num_vertices}
        for place, array in self.arrays():
            length = expected.get(place)
            if place.startswith("vertex_data/"):
                length = self.num_vertices
            elif place.startswith("edge_data/"):
                length = self.num_edges
            if length is not None and array.shape[:1] != (length,):
                raise GraphError(
                    f"graph {self.name!r}: {place} has shape {array.shape}; its first axis must be {length}, "
                    f"one entry per {'vertex' if length == self.num_vertices else 'arc'}"
                )
        if self.bipartite is not None and (sum(self.bipartite) != self.num_vertices or min(self.bipartite) < 0):
            raise GraphError(
                f"graph {self.name!r}: sides {self.bipartite} do not add up to its {self.num_vertices} vertices"
            )

    def __repr__(self) -> str:
        kind = "directed" if self.directed else "undirected"
        weighted = ", weighted" if self.weights is not None else ""
        return f"<Graph {self.name!r}: {self.num_vertices:,} vertices, {self.num_edges:,} arcs, {kind}{weighted}>"
