"""The graph that every engine runs on: CSR, CSC on demand, weights, labels, vertex data and edge data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from harness.facts import Degrees, GraphFacts
from harness.graph import edges, identity, in_edges, validation
from harness.graph.adjacency import Adjacency, Array, degree_summary, frozen, transpose
from harness.graph.edges import Duplicates
from harness.graph.errors import GraphError
from harness.graph.file_maps import in_parts
from harness.graph.slices import equal_in_slices, taken

FORWARD = "forward"  # the edge data of both_directions()
ORIGINAL_ID = "original_id"  # the vertex data in which loaders keep the ids of a file


class Graph:
    """A directed multigraph in compressed rows.

    An edge is a stored, directed pair of vertices. An undirected graph stores both directions (a self-loop once).
    Arrays are read-only. `name` and `meta` describe the graph; `content_hash` ignores them.

    name: a display name. directed: False if each edge and its reverse represent one undirected edge.
    csr: out-edges by source; an edge's position in it is its id. csc: in-edges by destination, built at first use;
    `in_offsets`, `in_degrees` and `facts` do not need it.
    weights: float32[E] in CSR order, or None. labels: int32[V] (-1: unknown), or None.
    vertex_data, edge_data: arrays by name; the first axis is V, or E in CSR order.
    bipartite: (left, right) if vertices 0..left-1 are one side and the others the other side, else None.
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
        """Wrap arrays that are as documented above; `from_edges` builds them. Only lengths are checked."""
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
        """Build the graph of the edges sources[i] -> destinations[i], integers [E], in any order.

        num_vertices: 1 + the largest id if None. weights: [E], finite as float32.
        duplicates: the treatment of parallel edges. "error" refuses them; "sum" and "min" merge them into one edge of
            the summed or the least weight (unweighted graphs: one edge); "keep" keeps them in the given order.
        symmetrize: add the reverse of every edge with the same weight, self-loops once, before `duplicates` applies;
            the graph is then undirected. edge_data: [E, ...] in the order of the edges; not if edges are merged.

        Raises GraphError for invalid ids, weights or lengths.
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
        """In-edges by destination, with the CSR position of each edge; built by a counting sort at first use."""
        made = transpose(self.csr)
        assert made.edge_ids is not None
        return Adjacency(frozen(made.offsets), frozen(made.neighbours), frozen(made.edge_ids))

    @cached_property
    def in_weights(self) -> NDArray[np.float32] | None:
        """The weights in CSC order, float32[E], or None."""
        return None if self.weights is None else frozen(taken(self.weights, self.in_edge_ids))

    def in_csc_order(self, values: NDArray[Any]) -> NDArray[Any]:
        """Reorder edge values ``[E, ...]`` from CSR to CSC order; the weights are reordered only once."""
        weights = self.in_weights if values is self.weights else None
        return taken(values, self.in_edge_ids) if weights is None else weights

    @property
    def in_edge_ids(self) -> Array:
        """CSR position of each edge, [E], in CSC order."""
        ids = self.csc.edge_ids
        assert ids is not None
        return ids

    @property
    def out_degrees(self) -> NDArray[np.int64]:
        """Number of out-edges of each vertex, int64[V]."""
        return self.csr.degrees

    @property
    def in_degrees(self) -> NDArray[np.int64]:
        """Number of in-edges of each vertex, int64[V]."""
        return np.diff(self.in_offsets)

    @property
    def in_offsets(self) -> NDArray[np.int64]:
        """The offsets of the CSC, int64[V + 1]; the destinations are counted at first use unless there is a CSC."""
        return self.csc.offsets if "csc" in self.__dict__ else self._counted

    @cached_property
    def _counted(self) -> NDArray[np.int64]:
        return frozen(in_edges.in_offsets(self.csr))

    def edges_into(self, vertices: NDArray[Any]) -> tuple[Array, Array, Array]:
        """Return the edges into distinct vertices: CSR positions, ascending, sources and destinations.

        The edges are looked up in the CSC; all edges are searched if it has not been built.
        """
        if "csc" in self.__dict__:
            lengths = self.csc.offsets[vertices + 1] - self.csc.offsets[vertices]
            ends = np.cumsum(lengths)
            count = int(ends[-1]) if len(ends) else 0
            places = np.repeat(self.csc.offsets[vertices] - ends + lengths, lengths) + np.arange(count)
            positions = np.sort(self.in_edge_ids[places].astype(np.int64))
            destinations = self.csr.neighbours[positions]
        else:
            positions, destinations = in_edges.edges_into(self.csr, vertices)
        return positions, in_edges.sources_of(self.csr, positions), destinations

    @cached_property
    def facts(self) -> GraphFacts:
        """Size, degree summary and kind, computed at first use."""
        return self.facts_with(degree_summary(np.diff(self.in_offsets)), self.csr.degree_summary)

    def facts_with(self, in_degrees: Degrees, out_degrees: Degrees) -> GraphFacts:
        """Return the facts with known summaries of the degrees."""
        return GraphFacts(
            self.num_vertices, self.num_edges, in_degrees.largest, in_degrees, out_degrees, self.bipartite,
            self.has_reverse_edges, self.has_self_loops, self._leads_right, self.csr.spans,
            self.csr.differences,
        )  # fmt: skip

    @property
    def _leads_right(self) -> bool:
        """Whether the graph is bipartite, and every edge leads from its left to its right side."""
        return self.bipartite is not None and int(self.csr.offsets[self.bipartite[0]]) == self.num_edges

    @cached_property
    def has_reverse_edges(self) -> bool:
        """True if there are as many edges v -> u as u -> v for all u and v."""
        same_rows = np.array_equal(self.csr.offsets, self.in_offsets)  # otherwise no CSC is built
        return same_rows and equal_in_slices(self.csr.neighbours, self.csc.neighbours)

    @cached_property
    def has_self_loops(self) -> bool:
        """True if an edge leads from a vertex to itself."""
        return self.bipartite is None and in_edges.any_self_loop(self.csr)

    @cached_property
    def has_parallel_edges(self) -> bool:
        """True if several edges lead from one vertex to another."""
        return not edges.first_of_parallel(self.csr).all()

    @property
    def reverse_edges(self) -> Array:
        """CSR position of each edge's reverse, [E], in CSR order.

        The i-th of the parallel edges u -> v pairs with the i-th of v -> u, so reversing twice gives the same edge. A
        self-loop is its own reverse. If all edges pair, CSR and CSC list the same (vertex, neighbour) rows, and the
        j-th edge of the one is the reverse of the j-th edge of the other. The result is therefore the CSC's edge_ids.

        Raises GraphError if an edge has no reverse.
        """
        if not self.has_reverse_edges:
            raise GraphError(
                f"graph {self.name!r}: some edges have no reverse edge; use graph.with_reverse_edges(), "
                "or load it with symmetrize=True"
            )
        return self.in_edge_ids

    @cached_property
    def content_hash(self) -> str:
        """Hexadecimal BLAKE2b of the structure, weights, labels and data, without name, meta and origin."""
        return identity.content_hash(self.arrays(), directed=self.directed, bipartite=self.bipartite)

    @cached_property
    def least_weight(self) -> float:
        """The smallest weight; 0 without weights or edges."""
        weights = np.zeros(0, np.float32) if self.weights is None else self.weights
        return min((float(part.min()) for part in in_parts(weights)), default=0.0)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays held, with the CSC and `in_weights` once they are built."""
        total = sum(array.nbytes for _, array in self.arrays())
        if "csc" in self.__dict__:
            total += self.csc.offsets.nbytes + self.csc.neighbours.nbytes + self.in_edge_ids.nbytes
        if "in_weights" in self.__dict__ and self.in_weights is not None:
            total += self.in_weights.nbytes
        return total

    def arrays(self) -> Iterator[tuple[str, Array]]:
        """Yield the arrays that define the graph (not the CSC) with names such as "edge_data/x", in a fixed order."""
        yield "offsets", self.csr.offsets
        yield "neighbours", self.csr.neighbours
        if self.weights is not None:
            yield "weights", self.weights
        if self.labels is not None:
            yield "labels", self.labels
        for group, data in (("vertex_data", self.vertex_data), ("edge_data", self.edge_data)):
            for key in sorted(data):
                yield f"{group}/{key}", data[key]

    def with_reverse_edges(self) -> Graph:
        """Return the undirected graph with the reverse of every edge, which has the edge's weight and data.

        Edges that already have a reverse keep it (the i-th of u -> v pairs with the i-th of v -> u); only missing
        reverses are added. A graph whose edges all have reverses is returned unchanged.
        """
        if self.has_reverse_edges:
            return self
        csr, origin = edges.with_missing_reverses(self.csr)
        return self._with_edges(csr, origin, directed=False)

    def both_directions(self) -> Graph:
        """Return the graph with every edge in both directions, for programs that aggregate over out-edges.

        It has 2E edges: each edge u -> v, and v -> u with the same weight and data. The edge data ``forward``, bool[2E]
        in CSR order, is True for those of this graph. Self-loops are stored twice too. Labels and vertex data are
        unchanged.

        Raises GraphError if the graph has edge data ``forward``, as the result of this method has.
        """
        if FORWARD in self.edge_data:
            raise GraphError(f"graph {self.name!r} has edge data {FORWARD!r} already; rename or remove it")
        csr, origin, forward = edges.both_directions(self.csr)
        graph = self._with_edges(csr, origin, directed=True)
        return graph._replace(edge_data={**graph.edge_data, FORWARD: forward})

    def with_weights(self, weights: ArrayLike | None) -> Graph:
        """Return the graph with other weights: finite, [E] in CSR order; None removes them. The CSC is shared.

        Raises GraphError for invalid weights.
        """
        checked = None if weights is None else edges.checked_weights(np.array(weights), self.num_edges, self.name)
        changed = self._replace(weights=checked)
        if "csc" in self.__dict__:
            changed.__dict__["csc"] = self.csc
        return changed

    def select_edges(self, keep: ArrayLike) -> Graph:
        """Return the graph of the edges where `keep`, bool[E] in CSR order, holds, with their weights and data.

        Vertices, labels and vertex data are unchanged. An undirected graph stays undirected if every kept edge has its
        reverse; otherwise the result is directed.

        Raises GraphError if `keep` is not bool[E].
        """
        kept = np.asarray(keep)
        selected = self._with_edges(edges.select(self.csr, kept, self.name), kept, directed=True)
        selected.directed = self.directed or not selected.has_reverse_edges
        return selected

    def validate(self) -> None:
        """Check all invariants of this class in O(V + E). Raises GraphError for the first violation."""
        fault = (
            validation.structure(self.csr)
            or validation.order(self.csr)
            or validation.values(self.weights, self.labels)
            or ("it is undirected, but some edges have no reverse edge" if self._lacks_reverses() else "")
            or validation.sides(self.csr, self.bipartite)
        )
        if fault:
            raise GraphError(f"graph {self.name!r}: {fault}; build it with Graph.from_edges")

    @property
    def vertex_names(self) -> Array | None:
        """The names of the vertices, integers or strings [V]: the ids of a file, or names of another library.

        None: vertices are named 0 to V - 1.
        """
        names = self.vertex_data.get(ORIGINAL_ID)
        return names if names is not None and names.ndim == 1 and names.dtype.kind in "iuU" else None

    def with_vertex_names(self, names: Array) -> Graph:
        """Return the graph with the names ``names``, integers or strings [V]. Raises GraphError for another length."""
        return self._replace(vertex_data={**self.vertex_data, ORIGINAL_ID: frozen(names)})

    def _lacks_reverses(self) -> bool:
        return not self.directed and not self.has_reverse_edges

    def _with_edges(self, csr: Adjacency, origin: Array, *, directed: bool) -> Graph:
        """Return the graph of other edges; `origin`: positions in this graph, or a mask, of their weights and data."""
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
                    f"one entry per {'vertex' if length == self.num_vertices else 'edge'}"
                )
        if self.bipartite is not None and (sum(self.bipartite) != self.num_vertices or min(self.bipartite) < 0):
            raise GraphError(
                f"graph {self.name!r}: sides {self.bipartite} do not add up to its {self.num_vertices} vertices"
            )

    def __repr__(self) -> str:
        kind = "directed" if self.directed else "undirected"
        weighted = ", weighted" if self.weights is not None else ""
        return f"<Graph {self.name!r}: {self.num_vertices:,} vertices, {self.num_edges:,} edges, {kind}{weighted}>"
