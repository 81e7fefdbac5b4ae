"""Graphs of other libraries as graphs of the harness, with the names of their vertices.

A library is recognised by the module of the object's class and is never imported here.
"""

from __future__ import annotations

import copy
import inspect
import os
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.graph import Graph, GraphError
from harness.graph.graph import ORIGINAL_ID
from harness.graph.named import open_graph
from harness.plugins import closest
from onyx_harness.arrays import is_of
from onyx_harness.conversions import Converted, of_arrays, of_edge_index, of_frame, of_matrix, of_networkx
from onyx_harness.requests import graph_request

_TAKEN = (
    "a name of the catalogue, a path, a Graph, a networkx graph, a scipy.sparse matrix, a tuple (src, dst[, weight]) "
    "of arrays, a pandas or polars frame of edges, or an edge_index of shape [2, E]"
)


@dataclass(frozen=True)
class NamedGraph:
    """A graph with the names of its vertices.

    ``names``: the name of each vertex in the graph's order (a networkx node, an id or a string); None: vertices are
    named 0 to V - 1.
    """

    graph: Graph
    names: Sequence[Hashable] | None = None

    @cached_property
    def _numbers(self) -> dict[Hashable, int]:
        numbers = {name: number for number, name in enumerate(self.vertices())}
        if len(numbers) < self.graph.num_vertices:
            raise GraphError(
                f"graph {self.graph.name!r}: several vertices have the same name, such as the users and items of "
                f"ratings; use vertex numbers and graph.vertex_data[{ORIGINAL_ID!r}]"
            )
        return numbers

    def vertices(self) -> Sequence[Hashable]:
        """Return the name of each vertex, in the graph's order."""
        return range(self.graph.num_vertices) if self.names is None else self.names

    def index(self, name: Hashable) -> int:
        """Return the number of the vertex called ``name``. Raises GraphError for an unknown or ambiguous name."""
        try:
            return self._numbers[name]
        except KeyError:
            known = [one for one in self._numbers if isinstance(one, str)]
            hint = closest(name, known) if isinstance(name, str) else ""
            raise GraphError(f"graph {self.graph.name!r} has no vertex {name!r}{hint}") from None

    def by_vertex(self, values: NDArray[Any]) -> dict[Hashable, Any]:
        """Return ``values``, ``[V, ...]``, as a dictionary by vertex name.

        An entry with one element is a Python number, others are arrays. Raises GraphError for ambiguous names.
        """
        numbers = self._numbers
        if values[:1].size <= 1:
            return dict(zip(numbers, values.reshape(-1).tolist(), strict=True))
        return dict(zip(numbers, values, strict=True))

    def __repr__(self) -> str:
        named = "" if self.names is None else ", named vertices"
        return f"{repr(self.graph)[:-1]}{named}>"


def as_graph(data: Any, **options: Any) -> NamedGraph:
    """Return the graph that ``data`` describes, with the names of its vertices.

    ============================  ==================================================================================
    data                          options
    ============================  ==================================================================================
    name of the catalogue         the graph's parameters, such as ``scale=12``
    path of a file                ``format``, ``duplicates``, ``symmetrize``, ``max_expansion``
    Graph, NamedGraph             none
    networkx graph                ``weight`` (edge attribute; default "weight" where present, None: no weights)
    sparse matrix, SciPy or CuPy  ``weighted``, ``symmetrize``, ``duplicates``; entry [i, j] is the edge i -> j
    (src, dst[, weight]) arrays   ``num_vertices``, ``symmetrize``, ``duplicates``, ``named``
    pandas or polars frame        ``src``, ``dst``, ``weight`` (columns), ``symmetrize``, ``duplicates``
    edge_index [2, E]             ``weight`` (array [E]), ``num_vertices``, ``symmetrize``, ``duplicates``
    ============================  ==================================================================================

    Each accepts ``name``, the display name. ``symmetrize`` and ``duplicates`` are those of `Graph.from_edges`. An
    undirected networkx graph stores each edge in both directions; edges without the weight attribute have weight 1, as
    in networkx. Integer ids in arrays are vertex numbers; with ``named=True``, and always in frames, ids are names:
    vertices are numbered by ascending id. Strings are always names. Weights are converted to float32.

    The graph is built on the host: arrays on a GPU, and matrices of CuPy, are copied there once. Tensors on the CPU
    share their memory.

    Raises GraphError for data or options of the wrong kind, UnknownName for an unknown name.
    """
    if isinstance(data, NamedGraph):
        return NamedGraph(_converted(_graph, data.graph, options).graph, data.names)
    if isinstance(data, Graph):
        return of_loaded(_converted(_graph, data, options).graph)
    if isinstance(data, (str, os.PathLike)):
        return _located(data, options)
    if isinstance(data, tuple):
        return _converted(of_arrays, data, options)
    for library, convert in _CONVERTERS:
        if is_of(data, library):
            return _converted(convert, data, options)
    if hasattr(data, "__dlpack__"):  # NumPy, torch, CuPy
        return _converted(of_edge_index, data, options)
    if isinstance(data, (list, dict)):
        mend = "for pairs or adjacency lists, give networkx.Graph(...), or networkx.DiGraph(...) for directed edges"
        raise GraphError(f"a {type(data).__name__} is not a graph; {mend}")
    kind = f"{type(data).__module__}.{type(data).__qualname__}".removeprefix("builtins.")
    raise GraphError(f"data of type {kind} are not a graph; give {_TAKEN}")


def of_loaded(graph: Graph) -> NamedGraph:
    """Return a loaded graph, named by the ids of its file."""
    ids = graph.vertex_names
    return NamedGraph(graph, None if ids is None else ids.tolist())


def _located(place: str | os.PathLike[str], options: dict[str, Any]) -> NamedGraph:
    """Open a graph of the catalogue, or the file at a path."""
    parameters = {key: value for key, value in options.items() if key != "name"}
    opened = open_graph(*graph_request(place, parameters))
    return of_loaded(_graph(opened, name=options.get("name"))[0])


def _converted(convert: Callable[..., Converted], data: Any, options: Mapping[str, Any]) -> NamedGraph:
    """Call a converter. Raises GraphError for an option that it does not have."""
    parameters = inspect.signature(convert).parameters.values()
    known = [one.name for one in parameters if one.kind is inspect.Parameter.KEYWORD_ONLY]
    for name in options:
        if name not in known:
            kind = convert.__name__.strip("_").removeprefix("of_").replace("_", " ")
            hint = f"{closest(name, known)} (it has: {', '.join(known)})"
            raise GraphError(f"a graph from {kind} has no option {name!r}{hint}")
    graph, names = convert(data, **options)
    return NamedGraph(graph if names is None else graph.with_vertex_names(_stored(names)), names)


def _stored(names: Sequence[Hashable]) -> NDArray[Any]:
    """Return names as an array that can be stored: int64[V], or the texts of names that are not all integers."""
    if all(type(name) is int and -(2**63) <= name < 2**63 for name in names):
        return np.array(names, np.int64)
    return np.array([str(name) for name in names])


def _graph(graph: Graph, *, name: str | None = None) -> Converted:
    if name is not None and name != graph.name:
        graph = copy.copy(graph)
        graph.name = name
    return graph, None


_CONVERTERS: tuple[tuple[str, Callable[..., Converted]], ...] = (
    ("networkx", of_networkx),
    ("scipy.sparse", of_matrix),
    ("cupyx.scipy.sparse", of_matrix),
    ("pandas", of_frame),
    ("polars", of_frame),
)
