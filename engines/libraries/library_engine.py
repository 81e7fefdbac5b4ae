"""The base of engines that call a graph library's own function for a well-known problem."""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from engines.libraries.solving import Array, Reader, Solver, Solving
from harness.api import (
    Device,
    Engine,
    Graph,
    Inputs,
    No,
    Phases,
    Program,
    Unsupported,
    Yes,
    initial_values,
)
from harness.api.library import Recognised, recognised

# Of the tolerance: a library stops each vector by itself, and its errors are at other vertices than those of
# supersteps. With a tenth, 8 personalised vectors on as-caida were off by 1.3 times their bounds, and PageRank on a
# grid of 50 x 50 by 2 to 5 times with BiCGSTAB, CGS and GMRES (with a hundredth, up to 1.9 times). Time to equal
# accuracy is found with larger tolerances.
MARGIN = 1e-3
SOURCED, UNDIRECTED = ("bfs", "sssp"), ("components", "kcore")


@dataclass(frozen=True)
class Case:
    """A posed problem.

    ``sources``: int64[k], of paths. ``teleport``: float64[V, k], of PageRank, every column with the total
    ``totals``[k] divided out. ``tolerance``: MARGIN of the program's. ``own``: float64[V], the labels at the start.
    """

    kind: str
    graph: Graph
    features: int
    core: int
    alpha: float
    tolerance: float
    sources: Array
    teleport: Array
    totals: Array
    own: Array


Way: TypeAlias = Callable[[Any, Case], Reader]  # of the engine and the case
NOTHING: Array = np.empty(0)


class LibraryEngine(Solving, Engine):
    """A graph library: converts the graph in ``prepare``, and calls one of its functions in ``run``.

    ``ways``: the functions by kind of problem and name. Programs are recognised by their structure
    (:func:`harness.api.library.recognised`), and everything else is refused.
    """

    ways: ClassVar[Mapping[str, Mapping[str, Way]]]
    bytes_per_edge: ClassVar[int]  # of the library's own graph

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.every_way = tuple(dict.fromkeys(name for ways in cls.ways.values() for name in ways))

    @abstractmethod
    def load(self, device: Device) -> None:
        """Import the library and set its number of threads."""

    @abstractmethod
    def convert(self, graph: Graph, kind: str) -> None:
        """Make the library's own graph for a kind of problem."""

    def refused(self, problem: Recognised, graph: Graph, features: int) -> str:
        """Return why the library cannot solve a problem that it has ways for; empty if it can."""
        return ""

    def usable(self, way: str, case: Case) -> bool:
        """Return whether a way solves the case; its answer would be wrong otherwise."""
        return True

    def supports(self, program: Program, graph: Graph, features: int, device: Device) -> Yes | No:
        """Return whether the library has a function for the program."""
        if device.kind != "cpu":
            return No(f"{self.library} runs on the processor only")
        problem = recognised(program)
        if problem is None or problem.kind not in self.ways:
            return No(f"{self.library} has no function for this program; this engine calls those for {self._solved()}")
        if self.schedule.way not in ("auto", *self.ways[problem.kind]):
            return No(f"way={self.schedule.way} of {self.library} does not solve {program.name}")
        if problem.kind in UNDIRECTED and not (graph.has_reverse_edges and _simple(graph, problem.kind)):
            return No(f"{self.library} finds {problem.kind} of simple undirected graphs only")
        reason = self.refused(problem, graph, features)
        if reason:
            return No(reason)
        return Yes((self.bytes_per_edge + 16) * graph.num_edges + 16 * (features + 4) * graph.num_vertices)

    def _solved(self) -> str:
        return ", ".join(sorted(self.ways))

    def prepare(self, program: Program, graph: Graph, features: int, device: Device, phases: Phases) -> None:
        """Import the library and convert the graph."""
        problem = recognised(program)
        assert problem is not None
        self.program, self.graph, self.features, self.problem = program, graph, features, problem
        with phases("load"):
            self.load(device)
        with phases("transform"):
            self.convert(graph, problem.kind)

    @property
    def result(self) -> str:
        """The only output of a recognised program."""
        return self.program.outputs[0]

    def pose(self, inputs: Inputs, state: Mapping[str, NDArray[np.generic]]) -> None:
        """Read sources, teleport vectors or labels from the inputs."""
        values = initial_values(self.program, self.graph, self.features, inputs, state, np.float64)
        if state:
            raise Unsupported(f"{self.library} solves from the program's own start")
        if "weight" in inputs.properties:
            raise Unsupported(f"{self.library} takes the weights of the graph, not those of the inputs")
        self.start = values[self.result]
        self._case = self._posed(values, {**self.program.parameters, **inputs.parameters})

    def _posed(self, values: Mapping[str, Array], parameters: Mapping[str, float]) -> Case:
        kind, names = self.problem.kind, self.problem.properties
        sources, teleport, totals = NOTHING.astype(np.int64), NOTHING, NOTHING
        if kind in SOURCED:
            sources = _sources(values[names["source"]], self.library)
        if kind == "pagerank":
            teleport = values[names["teleport"]]
            totals = teleport.sum(axis=0)
            if (teleport < 0).any() or not (totals > 0).all():
                raise Unsupported(f"{self.library} takes teleport vectors >= 0 that are not zero")
            teleport = teleport / totals
        named = {own: parameters[name] for own, name in self.problem.parameters.items()}
        return Case(
            kind, self.graph, self.features, self.problem.core,
            alpha=named.get("alpha", 0.0), tolerance=MARGIN * named.get("tolerance", 0.0), sources=sources,
            teleport=teleport, totals=totals, own=values[names["own"]] if kind == "components" else NOTHING,
        )  # fmt: skip

    def solvers(self) -> Mapping[str, Solver]:
        """Return the usable ways of the problem."""
        case = self._case
        return {
            name: functools.partial(way, self, case)
            for name, way in self.ways[case.kind].items()
            if self.usable(name, case)
        }

    def close(self) -> None:
        """Release the graph and the case."""
        super().close()
        for name in ("network", "_case"):
            self.__dict__.pop(name, None)


def _sources(start: Array, library: str) -> NDArray[np.int64]:
    """Return the vertex at 0 of every column of ``[V, k]``. Raises Unsupported if all others are not at infinity."""
    at = start == 0
    if not (at.sum(axis=0) == 1).all() or not np.isinf(start[~at]).all():
        raise Unsupported(f"{library} takes one source a feature: a vertex at 0, and all others at infinity")
    return np.asarray(at.argmax(axis=0), np.int64)


def _simple(graph: Graph, kind: str) -> bool:
    """Return whether cores are defined on the graph: no edge twice and no loop; components take any."""
    return kind != "kcore" or not (graph.has_parallel_edges or graph.has_self_loops)


# what ways share ------------------------------------------------------------------------------------------------------
def lengths(graph: Graph) -> Array:
    """Return the length of every edge, float64[E]; 1 without weights."""
    return np.ones(graph.num_edges) if graph.weights is None else graph.weights.astype(np.float64)


def matrix_of(graph: Graph, kind: str) -> Any:
    """Return SciPy's CSR matrix of out-edges, float64, every edge once: the least length, or how many there are."""
    from scipy.sparse import csr_matrix

    source, destination = graph.csr.row_of_edge.astype(np.int64), graph.csr.neighbours.astype(np.int64)
    first = np.ones(graph.num_edges, np.bool_)
    first[1:] = (source[1:] != source[:-1]) | (destination[1:] != destination[:-1])
    places = np.flatnonzero(first)
    values = lengths(graph) if kind == "sssp" else np.ones(graph.num_edges)
    reduce = np.minimum if kind == "sssp" else np.add
    data = reduce.reduceat(values, places) if len(places) else values
    size = (graph.num_vertices, graph.num_vertices)
    offsets = np.searchsorted(source[places], np.arange(graph.num_vertices + 1)).astype(np.int32)
    return csr_matrix((data, destination[places].astype(np.int32), offsets), shape=size)


def least_labels(component: Array, own: Array) -> Array:
    """Return the least of the labels ``own`` in the component of every vertex, float64[V]."""
    component = np.asarray(component, np.int64)
    least = np.full(int(component.max(initial=-1)) + 1, np.inf)
    np.minimum.at(least, component, own)
    return np.asarray(least[component])


def columns(parts: list[Any]) -> Array:
    """Return arrays of the vertices, one for each feature, as float64[V, k]."""
    return np.stack([np.asarray(part, np.float64) for part in parts], axis=1)
